"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage import Storage

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class GoldenTable:
    name: str
    table: str
    source: str
    schema: dict[str, Any]
    rows: list[dict[str, Any]]
    meta_rows: list[Any]


@cache
def _unpack_golden(name: str) -> GoldenTable:
    # The real Hudi stored absolute paths below /tmp/golden in the tables' index and properties.
    folder = Path("/tmp/golden")
    if not (folder / name / "table" / ".hoodie" / "hoodie.properties").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
            archive.extractall(folder)
    described = json.loads((GOLDEN / f"{name}.json").read_text())
    return GoldenTable(
        name,
        str(folder / name / "table"),
        str(folder / name / "source"),
        described["schema"],
        described["rows"],
        described["hoodie_meta_rows"],
    )


@pytest.fixture(scope="session")
def golden() -> Callable[[str], GoldenTable]:
    return _unpack_golden


@pytest.fixture(scope="session")
def storage() -> Storage:
    return Storage()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("hudisql-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()
