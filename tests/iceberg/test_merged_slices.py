"""Merge-on-read tables as Iceberg: DuckDB and PyIceberg give the merged rows, and files are used again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.iceberg import merged_slices, snapshot_manifests
from hudisql.iceberg.manifest_files import read_records
from hudisql.read.slice.replaced_rows import SeparatedRows, separate_rows
from hudisql.read.slice.slice_reader import SliceRead
from hudisql.storage import Storage
from tests.iceberg.readers import check_readers, duckdb_rows, publish
from tests.oracle.shapes import Shape, bootstrap_shape, call_bootstrap
from tests.sources import orders

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COMPACT = (
    "CALL run_compaction(op => 'scheduleandexecute', table => '{t}', "
    "options => 'hoodie.compact.inline.max.delta.commits=1')"
)
CITIES = ("a%2Fb%3Dc%2520ü", "x", "__HIVE_DEFAULT_PARTITION__")
FILTERS = (
    "seq >= 30",
    "seq < 10",
    "id = 'k000014'",
    "note = 'ours'",
    "note IS NULL",
    "day > '2024-02-01'",
    "city = 'a/b=c%20ü'",
    "city IS NULL AND seq < 30",
    "city IS NOT NULL AND city <> 'x' AND seq < 20",
)
CHANGES = (
    "UPDATE {t} SET note = 'ours', price = -1.5 WHERE seq IN (3, 14, 40)",
    "DELETE FROM {t} WHERE seq IN (20, 21, 22)",
    "INSERT INTO {t} SELECT 'new', 900, total, fare, price, is_even, day, at, note, place, labels, extra, "
    "'x' FROM {t} WHERE seq = 5",
    "MERGE INTO {t} AS t USING (SELECT * FROM {t} WHERE seq IN (3, 6, 7)) AS s ON t.id = s.id "
    "WHEN MATCHED AND t.seq = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged'",
    "INSERT INTO {t} SELECT 'k000020', 20, total, fare, price, is_even, day, at, 'again', place, labels, "
    "extra, 'x' FROM {t} WHERE seq = 5",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'there' WHERE seq IN (3, 8, 9)",
    COMPACT,
    "UPDATE {t} SET note = 'later' WHERE seq IN (3, 10)",
    "DELETE FROM {t} WHERE city = 'x'",
    "CALL run_clustering(table => '{t}')",
)


def _data_files(table: Path) -> dict[str, bytes]:
    """The files of slices by their names."""
    return {file.name: file.read_bytes() for file in (table / ".hoodie/iceberg/data").glob("*/*")}


def _delete_manifests(table: Path, version: int) -> list[list[dict[str, Any]]]:
    [manifest_list] = (table / ".hoodie/iceberg/metadata").glob(f"snap-*-v{version}.avro")
    paths = [each["manifest_path"] for each in read_records(manifest_list.read_bytes()) if each["content"]]
    return [read_records(Path(path.removeprefix("file:")).read_bytes()) for path in paths]


def _bootstrap(session: Any, directory: Path, **more: str) -> str:
    source = directory / "source"
    source.mkdir()
    pq.write_table(orders(), source / "part-0.parquet")
    given = {"source": str(source), "record_key": "id", "target_path": str(directory / "t"), **more}
    call_bootstrap(session, {"table": "oracle.merged", "table_type": "MERGE_ON_READ", **given})
    return "oracle.merged"


def _run(session: Any, name: str, changes: Sequence[str], filters: Sequence[str] = ()) -> dict[str, Any]:
    published: dict[str, Any] = {}
    for change in changes:
        session.sql(change.format(t=name))
        published = check_readers(session, name, filters)
    return published


def test_log_files_are_published_as_rows_and_position_deletes(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, precombine="seq")
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq < 3")
    session.sql(f"DELETE FROM {name} WHERE seq = 7")
    planned = publish(session, name, ", dry_run => true")
    assert not (tmp_path / "t/.hoodie/iceberg").exists()
    published = check_readers(session, name, ("amount = 0",))
    assert planned == {**published, "result": "would be published"}
    counts = [published[each] for each in ("source_files", "log_row_files", "delete_files", "rows")]
    assert counts == [1, 1, 1, 19]
    [[entry]] = _delete_manifests(tmp_path / "t", 1)
    deletes = pq.read_table(entry["data_file"]["file_path"].removeprefix("file:"))
    source = f"file:{tmp_path / 'source/part-0.parquet'}"
    assert deletes.to_pydict() == {"file_path": [source] * 4, "pos": [0, 1, 2, 7]}
    assert entry["data_file"]["referenced_data_file"] == source
    compacted = _run(session, name, [COMPACT])
    assert (compacted["base_files"], compacted["log_row_files"], compacted["delete_files"]) == (1, 0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("is_native", [False, True], ids=["bootstrapped", "native"])
def test_readers_follow_every_change(session: Any, tmp_path: Path, is_native: bool) -> None:
    shape = Shape(
        "mor",
        rows=60,
        files=1,
        table_type="MERGE_ON_READ",
        partition_columns={"city": lambda n: CITIES[n % 3]},
    )
    bootstrap_shape(session, shape, tmp_path)
    name = "oracle.mor"
    if is_native:
        name = "oracle.mor_native"
        session.sql(f"DROP TABLE IF EXISTS {name}")
        session.sql(
            f"CREATE TABLE {name} USING hudi PARTITIONED BY (city) LOCATION '{tmp_path / 'native'}' "
            "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', type = 'mor') "
            "AS SELECT * FROM oracle.mor"
        )
    first = check_readers(session, name, FILTERS)
    assert (first["source_files"], first["base_files"]) == ((0, 3) if is_native else (3, 0))
    for change in CHANGES:
        published = _run(session, name, [change], FILTERS if "UPDATE" in change else ())
    again = publish(session, name)
    assert again == {**published, "result": "already published"}
    assert duckdb_rows(published["metadata_file"]) == duckdb_rows(again["metadata_file"])


@pytest.mark.soak
def test_file_groups_of_log_files_alone(session: Any, tmp_path: Path) -> None:
    name = "oracle.buckets"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id STRING, seq BIGINT, note STRING, dt DATE) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id', type = 'mor', "
        "preCombineField = 'seq', hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '3')"
    )
    day = "date_add(date'1969-12-30', CAST(id % 2 AS INT))"
    numbers = f"concat('k', id) AS id, id AS seq, 'a' AS note, IF(id % 5 = 0, NULL, {day}) AS dt"
    filters = ("dt = '1969-12-31'", "dt IS NULL", "seq > 30 AND note = 'a'")
    _run(session, name, [f"INSERT INTO {{t}} SELECT {numbers} FROM range(40)"], filters)
    session.sql(f"UPDATE {name} SET note = 'b' WHERE seq < 9")
    # As Hudi's own bucket index leaves them: groups that begin with a log file.
    for log_file in (tmp_path / "t").glob("*/.*.log.*"):
        file_id = log_file.name[1:].partition("_")[0]
        for base_file in log_file.parent.glob(f"{file_id}*.parquet"):
            base_file.unlink()
    published = check_readers(session, name, filters)
    assert published["log_row_files"] > 3
    assert (published["delete_files"], published["base_files"]) == (0, 9 - published["log_row_files"])
    changes = [
        "DELETE FROM {t} WHERE seq IN (4, 5, 6)",
        "INSERT INTO {t} VALUES ('k5', 5, 'again', NULL), ('k4', 3, 'again', date'1969-12-30')",
        "DELETE FROM {t} WHERE dt IS NULL",
        COMPACT,
        "UPDATE {t} SET note = 'c' WHERE seq < 8",
    ]
    _run(session, name, changes, filters)


@pytest.mark.soak
@pytest.mark.parametrize("payload", ["OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload"])
def test_ties_and_lower_values_of_the_ordering_field(session: Any, tmp_path: Path, payload: str) -> None:
    name = f"oracle.ties_{payload[:4].lower()}"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, ts BIGINT, note STRING) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'ts', "
        f"hoodie.compaction.payload.class = 'org.apache.hudi.common.model.{payload}', "
        f"hoodie.datasource.write.payload.class = 'org.apache.hudi.common.model.{payload}')"
    )
    filters = ("ts = 10", "note = 'lower'", "id >= 4")
    _run(session, name, ["INSERT INTO {t} SELECT CAST(id AS INT), 10, 'first' FROM range(8)"], filters)
    writes = (
        [(1, 10, "tie"), (2, 10, "tie"), (3, 5, "lower")],
        [(2, 5, "lower"), (3, 10, "tie"), (4, 20, "higher")],
        [(4, 15, "late"), (5, 1, "lower"), (9, 1, "new")],
    )
    for rows in writes:
        session.write(session.spark.createDataFrame(rows, "id int, ts bigint, note string"), name, "upsert")
        assert check_readers(session, name, filters)["log_row_files"] == 1
    changes = [
        "DELETE FROM {t} WHERE id IN (4, 5, 6)",
        "INSERT INTO {t} VALUES (5, 1, 'again'), (4, 1, 'again')",
        COMPACT,
        "UPDATE {t} SET ts = 3, note = 'later' WHERE id = 7",
    ]
    _run(session, name, changes, filters)


@pytest.mark.soak
def test_files_of_unchanged_slices_are_used_again_and_stay_while_snapshots_name_them(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_manifests, "_LEAST_ENTRIES", 2)
    merged: list[str] = []

    def noted(storage: Storage, read: SliceRead) -> SeparatedRows:
        merged.append(read.file_slice.partition_path)
        return separate_rows(storage, read)

    monkeypatch.setattr(merged_slices, "separate_rows", noted)
    shape = Shape(
        "reused",
        rows=60,
        files=1,
        table_type="MERGE_ON_READ",
        partition_columns={"city": lambda n: f"c{n % 3}"},
    )
    table = Path(bootstrap_shape(session, shape, tmp_path).path)
    name = "oracle.reused"
    _run(session, name, ["UPDATE {t} SET price = 0 WHERE seq < 9"])
    assert sorted(merged) == ["city=c0", "city=c1", "city=c2"]
    first = _data_files(table)
    assert len(first) == 6
    [entries] = _delete_manifests(table, 1)
    assert len(entries) == 3
    merged.clear()
    assert _run(session, name, ["DELETE FROM {t} WHERE seq = 4"])["delete_files"] == 3
    assert merged == ["city=c1"]
    second = _data_files(table)
    assert first.items() <= second.items()
    assert len(second) == 8
    statuses = [
        (each["status"], each["sequence_number"]) for some in _delete_manifests(table, 2) for each in some
    ]
    assert sorted(statuses, key=str) == [(0, 1), (0, 1), (1, None), (2, 1)]
    merged.clear()
    assert _run(session, name, ["DELETE FROM {t} WHERE seq = 5"])["rows"] == 58
    assert merged == ["city=c2"]
    third = _data_files(table)
    assert len(third) == 10
    assert second.items() <= third.items()
    merged.clear()
    _run(session, name, [COMPACT])
    assert merged == []
    _run(session, name, ["UPDATE {t} SET price = 2 WHERE seq = 7"])
    assert len(_data_files(table)) == 12
    commits = [row.commit_time for row in session.sql(f"CALL show_commits(table => '{name}')").rows]
    for commit in commits[:2]:
        session.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{commit}')")
    _run(session, name, ["UPDATE {t} SET price = 2 WHERE seq = 7"])


@pytest.mark.soak
def test_a_killed_publication_leaves_nothing_that_breaks_the_next(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _bootstrap(session, tmp_path, precombine="seq")
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq < 3")
    real = Storage.create

    def killed_at(word: str) -> Any:
        def create(storage: Any, path: str, content: bytes) -> None:
            if word in path:
                raise KeyboardInterrupt
            real(storage, path, content)

        return create

    for word in ("-deletes", "-rows", "metadata.json"):
        with monkeypatch.context() as patched:
            patched.setattr(Storage, "create", killed_at(word))
            with pytest.raises(KeyboardInterrupt):
                publish(session, name)
    check_readers(session, name)
    session.sql(f"DELETE FROM {name} WHERE seq = 4")
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "create", killed_at("-rows"))
        with pytest.raises(KeyboardInterrupt):
            publish(session, name)
    assert len(_data_files(tmp_path / "t")) == 3
    session.sql(f"DELETE FROM {name} WHERE seq = 5")
    assert check_readers(session, name, ("amount = 0",))["metadata_file"].endswith("/v2.metadata.json")
    assert len(_data_files(tmp_path / "t")) == 4


@pytest.mark.soak
def test_log_blocks_of_a_pending_commit_count_once_it_is_completed(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, precombine="seq")
    session.sql(f"DELETE FROM {name} WHERE seq = 7")
    session.sql(f"DELETE FROM {name} WHERE seq = 8")
    completed = max((tmp_path / "t/.hoodie").glob("*.deltacommit"))
    aside = completed.rename(tmp_path / "aside")
    assert check_readers(session, name)["rows"] == 19
    aside.rename(completed)
    assert check_readers(session, name)["rows"] == 18
