"""`CALL verify_bootstrap`: what it says of good tables, and of each thing that can go wrong with one."""

from __future__ import annotations

import datetime
import os
import re
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import InvalidArgumentError, VerificationFailedError
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from tests.file_slices import base_file_path
from tests.soak import parameters
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _rich(first: int) -> pa.Table:
    day = datetime.date(2024, 3, 1)
    return orders(
        first,
        20,
        day=pa.array([day + datetime.timedelta(number) for number in range(20)]),
        at=pa.array([datetime.datetime(2024, 3, 1, 1, 2, 3, 456789)] * 20, pa.timestamp("us", tz="UTC")),
        price=pa.array([Decimal(number).scaleb(-2) for number in range(20)], pa.decimal128(12, 2)),
        tags=pa.array(
            [[("a", [number, None])] for number in range(20)], pa.map_("string", pa.list_(pa.int32()))
        ),
        place=pa.array([{"x": 1.5, "name": None if number % 3 else "ä"} for number in range(20)]),
        raw=pa.array([bytes([number]) for number in range(20)]),
    )


@pytest.fixture
def bootstrapped(call, name, tmp_path: Path) -> tuple[Path, Path]:
    """Source and target of a table of many types: two partitions of two files of two row groups."""
    source, target = tmp_path / "source it's", tmp_path / "t"
    for number in range(4):
        path = source / f"dt=2024-03-0{number // 2 + 1}" / f"part {number}%.parquet"
        write_parquet(path, _rich(number * 100), row_group_size=12)
    call("bootstrap_table", table=name, source=source, record_key="id,seq", target_path=target, verify=False)
    return source, target


def _kinds(rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(row["finding"], row["severity"], Path(row["path"]).name) for row in rows]


def test_a_good_table_gives_one_row_at_each_level(call, name, bootstrapped):
    source, target = bootstrapped
    before = fingerprint(source), fingerprint(target)
    for level, compared in (
        ("counts", r"4 files with 80 rows$"),
        ("sample", r"4 files with 80 rows, \d\d rows of 4 files compared$"),
        ("FULL", r"4 files with 80 rows, 80 rows of 4 files compared$"),
    ):
        rows = call("verify_bootstrap", table=name, level=level)
        assert _kinds(rows) == [("SUMMARY", "ok", "t")]
        assert "0 errors, 0 notices" in rows[0]["detail"]
        assert re.search(compared, rows[0]["detail"])
    assert call("verify_bootstrap", path=target)[0]["severity"] == "ok"
    assert (fingerprint(source), fingerprint(target)) == before
    with pytest.raises(InvalidArgumentError, match="level 'half' is unknown"):
        call("verify_bootstrap", table=name, level="half")


def test_source_files_that_are_missing_changed_or_new_are_named(call, name, bootstrapped):
    source, _ = bootstrapped
    one, two = source / "dt=2024-03-01", source / "dt=2024-03-02"
    (one / "part 0%.parquet").unlink()
    write_parquet(one / "part 1%.parquet", _rich(5).slice(0, 3))
    os.utime(two / "part 2%.parquet", (1, 1))
    write_parquet(two / "later.parquet", _rich(7))
    (two / "_SUCCESS").touch()
    write_parquet(source / "dt=2024-03-03" / "part-9.parquet", _rich(9))
    for level in ("counts", "full"):
        rows = call("verify_bootstrap", table=name, level=level)
        assert _kinds(rows) == [
            ("source missing", "error", "part 0%.parquet"),
            ("source changed", "error", "part 1%.parquet"),
            ("source changed", "error", "part 2%.parquet"),
            ("source new", "notice", source.name),
            ("source new", "notice", "later.parquet"),
            ("SUMMARY", "failed", "t"),
        ]
        assert rows[0]["path"] == str(one / "part 0%.parquet")
        assert [row["partition"] for row in rows[:3]] == ["dt=2024-03-01", "dt=2024-03-01", "dt=2024-03-02"]
        assert "modified at 1970-01-01T00:00:01.000Z" in rows[2]["detail"]
        assert "dt=2024-03-03" in rows[3]["detail"]


def _rewrite_skeleton(path: Path, column: str, values: list[str]) -> None:
    table = pq.read_table(path, partitioning=None)
    position = table.schema.get_field_index(column)
    pq.write_table(table.set_column(position, column, pa.array(values)), path)


