"""connect(): joining the user's own SparkSession, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import hudisql
from hudisql.config.settings import Settings
from hudisql.console import PlainConsole, SilentConsole
from hudisql.context import Context, split_identifier
from hudisql.errors import InvalidArgumentError, SettingsError
from hudisql.spark.spark_session import spark_configuration


def test_our_own_spark_gets_metastore_warehouse_and_quiet_and_the_user_s_settings_last() -> None:
    settings = Settings(
        master="local[2]",
        conf={"spark.ui.enabled": "true", "spark.x": "1"},
        hiveconf={"hive.y": "2", "fs.s3a.endpoint": "e"},
        metastore_sasl=True,
        metastore_principal="hive/_HOST@R",
    )
    configuration = spark_configuration(settings, "/data/w", ("thrift://a:1", "thrift://b:2"))
    assert configuration["spark.hadoop.hive.metastore.uris"] == "thrift://a:1,thrift://b:2"
    assert configuration["spark.sql.catalogImplementation"] == "hive"
    assert configuration["spark.sql.warehouse.dir"] == "file:/data/w"
    assert configuration["spark.ui.enabled"] == "true"
    assert configuration["spark.python.sql.dataFrameDebugging.enabled"] == "false"
    assert configuration["spark.x"] == "1"
    assert configuration["spark.hadoop.hive.y"] == "2"
    assert configuration["spark.hadoop.hive.metastore.sasl.enabled"] == "true"
    assert configuration["spark.driver.bindAddress"] == "127.0.0.1"
    assert configuration["spark.hadoop.fs.s3a.endpoint"] == "e"
    on_yarn = spark_configuration(Settings(master="yarn"), "/data/w", ("thrift://a:1",))
    assert "spark.driver.bindAddress" not in on_yarn


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t", ("t",)),
        ("db.t", ("db", "t")),
        ("`a.b`.`c``d`", ("a.b", "c`d")),
        (" spark_catalog . db . t ", ("spark_catalog", "db", "t")),
    ],
)
def test_identifiers_are_split_at_dots_outside_of_backticks(name: str, parts: tuple[str, ...]) -> None:
    assert split_identifier(name) == parts


@pytest.mark.spark
@pytest.mark.hms
def test_a_user_s_spark_is_joined_and_left_as_it_was(
    spark: Any, metastore_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    before = dict(spark.sparkContext.getConf().getAll())
    with hudisql.connect(spark=spark, console=SilentConsole()) as session:
        assert session.spark is spark
        assert session.context.metastore.uris == metastore_uri
        assert session.context.warehouse == session.context.storage.qualify(
            str(spark.conf.get("spark.sql.warehouse.dir"))
        )
        assert session.sql("SELECT 1 AS a").rows[0].a == 1
    assert dict(spark.sparkContext.getConf().getAll()) == before
    assert spark.sql("SELECT 2").collect()[0][0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.hms
def test_without_a_spark_argument_the_running_one_is_taken_and_named(spark: Any, capsys: Any) -> None:
    import sys

    with hudisql.connect(console=PlainConsole(sys.stderr)) as session:
        assert session.spark is spark
    assert "using the SparkSession that runs already" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.hms
def test_another_metastore_than_spark_s_is_refused(spark: Any) -> None:
    with pytest.raises(SettingsError, match="the SparkSession works on the metastore"):
        hudisql.connect(metastore="thrift://127.0.0.1:9", spark=spark, console=SilentConsole())


@pytest.mark.spark
@pytest.mark.hms
def test_table_names_are_qualified_with_the_current_database(session: Any) -> None:
    context: Context = session.context
    assert context.qualify_table_name("T") == ("default", "t")
    assert context.qualify_table_name("`DB`.T") == ("db", "t")
    assert context.qualify_table_name("spark_catalog.db.t") == ("db", "t")
    for bad in ("a.b.c", "", "a."):
        with pytest.raises(InvalidArgumentError, match="is not a table name"):
            context.qualify_table_name(bad)
