"""`on_schema_drift`: files whose columns differ, by SQL from the refusal to the verified table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import BootstrapBlockedError, InvalidArgumentError
from tests.sources import fingerprint, orders, write_parquet
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, pytest.mark.hms]
Call = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two files of which the older one has a narrower `seq` and no `note`."""
    newer = orders(20, note=pa.array(["n"] * 20))
    older = orders().set_column(1, "seq", pa.array(range(20), pa.int32()))
    write_parquet(tmp_path / "s" / "dt=1" / "old.parquet", older)
    write_parquet(tmp_path / "s" / "dt=2" / "new.parquet", newer)
    return tmp_path / "s"


def test_differing_files_stop_the_run_and_the_error_names_both_ways_on(
    call: Call, source: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(BootstrapBlockedError, match="column note is missing in 1 file") as raised:
        call("bootstrap_table", table=name, source=source, record_key="id", target_path=tmp_path / "t")
    assert "seq int in 1 file" in raised.value.message
    assert "on_schema_drift => 'widen'" in raised.value.message
    assert "dry_run => true names every file" in raised.value.message
    assert not (tmp_path / "t").exists()


def test_a_dry_run_names_each_file_that_differs(call: Call, source: Path, tmp_path: Path, name: str) -> None:
    before = fingerprint(source)
    rows = call(
        "bootstrap_table",
        table=name,
        source=source,
        record_key="id",
        target_path=tmp_path / "t",
        on_schema_drift="widen",
        dry_run=True,
    )
    told = [row["warnings"] for row in rows if row["files"] == 1 and row["partition"] == "(table)"]
    assert told == [f"{source}/dt=1/old.parquet: seq is int, the table's seq bigint; note is missing"]
    assert not (tmp_path / "t").exists()
    assert fingerprint(source) == before


@needs_spark("4.0", "scans of files from before a column was widened")
def test_widened_files_are_bootstrapped_verified_and_read(
    call: Call, session: Any, source: Path, tmp_path: Path, name: str
) -> None:
    rows = call(
        "bootstrap_table",
        table=name,
        source=source,
        record_key="id",
        target_path=tmp_path / "t",
        on_schema_drift="widen",
    )
    assert "column note is missing in 1 file" in rows[-1]["warnings"]
    assert call("verify_bootstrap", table=name, level="full")
    found = session.sql(f"SELECT seq, note, dt, _hoodie_record_key AS k FROM {name} ORDER BY seq").rows
    assert [(row.seq, row.note, row.dt, row.k) for row in found] == [
        (number, None if number < 20 else "n", "1" if number < 20 else "2", f"k{number:05d}")
        for number in range(40)
    ]


def test_a_key_column_that_files_lack_or_that_changes_its_text_is_a_blocker(
    call: Call, tmp_path: Path, name: str
) -> None:
    ratios = pa.array([number / 3 for number in range(20)], pa.float32())
    write_parquet(tmp_path / "s" / "a.parquet", orders(r=ratios, k=pa.array(["x"] * 20)))
    write_parquet(tmp_path / "s" / "b.parquet", orders(20, r=ratios.cast(pa.float64())))
    for key, words in (("k", "record key column k is missing in 1 file"), ("r", "would not find the keys")):
        with pytest.raises(BootstrapBlockedError, match=words):
            call(
                "bootstrap_table",
                table=name,
                source=tmp_path / "s",
                record_key=key,
                target_path=tmp_path / "t",
                on_schema_drift="widen",
            )
    assert not (tmp_path / "t").exists()


def test_an_unknown_word_is_refused(call: Call, source: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="'report' is not supported") as raised:
        call("bootstrap_table", table=name, source=source, record_key="id", on_schema_drift="report")
    assert "dry_run => true" in str(raised.value.hint)
    with pytest.raises(InvalidArgumentError, match="on_schema_drift 'merge' is unknown"):
        call("bootstrap_table", table=name, source=source, record_key="id", on_schema_drift="merge")
