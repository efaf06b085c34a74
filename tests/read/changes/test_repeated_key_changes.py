"""Changes of file groups in which a record key stands several times: the events lead from before to after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.schema.meta_columns import META_COLUMNS, META_SCHEMA
from hudisql.read.changes.change_capture import GroupChange, captured_schema, read_changes
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice

FIRST, COMMIT = "20240101000000000", "20240102000000000"
NESTED = pa.struct([("v", pa.int32())])
SCHEMA = pa.schema([("v", pa.int32()), ("nested", NESTED)])


@dataclass(frozen=True)
class Row:
    """A stored row; `number` is its commit sequence number."""

    key: str
    commit: str
    number: str | None
    value: int


@dataclass(frozen=True)
class Rewrite:
    """The rows of a file group before and after a commit, and how many rows the commit deleted."""

    before: list[Row]
    after: list[Row]
    deleted: int


@st.composite
def rewrites(draw: st.DrawFn) -> Rewrite:
    """Few keys in many rows; sometimes no row, or every row alike, tells its number."""
    numbers = draw(st.sampled_from(["own", "shared", "none"]))
    keys = st.sampled_from("ab")
    values = st.integers(0, 3)
    before = [
        Row(
            draw(keys), FIRST, {"own": f"{FIRST}_0_{at}", "shared": f"{FIRST}_0_0"}.get(numbers), draw(values)
        )
        for at in range(draw(st.integers(0, 6)))
    ]
    fresh = count()
    after, deleted = [], 0
    for row in before:
        action = draw(st.sampled_from(["keep", "update", "delete"]))
        if action == "update":
            row = replace(row, commit=COMMIT, number=f"{COMMIT}_0_{next(fresh)}", value=draw(values))
        if action == "delete":
            deleted += 1
        else:
            after.append(row)
    for _ in range(draw(st.integers(0, 3))):
        after.append(Row(draw(keys), COMMIT, f"{COMMIT}_0_{next(fresh)}", draw(values)))
    return Rewrite(before, after, deleted)


def _slice(directory: Path, rows: Sequence[Row], instant: str) -> FileSlice:
    path = directory / f"group-0_0-0-0_{instant}.parquet"
    texts = {
        "_hoodie_commit_time": [row.commit for row in rows],
        "_hoodie_commit_seqno": [row.number for row in rows],
        "_hoodie_record_key": [row.key for row in rows],
        "_hoodie_partition_path": [""] * len(rows),
        "_hoodie_file_name": [path.name] * len(rows),
    }
    columns = [pa.array(texts[name], pa.string()) for name in META_COLUMNS]
    columns.append(pa.array([row.value for row in rows], pa.int32()))
    columns.append(pa.array([{"v": row.value} for row in rows], NESTED))
    pq.write_table(pa.table(columns, schema=pa.schema([*META_SCHEMA, *SCHEMA])), path)
    base_file = BaseFile(str(path), path.stat().st_size, "group-0", "0-0-0", instant)
    return FileSlice("", "group-0", instant, base_file)


def _events(rewrite: Rewrite, deleted_rows: int | None) -> list[dict[str, object]]:
    with TemporaryDirectory() as name:
        sides = (_slice(Path(name), rewrite.before, FIRST), _slice(Path(name), rewrite.after, COMMIT))
        change = GroupChange(COMMIT, {}, *sides, deleted_rows=deleted_rows)
        batches = list(read_changes(Storage(), change, SCHEMA))
    return list(pa.Table.from_batches(batches, captured_schema(SCHEMA)).to_pylist())


@given(rewrites(), st.booleans())
def test_events_lead_from_the_rows_before_to_those_after(rewrite: Rewrite, counts: bool) -> None:
    events = _events(rewrite, rewrite.deleted if counts else None)
    operations = {(event["before"] is None, event["after"] is None): event["op"] for event in events}
    assert operations.items() <= {(True, False): "i", (False, False): "u", (False, True): "d"}.items()
    rows = Counter(row.value for row in rewrite.before)
    gone = Counter(event["before"]["v"] for event in events if event["before"] is not None)  # type: ignore[index]
    come = Counter(event["after"]["v"] for event in events if event["after"] is not None)  # type: ignore[index]
    assert gone <= rows
    rows -= gone
    assert rows + come == Counter(row.value for row in rewrite.after)


def test_one_of_two_rows_of_a_key_is_deleted_and_the_other_updated() -> None:
    before = [Row("a", FIRST, f"{FIRST}_0_{at}", at) for at in range(3)]
    kept, updated = before[0], replace(before[2], commit=COMMIT, number=f"{COMMIT}_0_0", value=9)
    events = _events(Rewrite(before, [kept, before[1]], 1), 1)
    assert [(event["op"], event["before"]) for event in events] == [("d", {"v": 2, "nested": {"v": 2}})]
    events = _events(Rewrite(before, [kept, before[1], updated], 0), 0)
    assert [(event["op"], event["before"]["v"], event["after"]["v"]) for event in events] == [("u", 2, 9)]  # type: ignore[index]
