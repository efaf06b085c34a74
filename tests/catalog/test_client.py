"""The metastore client, against a real Hive Metastore 2.3.10."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.connection import (
    MetastoreAddress,
    parse_metastore_uris,
)
from hudisql.catalog.embedded import acquire_embedded_metastore
from hudisql.catalog.metastore_login import MetastoreSecurity, kerberos_security
from hudisql.catalog.metastore_table import (
    HUDI_INPUT_FORMAT,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
    hudi_base_path,
    is_hudi_table,
)
from hudisql.errors import (
    MetastoreError,
    MetastoreUnavailableError,
    NoSuchTableError,
    SettingsError,
    TableExistsError,
)

pytestmark = pytest.mark.hms


def _table(database: str, directory: Path, name: str = "plain") -> MetastoreTable:
    return MetastoreTable(
        database,
        name,
        "EXTERNAL_TABLE",
        f"file:{directory}",
        (MetastoreColumn("a", "int", "größer als 0"), MetastoreColumn("b", "string")),
        (MetastoreColumn("dt", "date"),),
        owner="me",
        input_format="org.apache.hadoop.mapred.TextInputFormat",
        output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        parameters={"EXTERNAL": "TRUE"},
    )


@contextmanager
def _listener(answer: bytes) -> Iterator[int]:
    """A server that says `answer` to whoever connects and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(64)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def _receive(connection: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            raise EOFError
        content += part
    return content


@contextmanager
def _sasl_gateway(metastore_port: int) -> Iterator[tuple[int, list[bytes]]]:
    """A server that asks for SASL PLAIN and passes what comes then on to a metastore without SASL."""
    logins: list[bytes] = []

    def receive_message(connection: socket.socket) -> tuple[int, bytes]:
        status, length = struct.unpack(">BI", _receive(connection, 5))
        return status, _receive(connection, length)

    def pass_back(metastore: socket.socket, connection: socket.socket) -> None:
        while part := metastore.recv(65536):
            connection.sendall(struct.pack(">I", len(part)) + part)

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, socket.create_connection(("127.0.0.1", metastore_port)) as metastore:
            assert receive_message(connection) == (1, b"PLAIN")
            logins.append(receive_message(connection)[1])
            connection.sendall(struct.pack(">BI", 5, 0))
            back = threading.Thread(target=pass_back, args=(metastore, connection))
            back.start()
            try:
                while True:
                    (length,) = struct.unpack(">I", _receive(connection, 4))
                    metastore.sendall(_receive(connection, length))
            except EOFError:
                metastore.shutdown(socket.SHUT_RDWR)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1], logins
        thread.join()


def test_databases_come_and_go(client: MetastoreClient, database: str, tmp_path: Path) -> None:
    assert client.get_database(database) is None
    assert client.list_tables(database) == []
    assert client.create_database(database.upper(), f"file:{tmp_path}/db", "for a test")
    assert not client.create_database(database)
    found = client.get_database(database)
    assert found is not None
    assert (found.name, found.location) == (database, f"file:{tmp_path}/db")
    client.create_table(_table(database, tmp_path))
    with pytest.raises(MetastoreError, match="not empty"):
        client.drop_database(database)
    assert client.drop_table(database, "plain")
    assert client.drop_database(database)
    assert not client.drop_database(database)


def test_a_table_comes_back_as_it_was_made(client: MetastoreClient, database: str, tmp_path: Path) -> None:
    client.create_database(database)
    made = _table(database, tmp_path)
    client.create_table(made)
    found = client.get_table(database.upper(), "PLAIN")
    assert found is not None
    assert replace(found, parameters=made.parameters, raw=None) == made
    with pytest.raises(TableExistsError, match="exists already"):
        client.create_table(made)
    assert client.get_table(database, "absent") is None
    assert not client.drop_table(database, "absent")


