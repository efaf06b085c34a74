"""Many files are looked at in Spark tasks, with the result of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import clear_manifest_cache

from hudisql.errors import UnsupportedTableError
from hudisql.iceberg import manifest_tasks, merged_slices, snapshot_manifests
from hudisql.iceberg.manifest_files import read_records
from tests.iceberg.readers import check_readers, metadata_of, publish
from tests.oracle.shapes import Shape, bootstrap_shape

pytestmark = [pytest.mark.spark, pytest.mark.hms]

CITIES = ("__HIVE_DEFAULT_PARTITION__", "c1", "c2", "c3", "c4", "c5")
FILTERS = ("city IS NULL", "city = 'c1'", "price = 0")


@pytest.mark.soak
def test_tasks_publish_what_one_process_does(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape(
        "in_tasks",
        rows=60,
        files=1,
        partition_columns={
            "city": lambda n: ("__HIVE_DEFAULT_PARTITION__", "c1", "c2", "c3", "c4", "c5")[n % 6]
        },
        table_type="MERGE_ON_READ",
    )
    table = bootstrap_shape(session, shape, tmp_path)
    session.sql("UPDATE oracle.in_tasks_rt SET price = 0 WHERE seq < 12")
    session.sql("DELETE FROM oracle.in_tasks_rt WHERE seq BETWEEN 20 AND 22")
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 4)
    alone = check_readers(session, "oracle.in_tasks_rt", FILTERS)
    summary, files = metadata_of(table.path)["snapshots"][-1]["summary"], _files(table.path)
    run = manifest_tasks.write_in_tasks
    pieces: list[int] = []

    def counted(*arguments: Any, **options: Any) -> list[manifest_tasks.NewManifest]:
        written = run(*arguments, **options)
        pieces.append(len(written))
        return written

    monkeypatch.setattr("hudisql.iceberg.publication.write_in_tasks", counted)
    monkeypatch.setattr(manifest_tasks, "FILES_OF_ONE_PROCESS", 1)
    monkeypatch.setattr(merged_slices, "SLICES_OF_ONE_PROCESS", 1)
    for path in Path(table.path, ".hoodie/iceberg").rglob("*.*"):
        path.unlink()
    # The same state has the same names of manifests, which PyIceberg caches.
    clear_manifest_cache()
    planned = publish(session, "oracle.in_tasks_rt", ", dry_run => true")
    assert not list(Path(table.path, ".hoodie/iceberg").rglob("*.*"))
    again = check_readers(session, "oracle.in_tasks_rt", FILTERS)
    assert again == alone
    assert {**planned, "result": "published"} == alone
    assert pieces == [2, 2]
    assert metadata_of(table.path)["snapshots"][-1]["summary"] == summary
    assert _files(table.path) == files
    session.sql("ALTER TABLE oracle.in_tasks ADD COLUMNS (more STRING)")
    check_readers(session, "oracle.in_tasks_rt", ("more IS NULL",))
    assert pieces == [2, 2, 2]


def _files(table_path: str) -> dict[str, Any]:
    """The entries of the current snapshot's manifests by path, their positions in names of files left out."""
    directory = Path(table_path, ".hoodie/iceberg/metadata")
    [snapshot] = metadata_of(table_path)["snapshots"]
    records = read_records(Path(snapshot["manifest-list"].removeprefix("file:")).read_bytes())
    names = [record["manifest_path"].rpartition("/")[2] for record in records]
    entries = [entry for name in names for entry in read_records((directory / name).read_bytes())]
    return {entry["data_file"]["file_path"]: entry["data_file"] for entry in entries}


def _bootstrap(session: Any, directory: Path, name: str, units: tuple[str, ...]) -> Path:
    """A table of one file for each unit of its timestamps; the directory of its Iceberg table."""
    source = directory / name
    source.mkdir()
    for number, unit in enumerate(units):
        rows = pa.table({"id": [number], "at": pa.array([0], pa.timestamp(unit, "UTC"))})
        pq.write_table(rows, source / f"part-{number}.parquet")
    session.sql(
        f"CALL bootstrap_table(table => '{name}', source => '{source}', record_key => 'id', "
        f"target_path => '{directory / name}_table', on_unsafe_type => 'warn')"
    )
    return directory / f"{name}_table/.hoodie/iceberg"


def test_many_files_are_published_in_tasks(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _bootstrap(session, tmp_path, "many", ("us",) * 5)
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 2)
    monkeypatch.setattr(manifest_tasks, "FILES_OF_ONE_PROCESS", 4)
    assert check_readers(session, "many", ("id > 2",))["source_files"] == 5
    assert len(list(directory.rglob("*-m?.avro"))) == 3
    session.sql("DROP TABLE many")


def test_a_file_that_tasks_refuse_leaves_no_manifest(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _bootstrap(session, tmp_path, "refused", ("us", "us", "ms", "ms"))
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 2)
    for most in (100, 1):
        monkeypatch.setattr(manifest_tasks, "FILES_OF_ONE_PROCESS", most)
        with pytest.raises(UnsupportedTableError, match=r"part-[23].parquet .*\(2 such files\)"):
            publish(session, "refused")
    assert not list(directory.rglob("*.*"))
    session.sql("DROP TABLE refused")
