"""A Kerberized HDFS: hudisql's own client, and a table migrated on it beside a Kerberized metastore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hudisql.catalog.embedded import render_hive_site
from hudisql.errors import StorageError
from hudisql.java_runtime import find_java_home
from hudisql.storage import Storage
from scripts.setup_oracles import install_hadoop
from tests.kerberos.hdfs import SecuredHdfs, start_secured_hdfs
from tests.kerberos.metastore import start_secured_metastore
from tests.kerberos.realm import Realm
from tests.kerberos.test_whole_session import MIGRATION, hive_directory, logged_in, run

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


IN_A_CONTAINER = """
import json, os, sys
from hudisql.storage import Storage
uri, settings = sys.argv[1], json.loads(sys.argv[2])
given = os.environ["HADOOP_TOKEN_FILE_LOCATION"]
for _ in range(2):
    storage = Storage(settings)
    storage.write(uri + "/tokens/b", storage.read(uri + "/tokens/a"))
copied = os.environ["HADOOP_TOKEN_FILE_LOCATION"]
assert copied != given
assert os.stat(copied).st_mode & 0o077 == 0
# The secret key behind the tokens is there, too.
assert open(copied, "rb").read().endswith(open(given, "rb").read()[-310:])
print(copied)
"""


def test_a_token_of_the_address_opens_the_name_node_by_its_name(
    realm: Realm, secured_hdfs: SecuredHdfs, ticket: Path, tmp_path: Path
) -> None:
    """A container has tokens and no ticket."""
    uri = secured_hdfs.uri
    Storage(secured_hdfs.client).write(f"{uri}/tokens/a", b"a")
    tokens = fetch_tokens(realm, secured_hdfs, tmp_path)
    assert b"127.0.0.1:" in tokens.read_bytes()
    ticket.unlink()

    def in_a_container(token_file: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HADOOP_TOKEN_FILE_LOCATION": str(token_file)}
        command = [sys.executable, "-c", IN_A_CONTAINER, uri, json.dumps(dict(secured_hdfs.client))]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    assert "Kerberos credentials" in in_a_container(tmp_path / "absent").stderr
    done = in_a_container(tokens)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()
    assert Storage(secured_hdfs.client).read(f"{uri}/tokens/b") == b"a"


def fetch_tokens(realm: Realm, hdfs: SecuredHdfs, directory: Path) -> Path:
    conf, tokens = directory / "conf", directory / "tokens"
    conf.mkdir()
    (conf / "core-site.xml").write_text(render_hive_site(hdfs.client))
    subprocess.run(
        [
            *(f"{find_java_home()}/bin/java", realm.java_option, "-cp", f"{conf}:{install_hadoop()}/*"),
            *(str(Path(__file__).with_name("FetchToken.java")), hdfs.uri, str(tokens)),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return tokens


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("login", ["ticket", "keytab"])
def test_a_table_on_hdfs_is_migrated(
    realm: Realm, secured_hdfs: SecuredHdfs, tmp_path: Path, login: str
) -> None:
    metastore = start_secured_metastore(tmp_path / "secured", realm, hadoop=secured_hdfs.client)
    try:
        directory = hive_directory(metastore.uri, metastore.core, tmp_path / "conf")
        environment = logged_in(realm, directory, tmp_path / "ada.ticket", login)
        location = f"CREATE DATABASE {{d}} LOCATION '{secured_hdfs.uri}/{login}.db'"
        statements = MIGRATION.replace("CREATE DATABASE {d}", location).format(d=f"of_{login}")
        done = run(metastore.warehouse, statements, environment)
        assert done.returncode == 0, done.stderr
        assert "1,a,,x\n2,B,,y" in done.stdout.replace("\r", "")
    finally:
        metastore.close()
