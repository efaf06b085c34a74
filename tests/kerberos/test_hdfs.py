"""A Kerberized HDFS: hudisql's own client, and a table migrated on it beside a Kerberized metastore."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.errors import StorageError
from hudisql.storage import Storage
from tests.kerberos.hdfs import SecuredHdfs, start_secured_hdfs
from tests.kerberos.metastore import start_secured_metastore
from tests.kerberos.realm import REALM, Realm
from tests.kerberos.test_whole_session import MIGRATION, hive_directory, run

pytestmark = [pytest.mark.kerberos, pytest.mark.soak]


@pytest.mark.parametrize("protection", ["authentication", "privacy"])
def test_files_are_written_and_read_under_each_protection(
    realm: Realm, tmp_path: Path, ticket: Path, protection: str
) -> None:
    assert ticket.exists()
    hdfs = start_secured_hdfs(tmp_path / "hdfs", realm, protection)
    try:
        storage = Storage(hdfs.client)
        storage.create(f"{hdfs.uri}/d/a", b"a" * 3_000_000)
        assert storage.read(f"{hdfs.uri}/d/a") == b"a" * 3_000_000
    finally:
        hdfs.close()


def test_without_the_data_nodes_protection_no_empty_file_is_left(
    secured_hdfs: SecuredHdfs, ticket: Path
) -> None:
    assert ticket.exists()
    settings = {
        key: value for key, value in secured_hdfs.client.items() if key != "dfs.data.transfer.protection"
    }
    storage = Storage(settings)
    with pytest.raises(StorageError, match=r"cannot write .*/e/a") as raised:
        storage.write(f"{secured_hdfs.uri}/e/a", b"a")
    assert "dfs.data.transfer.protection" in str(raised.value.hint)
    assert storage.list_directory(f"{secured_hdfs.uri}/e") == []


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("login", ["ticket", "keytab"])
def test_a_table_on_hdfs_is_migrated(
    realm: Realm, secured_hdfs: SecuredHdfs, tmp_path: Path, login: str
) -> None:
    metastore = start_secured_metastore(tmp_path / "secured", realm, hadoop=secured_hdfs.client)
    try:
        directory = hive_directory(metastore, tmp_path / "conf")
        cache = tmp_path / "ada.ticket"
        environment = {**realm.environment(f"FILE:{cache}"), "HADOOP_CONF_DIR": str(directory)}
        if login == "ticket":
            realm.kinit("ada", cache)
        else:
            environment |= {
                "HUDISQL_KERBEROS_KEYTAB": str(realm.keytab("ada")),
                "HUDISQL_KERBEROS_PRINCIPAL": f"ada@{REALM}",
            }
        location = f"CREATE DATABASE {{d}} LOCATION '{secured_hdfs.uri}/{login}.db'"
        statements = MIGRATION.replace("CREATE DATABASE {d}", location).format(d=f"of_{login}")
        done = run(metastore, statements, environment)
        assert done.returncode == 0, done.stderr
        assert "1,a,,x\n2,B,,y" in done.stdout.replace("\r", "")
    finally:
        metastore.close()
