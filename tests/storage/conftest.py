"""The stores that the contract is tested on: each a `Storage` and a fresh directory in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudisql.storage import Storage
from tests.storage.servers import BUCKET, hdfs_cluster, s3_server


@dataclass(frozen=True)
class Store:
    storage: Storage
    root: str


@pytest.fixture(scope="session")
def s3_settings() -> Iterator[dict[str, str]]:
    with s3_server() as settings:
        yield settings


@pytest.fixture(scope="session")
def hdfs_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


@pytest.fixture(params=["local", "s3", pytest.param("hdfs", marks=[pytest.mark.slow, pytest.mark.oracle])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Store(Storage(), str(tmp_path / "directory"))
    directory = uuid.uuid4().hex
    if request.param == "s3":
        return Store(Storage(request.getfixturevalue("s3_settings")), f"s3a://{BUCKET}/{directory}")
    return Store(Storage(), f"{request.getfixturevalue('hdfs_uri')}/{directory}")