def test_wrong_skeletons_are_found_at_the_level_that_reads_so_far(call, name, bootstrapped):
    _, target = bootstrapped
    slices = load_file_slices(open_table(Storage(), str(target)))
    short, shifted, misnamed, gone = (Path(base_file_path(each)) for each in slices)
    pq.write_table(pq.read_table(short, partitioning=None).slice(0, 19), short)
    keys = pq.read_table(shifted, partitioning=None)["_hoodie_record_key"].to_pylist()
    _rewrite_skeleton(shifted, "_hoodie_record_key", [*keys[1:], keys[0]])
    _rewrite_skeleton(misnamed, "_hoodie_file_name", [shifted.name] * 20)
    gone.unlink()
    found = {
        level: call("verify_bootstrap", table=name, level=level) for level in ("counts", "sample", "full")
    }
    names = {short.name: "short", shifted.name: "shifted", misnamed.name: "misnamed"}
    told = {
        level: {(row["finding"], names.get(Path(row["path"]).name, "")) for row in rows[:-1]}
        for level, rows in found.items()
    }
    lengths = {
        ("skeleton changed", "short"),
        ("skeleton changed", "shifted"),
        ("skeleton changed", "misnamed"),
        ("rows differ", ""),
        ("skeleton missing", ""),
    }
    assert told["counts"] == lengths
    wrong = {("meta columns differ", "shifted"), ("meta columns differ", "misnamed")}
    assert told["sample"] == lengths | wrong
    assert told["full"] == lengths | wrong | {("data differ", "")}
    differ = [row["detail"] for row in found["full"] if row["finding"] == "data differ"]
    assert sorted(differ) == [
        "the source has 20 rows, the table shows 0",
        "the source has 20 rows, the table shows 40",
    ]
    assert any("_hoodie_record_key is wrong in 12 of 12 rows" in row["detail"] for row in found["full"])


@pytest.mark.parametrize(
    ("table", "rewritten"),
    parameters(
        [
            ("cow_bootstrap_meta", 0),
            ("cow_bootstrap_2part", 0),
            ("cow_bootstrap_meta_nonpart", 0),
            ("cow_bootstrap_then_upsert_delete", None),
            ("mor_bootstrap_meta", 0),
        ],
        in_ci=[("cow_bootstrap_2part", 0), ("cow_bootstrap_then_upsert_delete", None)],
    ),
)
def test_tables_that_apache_hudi_bootstrapped_are_verified_too(call, golden, table, rewritten):
    rows = call("verify_bootstrap", path=golden(table).table, level="full")
    # Unzipping does not keep modification times to the millisecond.
    assert all("of the same length" in row["detail"] for row in rows[:-1]), rows
    assert "compared" in rows[-1]["detail"]
    assert ("rewritten by later commits" in rows[-1]["detail"]) == (rewritten is None)


def test_a_table_that_no_bootstrap_made_has_nothing_to_compare_with(call, third_party):
    with pytest.raises(InvalidArgumentError, match="was not bootstrapped"):
        call("verify_bootstrap", path=third_party("v6_nonpartitioned"))


def test_a_bootstrap_verifies_itself_unless_told_not_to(call, daily_orders, tmp_path, name, monkeypatch):
    from hudisql.bootstrap.run import plan_execution as run

    publish = run.publish_table

    def publish_and_lose_a_file(*arguments):
        written = publish(*arguments)
        (daily_orders / "dt=2024-03-01" / "part-0.parquet").unlink()
        return written

    arguments = {"table": name, "source": daily_orders, "record_key": "id", "sync": False}
    kept = tmp_path / "kept"
    shutil.copytree(daily_orders, kept)
    monkeypatch.setattr(run, "publish_table", publish_and_lose_a_file)
    with pytest.raises(VerificationFailedError, match=r"source missing: .*part-0\.parquet") as raised:
        call("bootstrap_table", **arguments, target_path=tmp_path / "a")
    assert "CALL rollback_bootstrap" in raised.value.hint
    shutil.copytree(kept, daily_orders, dirs_exist_ok=True)
    rows = call("bootstrap_table", **arguments, target_path=tmp_path / "b", verify=False)
    assert rows[-1]["rows"] == 80


def test_the_full_level_compares_the_metadata_table_with_the_storage(
    call, session, bootstrap, name, tmp_path
):
    bootstrap(table_version=9)
    target = tmp_path / "t"
    session.sql(f"UPDATE {name} SET amount = 1 WHERE id = 'k00000'")
    slices = load_file_slices(open_table(Storage(), str(target)))
    (changed,) = [Path(base_file_path(each)) for each in slices if not each.is_bootstrapped]
    file_id, _, instant = changed.stem.split("_")
    (superseded,) = {*changed.parent.glob(f"{file_id}_*")} - {changed}
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    superseded.unlink()
    unlisted = changed.with_name(f"{'0' * 8}{file_id[8:]}_0-0-0_{instant}.parquet")
    uncommitted = changed.with_name(f"{file_id}_0-0-0_20990101000000000.parquet")
    shutil.copy(changed, unlisted)
    shutil.copy(changed, uncommitted)
    *found, summary = call("verify_bootstrap", table=name, level="full", fail_on_error=False)
    assert sorted(_kinds(found)) == sorted(
        [
            ("metadata table differs", "error", superseded.name),
            ("metadata table differs", "error", unlisted.name),
            ("file not in the metadata table", "notice", uncommitted.name),
        ]
    )
    details = {Path(row["path"]).name: row["detail"] for row in found}
    assert re.search(r"lists it with [\d,]+ bytes; it is gone", details[superseded.name])
    assert "who reads by that misses its rows" in details[unlisted.name]
    assert {row["partition"] for row in found} == {"dt=2024-03-01"}
    assert summary["severity"] == "failed"
    assert call("verify_bootstrap", table=name)[-1]["severity"] == "ok"
    shutil.rmtree(target / ".hoodie/metadata")
    (row, _) = call("verify_bootstrap", table=name, level="full", fail_on_error=False)
    assert (row["finding"], row["severity"]) == ("metadata table unreadable", "error")
    assert "name a metadata table" in row["detail"]
