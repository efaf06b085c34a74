from __future__ import annotations

import pytest

from hudisql.errors import StorageError
from hudisql.storage import Storage, join


def test_the_default_name_service_completes_a_path() -> None:
    storage = Storage({"fs.defaultFS": "hdfs://cluster"})
    assert storage.qualify("hdfs:///a/b/") == "hdfs://cluster/a/b"
    assert storage.qualify("hdfs:/a%20b") == "hdfs://cluster/a%20b"
    assert storage.qualify("hdfs://other:8020/a") == "hdfs://other:8020/a"
    with pytest.raises(StorageError, match=r"fs\.defaultFS"):
        Storage().qualify("hdfs:///a")


@pytest.mark.slow
@pytest.mark.oracle
def test_a_name_service_finds_the_active_one_of_its_name_nodes(hdfs_uri: str) -> None:
    storage = Storage(
        {
            "fs.defaultFS": "hdfs://cluster",
            "dfs.nameservices": "cluster",
            "dfs.ha.namenodes.cluster": "away,active",
            "dfs.namenode.rpc-address.cluster.away": "127.0.0.1:1",
            "dfs.namenode.rpc-address.cluster.active": hdfs_uri.removeprefix("hdfs://"),
        }
    )
    path = join(storage.qualify("hdfs:///high-available"), "x")
    storage.create(path, b"1")
    assert [file.path for file in storage.list_files("hdfs://cluster/high-available")] == [path]
    assert Storage().read(f"{hdfs_uri}/high-available/x") == b"1"


@pytest.mark.slow
@pytest.mark.oracle
def test_errors_are_one_line_without_javas_trace(hdfs_uri: str) -> None:
    storage = Storage()
    storage.write(f"{hdfs_uri}/plain", b"1")
    with pytest.raises(StorageError) as caught:
        storage.write(f"{hdfs_uri}/plain/below", b"1")
    assert "plain/below" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "at org.apache" not in str(caught.value)
    with pytest.raises(StorageError, match="it is a file"):
        storage.delete_directory(f"{hdfs_uri}/plain")
    with pytest.raises(StorageError, match="the root"):
        storage.delete_directory(hdfs_uri)
