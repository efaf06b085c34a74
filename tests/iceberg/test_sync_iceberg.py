"""DuckDB and PyIceberg read a published table as hudisql reads the Hudi table, after each kind of change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import CorruptTableError, HudisqlError, SourceChangedError, UnsupportedTableError
from hudisql.iceberg import metadata_files, published_files, snapshot_manifests, snapshot_write
from hudisql.iceberg.manifest_files import read_records
from hudisql.iceberg.recent_files import forget_contents
from hudisql.read.files import parquet_rows
from tests.iceberg.readers import (
    check_history,
    check_readers,
    duckdb_rows,
    hudisql_rows,
    metadata_of,
    publish,
    shown_file,
)
from tests.oracle.shapes import Shape, bootstrap_shape, call_bootstrap
from tests.sources import orders

pytestmark = [pytest.mark.spark, pytest.mark.hms]

FILTERS = (
    "seq >= 30",
    "id = 'k000014'",
    "total > 100000000000",
    "day > '2024-02-01'",
    "is_even = true",
    "note IS NULL",
    "city = 'a/b=c%20ü'",
    "city IS NULL",
    "city IS NOT NULL AND city <> 'x' AND seq < 20",
)
CHANGES = (
    "UPDATE {t} SET note = 'ours', price = -1.5 WHERE seq IN (3, 14, 40)",
    "DELETE FROM {t} WHERE seq IN (20, 21)",
    "INSERT INTO {t} SELECT 'new', 900, total, fare, price, is_even, day, at, note, place, labels, extra, "
    "'x' FROM {t} WHERE seq = 5",
    "MERGE INTO {t} AS t USING (SELECT * FROM {t} WHERE seq = 6) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'merged'",
    "ALTER TABLE {t} ADD COLUMNS (extra_note STRING)",
    "UPDATE {t} SET extra_note = 'there' WHERE seq = 7",
    "CALL run_clustering(table => '{t}')",
    "ALTER TABLE {t} DROP PARTITION (city = 'x')",
)


@pytest.mark.soak
def test_readers_of_iceberg_follow_every_change(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 2)
    monkeypatch.setattr(snapshot_manifests, "_LEAST_ENTRIES", 1)
    monkeypatch.setattr(metadata_files, "_KEPT_VERSIONS", 2)
    cities = ("a%2Fb%3Dc%2520ü", "x", "__HIVE_DEFAULT_PARTITION__")
    shape = Shape("iceberg", rows=60, files=1, partition_columns={"city": lambda n: cities[n % 3]})
    table = bootstrap_shape(session, shape, tmp_path)
    name = "oracle.iceberg"
    first = check_readers(session, name, FILTERS)
    assert (first["result"], first["source_files"], first["base_files"], first["rows"]) == (
        "published",
        3,
        0,
        60,
    )
    rows = {metadata_of(table.path)["current-snapshot-id"]: hudisql_rows(session, name)}
    for change in CHANGES:
        session.sql(change.format(t=name))
        published = check_readers(session, name, FILTERS if "clustering" in change else ())
        rows[metadata_of(table.path)["current-snapshot-id"]] = hudisql_rows(session, name)
    assert published["source_files"] == 0
    again = publish(session, name)
    assert again == {**published, "result": "already published"}
    directory = Path(table.path, ".hoodie/iceberg/metadata")
    assert (directory / "version-hint.text").read_text() == "9"
    names = {file.name for file in directory.iterdir()}
    assert {name for name in names if name.startswith("v")} == {
        *("v8.metadata.json", "v9.metadata.json", "version-hint.text")
    }
    assert len(check_history(table.path, rows)) == 9


def test_a_publication_reads_the_footers_of_new_files_and_keeps_manifests(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape("kept", rows=60, files=1, partition_columns={"city": lambda n: f"c{n % 6}"})
    table = bootstrap_shape(session, shape, tmp_path)
    directory = Path(table.path, ".hoodie/iceberg/metadata")
    read: list[str] = []
    real = parquet_rows.read_footer

    def read_footer(storage: Any, path: str, length: int) -> Any:
        read.append(path)
        return real(storage, path, length)

    monkeypatch.setattr(published_files, "read_footer", read_footer)
    monkeypatch.setattr(snapshot_manifests, "_ENTRIES_OF_A_MANIFEST", 2)
    monkeypatch.setattr(snapshot_manifests, "_LEAST_ENTRIES", 2)
    check_readers(session, "oracle.kept")
    assert len(read) == 6
    first = {path.name: path.read_bytes() for path in directory.glob("*-m*.avro")}
    assert len(first) == 3
    session.sql("UPDATE oracle.kept SET price = 0 WHERE seq = 3")
    read.clear()
    assert check_readers(session, "oracle.kept", ("seq < 9", "city = 'c3'"))["rows"] == 60
    assert len(read) == 1
    assert len({path.name for path in directory.glob("*-m*.avro")} - first.keys()) == 1
    entries = [
        entry for path in sorted(directory.glob("*-v2-m*.avro")) for entry in read_records(path.read_bytes())
    ]
    statuses = sorted((entry["status"], entry["sequence_number"]) for entry in entries)
    assert statuses == [(0, 1), (1, None), (2, 1)]
    read.clear()
    assert publish(session, "oracle.kept")["result"] == "already published"
    assert read == []
    for name in first:
        (directory / name).write_bytes(b"cut short")
    forget_contents()
    session.sql("DELETE FROM oracle.kept WHERE seq = 4")
    with pytest.raises(CorruptTableError, match="is not a manifest"):
        publish(session, "oracle.kept")


def test_the_files_of_a_killed_publication_go_with_the_next(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, orders())
    directory = tmp_path / "t/.hoodie/iceberg/metadata"
    directory.mkdir(parents=True)
    for version in (1, 2):
        for stray in (f"snap-77-v{version}.avro", f"77-v{version}-m0.avro"):
            (directory / stray).write_bytes(b"")
        session.sql(f"UPDATE {name} SET amount = {version} WHERE seq < 3")
        check_readers(session, name)
        assert not list(directory.glob("*77-v*"))


def test_a_copied_table_keeps_its_format_version(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, orders())
    publish(session, name, ", format_version => 3")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    session.sql(f"CALL sync_iceberg(path => '{tmp_path}/copy')")
    copied = metadata_of(str(tmp_path / "copy"))
    assert (copied["format-version"], len(copied["snapshots"])) == (3, 1)
    assert duckdb_rows(shown_file(str(tmp_path / "copy"))) == hudisql_rows(session, name)


def _bootstrap(session: Any, directory: Path, rows: pa.Table, **more: str) -> str:
    """Bootstrap one source file with these rows; `more` is added to the CALL."""
    source = directory / "source"
    source.mkdir()
    pq.write_table(rows, source / "part-0.parquet")
    given = {"source": str(source), "record_key": "id", "target_path": str(directory / "t"), **more}
    call_bootstrap(session, {"table": "oracle.refused", **given})
    return "oracle.refused"


def test_a_killed_publication_and_another_engine_are_noticed(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, orders())
    assert publish(session, name, ", dry_run => true")["result"] == "would be published"
    directory = tmp_path / "t/.hoodie/iceberg/metadata"
    assert not directory.exists()
    first = check_readers(session, name)
    (directory / "version-hint.text").unlink()
    assert publish(session, name)["metadata_file"] == first["metadata_file"]
    assert (directory / "version-hint.text").read_text() == "1"
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq < 3")
    (directory / "v2.metadata.json.staged").write_text("{")
    check_readers(session, name)
    (directory / "00003-5d9.metadata.json").write_text("{}")
    with pytest.raises(UnsupportedTableError, match="another engine has written"):
        publish(session, name)
    (directory / "00003-5d9.metadata.json").unlink()
    text = (directory / "v1.metadata.json").read_text().replace("hudi.state", "other")
    (directory / "v3.metadata.json").write_text(text)
    with pytest.raises(UnsupportedTableError, match="another engine has written"):
        publish(session, name)
    (directory / "v3.metadata.json").write_text("[]")
    with pytest.raises(HudisqlError, match="is not the metadata of an Iceberg table"):
        publish(session, name)


def _with_ids(rows: pa.Table) -> pa.Table:
    fields = [
        field.with_metadata({"PARQUET:field_id": str(place + 7)}) for place, field in enumerate(rows.schema)
    ]
    return rows.cast(pa.schema(fields))


MILLISECONDS = pa.array([86_400_000] * 20, pa.timestamp("ms", "UTC"))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (orders(at=MILLISECONDS), r"column at is timestamp\[ms.* do not read as"),
        (_with_ids(orders()), "column id has a field id"),
    ],
    ids=["milliseconds", "field_ids"],
)
def test_files_that_readers_misread_are_refused_until_they_are_rewritten(
    session: Any, tmp_path: Path, rows: pa.Table, problem: str
) -> None:
    name = _bootstrap(session, tmp_path, rows, on_unsafe_type="warn")
    for more in ("", ", dry_run => true"):
        with pytest.raises(UnsupportedTableError, match=problem) as error:
            publish(session, name, more)
    assert str(tmp_path / "source/part-0.parquet") in str(error.value)
    assert "rewrite_bootstrap_files" in str(error.value.hint)
    assert not (tmp_path / "t/.hoodie/iceberg").exists()
    session.sql(f"CALL rewrite_bootstrap_files(table => '{name}', only_unsafe => false)")
    check_readers(session, name)


def test_partition_columns_inside_of_source_files_are_refused(session: Any, tmp_path: Path) -> None:
    source = tmp_path / "source/dt=a"
    source.mkdir(parents=True)
    pq.write_table(orders(dt=pa.array(["b"] * 20)), source / "part-0.parquet")
    given = {"source": str(source.parent), "record_key": "id", "target_path": str(tmp_path / "t")}
    call_bootstrap(session, {"table": "oracle.refused", **given, "on_partition_mismatch": "warn"})
    with pytest.raises(UnsupportedTableError, match="partition column dt is also a column"):
        publish(session, "oracle.refused")
    session.sql("CALL rewrite_bootstrap_files(table => 'oracle.refused', only_unsafe => false)")
    check_readers(session, "oracle.refused", ("dt = 'a'",))


@pytest.mark.soak
def test_base_files_with_other_partition_values_than_their_directory_are_refused(session: Any) -> None:
    name = "oracle.empty_text"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, dt STRING, n INT) USING hudi PARTITIONED BY (dt, n) "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    long = "x" * 80
    session.sql(f"INSERT INTO {name} VALUES (2, NULL, 1), (3, '{long}', -7), (4, 'é/ü', NULL)")
    check_readers(session, name, ("dt IS NULL", f"dt = '{long}'", "n < 0"))
    session.sql(f"INSERT INTO {name} VALUES (1, '', 1)")
    with pytest.raises(UnsupportedTableError, match="dt has other values than None, that of its directory"):
        publish(session, name)
    session.sql(f"CALL run_clustering(table => '{name}')")
    check_readers(session, name, ("dt IS NULL", "dt = ''"))
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
def test_a_copy_of_a_table_is_published_with_its_own_files_alone(session: Any, tmp_path: Path) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        "CREATE TABLE oracle.original (id INT, n INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    session.sql("INSERT INTO oracle.original VALUES (1, 0), (2, 0)")
    for number in (1, 2):
        session.sql(f"UPDATE oracle.original SET n = {number} WHERE id = 1")
        first = check_readers(session, "oracle.original")
    path = Path(first["metadata_file"].removeprefix("file:")).parents[3]
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    session.sql(f"CREATE TABLE oracle.copy USING hudi LOCATION '{copy}'")
    session.sql("DROP TABLE oracle.original PURGE")
    published = check_readers(session, "oracle.copy")
    assert published["result"] == "published"
    assert not path.exists()
    metadata = metadata_of(str(copy))
    rows = {metadata["current-snapshot-id"]: hudisql_rows(session, "oracle.copy")}
    assert len(check_history(str(copy), rows)) == 1
    session.sql("UPDATE oracle.copy SET n = 3 WHERE id = 2")
    check_readers(session, "oracle.copy")
    session.sql("DROP TABLE oracle.copy")


def test_a_changed_source_is_refused(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, orders())
    pq.write_table(orders(7), tmp_path / "source/part-0.parquet")
    with pytest.raises(SourceChangedError, match=r"part-0\.parquet"):
        publish(session, name)


def test_an_empty_table_is_published_and_the_metadata_goes_with_the_table(
    session: Any, tmp_path: Path
) -> None:
    name = _bootstrap(session, tmp_path, orders())
    session.sql(f"DELETE FROM {name}")
    published = check_readers(session, name)
    assert published["rows"] == 0
    session.sql(f"CALL rollback_bootstrap(table => '{name}', force => true)")
    assert not (tmp_path / "t").exists()
    assert (tmp_path / "source/part-0.parquet").exists()
    session.sql(
        "CREATE TABLE oracle.managed (id BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("INSERT INTO oracle.managed VALUES (1, 'a')")
    metadata_file = Path(check_readers(session, "oracle.managed")["metadata_file"].removeprefix("file:"))
    session.sql("DROP TABLE oracle.managed")
    assert not metadata_file.parents[2].exists()


def test_a_publication_that_fails_before_its_commit_leaves_the_state_before(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _bootstrap(session, tmp_path, orders())
    first = check_readers(session, name)
    before = duckdb_rows(first["metadata_file"])
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq < 3")
    with monkeypatch.context() as patched:
        patched.setattr(snapshot_write, "_metadata_document", _fail)
        with pytest.raises(KeyboardInterrupt):
            publish(session, name)
    assert duckdb_rows(first["metadata_file"]) == before
    assert check_readers(session, name)["metadata_file"].endswith("/v2.metadata.json")


def _fail(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_floats_that_became_doubles_are_found_in_other_types() -> None:
    def nested(value: pa.DataType) -> pa.DataType:
        return pa.struct({"n": pa.int32(), "s": pa.list_(pa.struct({"x": value}))})

    found = published_files._first_double(nested(pa.float32()), nested(pa.float64()))
    assert found is not None
    assert (found[:2], found[-2:]) == ("s.", ".x")
    assert published_files._first_double(nested(pa.float32()), nested(pa.float32())) is None


def test_floats_that_became_doubles_by_schema_on_read_are_not_published(session: Any, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE doubled (id INT, x FLOAT) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"LOCATION '{tmp_path / 'doubled'}'"
    )
    session.sql("INSERT INTO doubled SELECT 1, CAST(1.1 AS FLOAT)")
    publish(session, "doubled")
    session.sql("SET hoodie.schema.on.read.enable = true")
    try:
        session.sql("ALTER TABLE doubled ALTER COLUMN x TYPE DOUBLE")
        with pytest.raises(UnsupportedTableError, match="the FLOAT column x became a DOUBLE"):
            publish(session, "doubled")
        session.sql("UPDATE doubled SET x = x WHERE id = 1")
    finally:
        session.sql("RESET hoodie.schema.on.read.enable")
    check_readers(session, "doubled")
    assert hudisql_rows(session, "doubled") == hudisql_rows(session, "doubled", "x = 1.1D")
