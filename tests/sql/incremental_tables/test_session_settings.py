"""A refresh runs its query by the settings of the definition, whatever its session says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.errors import InvalidArgumentError
from hudisql.session import Session
from hudisql.spark.jvm import scala_object
from hudisql.sql.incremental_tables.definition import definition_of
from hudisql.sql.incremental_tables.session_settings import gives_meaning, settings_of_session
from tests.soak import parameters as cases
from tests.sql.changed_tables import setting
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]

POLICY = "hoodie.read.timeline.holes.resolution.policy"
LEGACY_CASTS = "spark.sql.legacy.castComplexTypesToString.enabled"
OTHER = {
    LEGACY_CASTS: "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.groupByAliases": "false",
}
QUERY = (
    "SELECT id, CAST(named_struct('a', amount) AS STRING) AS text, 'a\\tb' AS tab, \"quoted\" AS quoted, "
    "CAST(TIMESTAMP '2024-07-01 12:00:00' AS STRING) AS at, to_json(named_struct('n', note)) AS json, "
    "typeof(TIMESTAMP '2024-07-01 12:00:00') AS kind FROM orders"
)


@contextmanager
def settings(session: Session, values: Mapping[str, str]) -> Iterator[None]:
    conf = session.spark.conf
    before = {name: conf.get(name, None) for name in values}
    for name, value in values.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            earlier = before[name]
            if earlier is None:
                conf.unset(name)
            else:
                conf.set(name, earlier)


def test_the_settings_of_another_session_change_no_row(layers: Session) -> None:
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    layers.sql("UPDATE orders SET note = NULL, amount = 11 WHERE id = 1")
    with settings(layers, OTHER):
        row = refresh(layers)
        assert {name: layers.spark.conf.get(name) for name in OTHER} == OTHER
    assert (row["way"], row["rows_updated"]) == ("rows", 1)
    assert_fresh(layers, QUERY)


def test_the_settings_of_the_definition_are_kept(layers: Session) -> None:
    own = {name: OTHER[name] for name in (LEGACY_CASTS, "spark.sql.timestampType")}
    with settings(layers, own):
        layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
        assert settings_of_session(layers.context).items() >= own.items()
    layers.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    row = refresh(layers)
    assert (row["way"], row["rows_updated"]) == ("rows", 1)
    assert LEGACY_CASTS not in settings_of_session(layers.context)
    with settings(layers, own):
        assert_fresh(layers, QUERY)
    assert layers.sql("SELECT DISTINCT kind FROM t").rows == [("timestamp_ntz",)]
    assert layers.sql("SELECT text FROM t WHERE id = 1").rows == [("[11]",)]


def test_a_definition_of_few_settings_leaves_the_others(layers: Session) -> None:
    with settings(layers, {LEGACY_CASTS: "true"}):
        layers.sql(f"CREATE INCREMENTAL TABLE t AS {QUERY}")
    entry = layers.context.metastore.get_table("layers", "t")
    assert entry is not None
    stored = definition_of(entry)
    assert stored is not None
    few = replace(stored, settings={"spark.sql.session.timeZone": "UTC"})
    parameters = {**entry.parameters, **few.properties()}
    alter_guarded(layers.context.metastore, entry, replace(entry, parameters=parameters))
    layers.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    with settings(layers, {LEGACY_CASTS: "true"}):
        refresh(layers)
        assert_fresh(layers, QUERY)


@pytest.mark.parametrize("version", cases([6, 9], in_ci=[6]))
def test_a_policy_by_times_of_completion_is_refused(layers: Session, version: int) -> None:
    layers.sql(
        "CREATE TABLE src (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        f"'hoodie.write.table.version' = '{version}')"
    )
    layers.sql("INSERT INTO src VALUES (1, 1)")
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, v FROM src")
    layers.sql("INSERT INTO src VALUES (2, 2)")
    with setting(layers, POLICY, "USE_TRANSITION_TIME"):
        for text in (
            "REFRESH INCREMENTAL TABLE t",
            "EXPLAIN REFRESH INCREMENTAL TABLE t",
            "CREATE INCREMENTAL TABLE u AS SELECT id, v FROM src",
        ):
            with pytest.raises(InvalidArgumentError, match=rf"(?s){POLICY} is USE_TRANSITION_TIME.*= BLOCK"):
                layers.sql(text)
    with setting(layers, POLICY, "BLOCK"):
        assert refresh(layers)["rows_inserted"] == 1
    assert_fresh(layers, "SELECT id, v FROM src")


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("spark.sql.legacy.sizeOfNull", True),
        ("spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled", True),
        ("spark.sql.timestampType", True),
        ("spark.sql.files.ignoreMissingFiles", True),
        ("spark.sql.parquet.datetimeRebaseModeInRead", True),
        ("spark.sql.shuffle.partitions", False),
        ("spark.sql.adaptive.enabled", False),
        ("spark.sql.optimizer.excludedRules", False),
        ("spark.sql.storeAssignmentPolicy", False),
        ("spark.executor.memory", False),
        ("hoodie.clean.automatic", False),
    ],
)
def test_settings_that_only_say_how_spark_runs_stay_the_sessions(name: str, is_kept: bool) -> None:
    assert gives_meaning(name) == is_kept


def test_all_settings_of_spark_named_legacy_are_kept(spark: Any) -> None:
    entries = scala_object(spark, "org.apache.spark.sql.internal.SQLConf").getConfigEntries().toArray()
    legacy = [each.key() for each in entries if each.key().startswith("spark.sql.legacy.")]
    assert len(legacy) > 50
    assert all(map(gives_meaning, legacy))
