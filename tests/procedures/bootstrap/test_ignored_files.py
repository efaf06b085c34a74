"""Files of a source that are left out by name: `ignore`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import BootstrapBlockedError, InvalidArgumentError
from tests.sources import orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]

Call = Callable[..., list[dict[str, Any]]]


def count(session: Any, table: str) -> int:
    return int(session.sql(f"SELECT count(*) FROM {table}").rows[0][0])


@pytest.fixture
def strewn(daily_orders: Path) -> Path:
    """The daily orders with a note beside the partitions and one in each."""
    for directory in (daily_orders, *daily_orders.glob("dt=*")):
        (directory / "notes.csv").write_text("who,what\n")
    return daily_orders


def test_stray_files_are_left_out_by_name_at_the_bootstrap_and_ever_after(
    call: Call, bootstrap: Call, session: Any, strewn: Path, name: str
) -> None:
    shutil.copy(strewn / "notes.csv", strewn / "dt=2024-03-01" / "readme.1")
    (strewn / "notes.csv").unlink()
    with pytest.raises(BootstrapBlockedError, match=r"ignore => '\*\.1,\*\.csv' leaves out files by name"):
        bootstrap()
    planned = bootstrap(ignore="*.csv, readme*", dry_run=True)
    assert [row["warnings"] for row in planned if "ignored" in (row["warnings"] or "")] == [
        "ignored by '*.csv,readme*': 3 files: dt=2024-03-01/notes.csv, dt=2024-03-01/readme.1,"
        " dt=2024-03-02/notes.csv"
    ]
    done = bootstrap(ignore="*.csv, readme*")
    assert "ignored by '*.csv,readme*': 3 files" in done[-1]["warnings"]
    assert (done[-1]["files"], count(session, name)) == (4, 80)
    (checked,) = call("verify_bootstrap", table=name, level="full")
    assert checked["severity"] == "ok"
    (strewn / "dt=2024-03-02" / "more.csv").write_text("who,what\n")
    write_parquet(strewn / "dt=2024-03-02" / "part-9.parquet", orders(900))
    (*new, checked) = call("verify_bootstrap", table=name)
    assert [Path(row["path"]).name for row in new] == ["part-9.parquet"]
    call("resync_bootstrap", table=name)
    assert count(session, name) == 100


def test_a_file_beside_the_partitions_is_ignored_and_the_error_names_the_parameter(
    bootstrap: Call, strewn: Path, session: Any, name: str
) -> None:
    for path in strewn.glob("dt=*/notes.csv"):
        path.unlink()
    with pytest.raises(BootstrapBlockedError, match="ignore => 'NAME' leaves out"):
        bootstrap()
    bootstrap(ignore="notes.csv")
    assert count(session, name) == 80


def test_an_ignored_parquet_file_is_a_warning_whatever_its_name(
    bootstrap: Call, daily_orders: Path, session: Any, name: str
) -> None:
    (daily_orders / "dt=2024-03-01" / "part-0.parquet").rename(daily_orders / "dt=2024-03-01" / "000000_0")
    rows = bootstrap(ignore="0*")
    assert (
        "ignored, but parquet, so that the table lacks their rows: 1 file: dt=2024-03-01/000000_0"
        in (rows[-1]["warnings"])
    )
    assert count(session, name) == 60


def test_a_broken_parquet_file_does_not_advise_to_ignore_it(bootstrap: Call, daily_orders: Path) -> None:
    (daily_orders / "dt=2024-03-01" / "part-9.parquet").write_bytes(b"PAR1 cut off")
    (daily_orders / "dt=2024-03-01" / "part-8.parquet").write_bytes(b"nothing")
    with pytest.raises(BootstrapBlockedError) as refused:
        bootstrap()
    assert "ignore" not in str(refused.value)


@pytest.mark.parametrize("pattern", ["", " , ", "dt=2024-03-01/*"])
def test_patterns_are_of_file_names(bootstrap: Call, pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="ignore"):
        bootstrap(ignore=pattern)


@pytest.mark.usefixtures("strewn")
def test_register_only_partitions_leave_the_files_out(bootstrap: Call, session: Any, name: str) -> None:
    bootstrap(ignore="*.csv", register_only_where='dt = "2024-03-01"')
    assert count(session, name) == 80


def test_a_migrated_table_leaves_the_files_out(call: Call, session: Any, strewn: Path, name: str) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.spark.sql(
        f"CREATE EXTERNAL TABLE {name} (id string, seq bigint, amount double) PARTITIONED BY (dt string)"
        f" STORED AS PARQUET LOCATION '{strewn}'"
    )
    session.spark.sql(f"MSCK REPAIR TABLE {name}")
    with pytest.raises(BootstrapBlockedError, match=r"ignore => '\*\.csv' leaves out files by name"):
        call("migrate_table", table=name, record_key="id")
    rows = call("migrate_table", table=name, record_key="id", ignore="*.csv")
    assert any("ignored by '*.csv': 2 files" in (row["detail"] or "") for row in rows)
    assert count(session, name) == 80
    assert call("verify_bootstrap", table=name)[-1]["severity"] == "ok"
