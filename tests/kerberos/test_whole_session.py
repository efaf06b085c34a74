"""hudisql on a Kerberized metastore: Spark and the Thrift client log in alike, by ticket or keytab."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hudisql.catalog.embedded import render_hive_site
from tests.kerberos.metastore import SERVICE, SecuredMetastore
from tests.kerberos.realm import REALM, Realm

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kerberos, pytest.mark.soak]

MIGRATION = """
CREATE DATABASE {d};
CREATE TABLE {d}.trips (id INT, name STRING, dt STRING) USING parquet PARTITIONED BY (dt);
INSERT INTO {d}.trips VALUES (1, 'a', 'x'), (2, 'b', 'y');
CALL migrate_table(table => '{d}.trips', record_key => 'id');
MERGE INTO {d}.trips AS t USING (SELECT 2 AS id, 'B' AS name, 'y' AS dt) AS s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
ALTER TABLE {d}.trips ADD COLUMNS (fare DOUBLE);
ALTER TABLE {d}.trips RENAME TO {d}.rides;
SELECT id, name, fare, dt FROM {d}.rides ORDER BY id;
DROP TABLE {d}.rides;
DROP DATABASE {d} CASCADE;
"""


def run(
    warehouse: Path, statements: str, environment: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HUDISQL_", "KRB5"))}
    return subprocess.run(
        [
            *(sys.executable, "-m", "hudisql", "--master", "local[2]", *options),
            *("--warehouse", str(warehouse), "--format", "csv", "-e", statements),
        ],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def hive_directory(uri: str, core: Mapping[str, str], directory: Path) -> Path:
    """The client's configuration as a cluster's edge node has it: core-site.xml and hive-site.xml."""
    directory.mkdir()
    (directory / "core-site.xml").write_text(render_hive_site(core))
    site = {
        "hive.metastore.uris": uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE.replace("localhost", "_HOST"),
    }
    (directory / "hive-site.xml").write_text(render_hive_site(site))
    return directory


def logged_in(realm: Realm, directory: Path, cache: Path, login: str) -> Mapping[str, str]:
    """The environment of ada with the configuration in `directory`, by `ticket` (in `cache`) or `keytab`."""
    environment = {**realm.environment(f"FILE:{cache}"), "HADOOP_CONF_DIR": str(directory)}
    if login == "ticket":
        realm.kinit("ada", cache)
        return environment
    keytab = str(realm.keytab("ada"))
    return {
        **environment,
        "HUDISQL_KERBEROS_KEYTAB": keytab,
        "HUDISQL_KERBEROS_PRINCIPAL": f"ada@{REALM}",
    }


@pytest.mark.parametrize("login", ["ticket", "keytab"])
def test_a_table_is_migrated_with_the_settings_of_the_cluster_alone(
    realm: Realm, secured_metastore: SecuredMetastore, tmp_path: Path, login: str
) -> None:
    directory = hive_directory(secured_metastore.uri, secured_metastore.core, tmp_path / "conf")
    environment = logged_in(realm, directory, tmp_path / "ada.ticket", login)
    done = run(secured_metastore.warehouse, MIGRATION.format(d=f"of_{login}"), environment)
    assert done.returncode == 0, done.stderr
    assert "1,a,,x\n2,B,,y" in done.stdout.replace("\r", "")
    assert not (tmp_path / "ada.ticket").exists() or login == "ticket"


def test_a_missing_core_site_is_named_before_spark_starts(
    realm: Realm, secured_metastore: SecuredMetastore, tmp_path: Path
) -> None:
    realm.kinit("ada", tmp_path / "ada.ticket")
    environment = {
        **realm.environment(f"FILE:{tmp_path / 'ada.ticket'}"),
        "HADOOP_CONF_DIR": str(tmp_path),
        "HUDISQL_METASTORE_SASL": "true",
    }
    done = run(
        secured_metastore.warehouse, "SELECT * FROM d.t", environment, "--metastore", secured_metastore.uri
    )
    assert done.returncode != 0
    assert "no core-site.xml sets hadoop.security.authentication to kerberos" in done.stderr
    assert "HADOOP_CONF_DIR" in done.stderr


def test_no_ticket_is_named_before_spark_starts(
    realm: Realm, secured_metastore: SecuredMetastore, tmp_path: Path
) -> None:
    directory = hive_directory(secured_metastore.uri, secured_metastore.core, tmp_path / "conf")
    environment = {**realm.environment(f"FILE:{tmp_path / 'absent'}"), "HADOOP_CONF_DIR": str(directory)}
    done = run(secured_metastore.warehouse, "SELECT * FROM d.t", environment)
    assert done.returncode != 0
    assert "run kinit, or give a keytab" in done.stderr


JOINED = """
import os, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.enableHiveSupport().getOrCreate()
import hudisql
session = hudisql.connect(spark=spark)
print([database for database in session.context.metastore.list_databases()])
session.sql("SHOW TABLES IN default").show()
session.sql("CREATE TABLE joined_t (id INT) USING parquet")
session.sql("DROP TABLE joined_t")
print("done")
"""


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_session_of_the_user_s_hands_on_its_login(
    realm: Realm, secured_metastore: SecuredMetastore, tmp_path: Path, is_complete: bool
) -> None:
    realm.kinit("ada", tmp_path / "ada.ticket")
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HUDISQL_", "KRB5", "HADOOP_CONF_DIR"))
    }
    clean |= realm.environment(f"FILE:{tmp_path / 'ada.ticket'}")
    if is_complete:
        clean["HADOOP_CONF_DIR"] = str(secured_metastore.hadoop_directory)
    settings = [
        f"spark.hadoop.hive.metastore.uris={secured_metastore.uri}",
        "spark.hadoop.hive.metastore.sasl.enabled=true",
        f"spark.hadoop.hive.metastore.kerberos.principal={SERVICE}",
        f"spark.sql.warehouse.dir={secured_metastore.warehouse}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", JOINED, *settings], env=clean, capture_output=True, text=True, timeout=300
    )
    assert "'default'" in done.stdout, done.stderr[-4000:]
    if is_complete:
        assert "done" in done.stdout, done.stderr[-4000:]
    else:
        assert "Spark cannot log in to the metastore by Kerberos: GSS initiate failed" in done.stderr