def test_altering_a_table_loses_nothing_that_its_value_does_not_show(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    client.create_database(database)
    client.create_table(_table(database, tmp_path))
    found = client.get_table(database, "plain")
    assert found is not None
    found.raw.sd.bucketCols = ["a"]
    found.raw.sd.numBuckets = 4
    client.alter_table(found)
    again = client.get_table(database, "plain")
    assert again is not None
    client.alter_table(replace(again, parameters={**again.parameters, "note": "x"}))
    last = client.get_table(database, "plain")
    assert last is not None
    assert (last.raw.sd.bucketCols, last.raw.sd.numBuckets) == (["a"], 4)
    assert last.parameters["note"] == "x"


def test_a_server_that_gathers_statistics_gathers_none_of_our_tables(database: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("1")
    options = ["-Dhive.stats.autogather=true", "-Dderby.system.durability=test"]
    with (
        acquire_embedded_metastore(tmp_path / "warehouse", java_options=options) as metastore,
        MetastoreClient(metastore.uri) as client,
    ):
        client.create_database(database)
        client.create_table(replace(_table(database, tmp_path / "data"), partition_columns=()))
        for note in ("x", "y"):
            found = client.get_table(database, "plain")
            assert found is not None
            assert set(found.parameters) - {"note"} == {"EXTERNAL", "transient_lastDdlTime"}
            more = (*found.columns, MetastoreColumn(note, "int"))
            client.alter_table(replace(found, columns=more, parameters={**found.parameters, "note": note}))


def test_partitions_of_an_absent_table_are_an_error_that_names_it(client: MetastoreClient) -> None:
    with pytest.raises(NoSuchTableError, match=r"default\.absent"):
        client.list_partitions("default", "absent")


def test_existing_partitions_do_not_hinder_the_adding_of_others(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    client.create_database(database)
    table = _table(database, tmp_path)
    client.create_table(table)
    days = [
        MetastorePartition((f"2024-03-{day:02}",), f"file:{tmp_path}/{day}", columns=table.columns)
        for day in range(1, 8)
    ]
    client.add_partitions(table, days[:3], batch=2)
    client.add_partitions(table, days, batch=2)
    assert [found.values for found in client.list_partitions(database, "plain")] == [
        day.values for day in days
    ]
    client.drop_partitions(table, [day.values for day in days[:5]] + [("1999-01-01",)], batch=2)
    assert client.list_partition_names(database, "plain") == ["dt=2024-03-06", "dt=2024-03-07"]
    client.drop_partitions(table, [])
    client.add_partitions(table, [])


def test_one_client_serves_many_threads(client: MetastoreClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get_database("default"), range(64)))
    assert {answer.name for answer in answers if answer} == {"default"}


def test_of_racing_creators_one_wins(metastore_uri: str, database: str, tmp_path: Path) -> None:
    with MetastoreClient(metastore_uri) as first:
        first.create_database(database)

    def create(_: int) -> bool:
        with MetastoreClient(metastore_uri) as own:
            try:
                own.create_table(_table(database, tmp_path))
            except TableExistsError:
                return False
            return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(6))) == 1


def test_the_next_metastore_answers_when_the_first_does_not(metastore_uri: str) -> None:
    with MetastoreClient(f"thrift://127.0.0.1:1,{metastore_uri}") as client:
        assert "default" in client.list_databases()


def test_a_broken_connection_is_opened_again(client: MetastoreClient) -> None:
    assert client.get_database("default") is not None
    # What a restarted server or a firewall does to an idle connection.
    client._connection._client._iprot.trans._TBufferedTransport__trans.handle.shutdown(socket.SHUT_RDWR)
    assert client.get_database("default") is not None


def test_a_broken_connection_does_not_repeat_what_must_not_be_repeated(
    client: MetastoreClient, database: str
) -> None:
    client.list_databases()
    client._connection._client._iprot.trans._TBufferedTransport__trans.handle.shutdown(socket.SHUT_RDWR)
    # The connection is proved alive first, so the creation itself is sent once.
    assert client.create_database(database)


def test_no_metastore_at_all_is_one_error_that_names_each() -> None:
    with (
        MetastoreClient("thrift://127.0.0.1:1,thrift://127.0.0.1:2", attempts=2) as client,
        pytest.raises(MetastoreUnavailableError) as raised,
    ):
        client.list_databases()
    assert "thrift://127.0.0.1:1" in str(raised.value)
    assert "thrift://127.0.0.1:2" in str(raised.value)


