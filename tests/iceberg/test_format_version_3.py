"""Tables of format version 3: deletion vectors and row ids, upgrades, and no way back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.iceberg.earlier_manifests import with_row_ids
from hudisql.iceberg.manifest_files import DATA, read_records
from tests.iceberg.readers import (
    check_history,
    check_readers,
    duckdb_rows,
    hudisql_rows,
    metadata_of,
    publish,
    pyiceberg_rows,
    verification_of,
)
from tests.iceberg.test_merged_slices import CHANGES, CITIES, COMPACT, FILTERS
from tests.oracle.shapes import Shape, bootstrap_shape, call_bootstrap
from tests.sources import orders

pytestmark = [pytest.mark.spark, pytest.mark.hms]

V3 = ", format_version => 3"


def _shape(name: str, table_type: str) -> Shape:
    return Shape(
        name,
        rows=60,
        files=1,
        table_type=table_type,
        partition_columns={"city": lambda n: CITIES[n % 3]},
    )


def _row_ids(table: str) -> dict[str, tuple[int, int]]:
    """The first row id of each data file of the current snapshot, and the one that follows its last."""
    metadata = metadata_of(table)
    found: dict[str, tuple[int, int]] = {}
    for record in _records(metadata["snapshots"][-1]["manifest-list"]):
        if record["content"] == DATA:
            for entry in with_row_ids(record, _records(record["manifest_path"])):
                file = entry["data_file"]
                first = file["first_row_id"]
                found[file["file_path"]] = first, first + file["record_count"]
    return found


def _records(uri: str) -> list[dict[str, Any]]:
    return read_records(Path(uri.removeprefix("file:")).read_bytes())


def _check_row_ids(table: str, before: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """No two files share row ids, and files that stay keep theirs; the ids now."""
    now, metadata = _row_ids(table), metadata_of(table)
    spans = sorted(now.values())
    assert all(end <= following for (_, end), (following, _) in pairwise(spans))
    assert all(before[path] == span for path, span in now.items() if path in before)
    newest = metadata["snapshots"][-1]
    assert max((end for _, end in spans), default=0) <= metadata["next-row-id"]
    assert newest["first-row-id"] + newest["added-rows"] == metadata["next-row-id"]
    new = [first for path, (first, _) in now.items() if path not in before]
    assert all(first >= newest["first-row-id"] for first in new)
    return now


def _live(session: Any, name: str, path: str, changes: Sequence[str]) -> None:
    ids, rows = _check_row_ids(path, {}), {}
    for change in changes:
        session.sql(change.format(t=name))
        check_readers(session, name, FILTERS if "UPDATE" in change else ())
        rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, name)
        ids = _check_row_ids(path, ids)
    assert metadata_of(path)["format-version"] == 3


@pytest.mark.soak
@pytest.mark.parametrize(
    ("table_type", "changes"),
    [
        ("MERGE_ON_READ", CHANGES),
        ("COPY_ON_WRITE", [each for each in CHANGES if each != COMPACT]),
    ],
    ids=["mor", "cow"],
)
def test_readers_follow_every_change(
    session: Any, tmp_path: Path, table_type: str, changes: Sequence[str]
) -> None:
    bootstrap_shape(session, _shape("three", table_type), tmp_path)
    first = check_readers(session, "oracle.three", more=V3)
    assert first["source_files"] == 3
    _live(session, "oracle.three", str(tmp_path / "table"), changes)
    vectors = list((tmp_path / "table/.hoodie/iceberg/data").rglob("*.puffin"))
    assert bool(vectors) == (table_type == "MERGE_ON_READ")
    assert not list((tmp_path / "table/.hoodie/iceberg/data").rglob("*-deletes.parquet"))


@pytest.mark.soak
def test_a_table_is_upgraded_and_does_not_go_back(session: Any, tmp_path: Path) -> None:
    path = bootstrap_shape(session, _shape("upgraded", "MERGE_ON_READ"), tmp_path).path
    name, rows = "oracle.upgraded", {}

    def check(more: str = "") -> dict[str, Any]:
        published = check_readers(session, name, more=more)
        rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, name)
        return published

    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq IN (3, 14)")
    assert check(", format_version => 2")["result"] == "published"
    assert publish(session, name, V3 + ", dry_run => true")["result"] == "would be published"
    assert check(V3)["result"] == "published"
    assert publish(session, name, V3)["result"] == "already published"
    ids = _check_row_ids(path, {})
    # Position deletes from before stay until their file group changes.
    data = Path(path, ".hoodie/iceberg/data")
    assert (len(list(data.rglob("*-deletes.parquet"))), len(list(data.rglob("*.puffin")))) == (2, 0)
    session.sql(f"UPDATE {name} SET note = 'again' WHERE seq IN (3, 4)")
    check()
    _check_row_ids(path, ids)
    assert len(list(data.rglob("*.puffin"))) == 1
    assert [snapshot.get("first-row-id") for snapshot in metadata_of(path)["snapshots"]] == [None, 0, 62]
    assert len(check_history(path, rows)) == 3
    with pytest.raises(UnsupportedTableError, match="has format version 3, which cannot become 2") as error:
        publish(session, name, ", format_version => 2")
    assert f"delete the directory {path}/.hoodie/iceberg" in str(error.value.hint)
    for wrong in ("1", "4"):
        with pytest.raises(InvalidArgumentError, match=f"format_version {wrong} is unknown"):
            publish(session, name, f", format_version => {wrong}")
    _check_damaged_vectors(path)


def _check_damaged_vectors(path: str) -> None:
    """The verification names a vector with other positions, and one that is no longer a vector."""
    vector = min(Path(path, ".hoodie/iceberg/data").rglob("*.puffin"))
    content = vector.read_bytes()
    for damage, detail in ((b"\0" * 4, "checksum"), (b"PAR1", "is not a deletion vector")):
        at = 40 if detail == "checksum" else 8
        vector.write_bytes(content[:at] + damage + content[at + 4 :])
        [problem] = verification_of(path).problems
        assert (problem.kind, Path(problem.path).name) == ("file unreadable", vector.name)
        assert detail in problem.detail
    vector.unlink()
    assert [problem.kind for problem in verification_of(path, "metadata").problems] == ["file missing"]


@pytest.mark.soak
def test_pyiceberg_alone_does_not_read_int96_of_format_version_3(session: Any, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    at = pa.array([datetime(2024, 1, 1, 1, 2, 3, 456789, UTC)] * 20, pa.timestamp("us", "UTC"))
    source = tmp_path / "source/part-0.parquet"
    pq.write_table(orders(at=at), source, use_deprecated_int96_timestamps=True)
    given = {"table": "oracle.int96", "source": str(source.parent), "record_key": "id"}
    call_bootstrap(session, {**given, "target_path": str(tmp_path / "t"), "on_unsafe_type": "warn"})
    check_readers(session, "oracle.int96")
    file = publish(session, "oracle.int96", V3)["metadata_file"]
    assert duckdb_rows(file) == hudisql_rows(session, "oracle.int96")
    with pytest.raises(Exception, match="Unsupported schema projection from timestamp"):
        pyiceberg_rows(file)