def test_a_server_that_is_no_metastore_is_an_error_that_says_so() -> None:
    with (
        _listener(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 200) as port,
        MetastoreClient(f"thrift://127.0.0.1:{port}", attempts=1) as client,
        pytest.raises(MetastoreError),
    ):
        client.list_databases()


def test_sasl_speaks_to_the_server_and_reports_its_refusal() -> None:
    refusal = b"no such user"
    answer = struct.pack(">BI", 3, len(refusal)) + refusal
    security = MetastoreSecurity("PLAIN", user="me", password="secret")
    with (
        _listener(answer) as port,
        MetastoreClient(f"thrift://127.0.0.1:{port}", security=security, attempts=1) as client,
        pytest.raises(MetastoreUnavailableError, match="no such user"),
    ):
        client.list_databases()
    assert "secret" not in repr(security)


def test_sasl_plain_logs_in_and_carries_every_call(metastore_uri: str) -> None:
    security = MetastoreSecurity("PLAIN", user="me", password="secret")
    port = int(metastore_uri.rsplit(":", 1)[1])
    with (
        _sasl_gateway(port) as (gateway, logins),
        MetastoreClient(f"thrift://127.0.0.1:{gateway}", security=security) as client,
    ):
        assert "default" in client.list_databases()
        assert client.get_table("default", "absent") is None
    assert logins == [b"\0me\0secret"]


def test_kerberos_without_its_package_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    any_host = kerberos_security("hive/_HOST@EXAMPLE.COM").server
    assert any_host.name_on("Node1") == "hive/node1@EXAMPLE.COM"
    assert kerberos_security("metastore/node1").server.name_on("10.0.0.1") == "metastore@node1"
    with pytest.raises(SettingsError, match="no protection 'full'"):
        kerberos_security("hive/h@R", protection="privacy,full")
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(SettingsError, match="needs the package gssapi"):
        MetastoreClient("thrift://localhost", security=kerberos_security("hive/h@R"))
    with pytest.raises(SettingsError, match="user name"):
        MetastoreClient("thrift://localhost", security=MetastoreSecurity("PLAIN"))
    with pytest.raises(SettingsError, match="unknown metastore authentication"):
        MetastoreClient("thrift://localhost", security=MetastoreSecurity("NTLM"))


def test_uris_are_read_as_hive_writes_them() -> None:
    assert parse_metastore_uris("thrift://a:1, thrift://b,c:2,[::1]:3") == (
        MetastoreAddress("a", 1),
        MetastoreAddress("b", 9083),
        MetastoreAddress("c", 2),
        MetastoreAddress("::1", 3),
    )
    for bad in ("", "http://a:1", "thrift://a:x", "thrift://a/b"):
        with pytest.raises(SettingsError):
            parse_metastore_uris(bad)


@pytest.mark.parametrize(
    ("changes", "hudi", "base_path"),
    [
        ({"parameters": {"spark.sql.sources.provider": "hudi"}}, True, "file:/t"),
        ({"parameters": {"spark.sql.sources.provider": "HUDI"}}, True, "file:/t"),
        ({"input_format": HUDI_INPUT_FORMAT}, True, "file:/t"),
        ({"input_format": "com.uber.hoodie.hadoop.HoodieInputFormat"}, True, "file:/t"),
        (
            {"input_format": HUDI_INPUT_FORMAT, "serde_properties": {"path": "s3://b/t"}},
            True,
            "s3://b/t",
        ),
        ({"parameters": {"spark.sql.sources.provider": "parquet"}}, False, None),
        ({"table_type": "VIRTUAL_VIEW", "input_format": HUDI_INPUT_FORMAT}, False, None),
        ({"serde_properties": {"path": "file:/t"}}, False, None),
    ],
)
def test_a_hudi_table_is_told_by_provider_or_input_format(
    changes: dict[str, Any], hudi: bool, base_path: str | None
) -> None:
    table = replace(MetastoreTable("d", "t", "EXTERNAL_TABLE", "file:/t", ()), **changes)
    assert is_hudi_table(table) == hudi
    assert hudi_base_path(table) == base_path
