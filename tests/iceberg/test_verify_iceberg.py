"""What a verification says of right publications, and of each kind of damage, which it names."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.errors import InvalidArgumentError, VerificationFailedError
from hudisql.iceberg.iceberg_verification import IcebergVerification
from tests.iceberg.readers import publish, verification_of
from tests.opened import open_at
from tests.oracle.shapes import Shape, bootstrap_shape

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAME = "oracle.verified"
SHAPE = Shape(
    "verified",
    rows=60,
    files=1,
    table_type="MERGE_ON_READ",
    partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"},
)
COMPACT = "CALL run_compaction(op => 'scheduleandexecute', table => '{t}', options => '{o}')"
AFTER_ONE = "hoodie.compact.inline.max.delta.commits=1"


def found(verified: IcebergVerification) -> set[tuple[str, str]]:
    """The kinds of problems, with the names of files."""
    return {(problem.kind, problem.path.rpartition("/")[2]) for problem in verified.problems}


@pytest.fixture(scope="module")
def published(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a table (`table`) and its source: the first day has log files over its source file,
    the second a rewritten base file, the third is as it was bootstrapped.
    """
    directory = tmp_path_factory.mktemp("verified")
    bootstrap_shape(session, SHAPE, directory)
    session.sql(f"UPDATE {NAME} SET note = 'ours' WHERE dt = '2024-03-02' AND seq < 30")
    session.sql(COMPACT.format(t=NAME, o=AFTER_ONE))
    session.sql(f"UPDATE {NAME} SET note = 'ours', price = -1 WHERE dt = '2024-03-01' AND seq < 30")
    session.sql(f"DELETE FROM {NAME} WHERE dt = '2024-03-01' AND seq IN (30, 33)")
    publish(session, NAME)
    return directory


@pytest.fixture
def damaged(published: Path, tmp_path: Path) -> Iterator[Path]:
    """The directory of `published`, which is restored after the test."""
    kept = tmp_path / "kept"
    shutil.copytree(published, kept)
    yield published
    shutil.rmtree(published)
    shutil.copytree(kept, published)


def _only(paths: Iterator[Path]) -> Path:
    [path] = paths
    return path


def _source(directory: Path, day: int) -> Path:
    return _only((directory / f"source/dt=2024-03-0{day}").glob("*.parquet"))


def _base(directory: Path) -> Path:
    files = (directory / "table/dt=2024-03-02").glob("*.parquet")
    return max(files, key=lambda path: path.stat().st_mtime_ns)


def _slice_file(directory: Path, kind: str) -> Path:
    return _only((directory / "table/.hoodie/iceberg/data").rglob(f"*-{kind}.parquet"))


def _avro(directory: Path, pattern: str) -> Path:
    return _only((directory / "table/.hoodie/iceberg/metadata").glob(pattern))


def _rewrite_avro(path: Path, change: Callable[[list[Any]], None]) -> None:
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    records, schema = list(reader), reader.writer_schema
    metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    change(records)
    buffer = io.BytesIO()
    assert schema is not None
    fastavro.writer(buffer, schema, records, codec="deflate", metadata=metadata)
    path.write_bytes(buffer.getvalue())


def _manifest(directory: Path, content: str) -> Path:
    """The manifest of this content, `data` or `deletes`."""
    for path in (directory / "table/.hoodie/iceberg/metadata").glob("*-m*.avro"):
        if fastavro.reader(io.BytesIO(path.read_bytes())).metadata["content"] == content:
            return path
    raise AssertionError(content)


def _rewrite_metadata(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = directory / "table/.hoodie/iceberg/metadata/v1.metadata.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("reader", ["hudisql", "duckdb", "pyiceberg", "auto"])
def test_a_right_publication_has_no_problem(published: Path, reader: str) -> None:
    verified = verification_of(published / "table", reader=reader)
    assert verified.problems == ()
    assert (verified.files, verified.rows, verified.compared_rows) == (5, 58, 58)
    label = {"hudisql": "hudisql's own reading", "pyiceberg": "PyIceberg"}.get(reader, "DuckDB")
    assert label in verified.describe()
    metadata = verification_of(published / "table", "metadata")
    assert (metadata.problems, metadata.compared_rows, metadata.compared_by) == ((), 0, "")


def test_files_that_are_gone_or_cut_short_are_named(damaged: Path) -> None:
    source, base, deletes = _source(damaged, 3), _base(damaged), _slice_file(damaged, "deletes")
    source.unlink()
    base.write_bytes(base.read_bytes()[:-7])
    deletes.unlink()
    for level in ("metadata", "full"):
        verified = verification_of(damaged / "table", level, "auto")
        assert found(verified) == {
            ("file missing", source.name),
            ("file changed", base.name),
            ("file missing", deletes.name),
        }
        partitions = {problem.partition for problem in verified.problems}
        assert partitions == {"dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-03"}
    assert any("bytes, its manifest says" in problem.detail for problem in verified.problems)


def _with_seq(path: Path, change: Callable[[list[int]], list[int]]) -> None:
    """Write the file again with other values of seq, and its modification time."""
    before, rows = path.stat(), pq.read_table(path, partitioning=None)
    place = rows.column_names.index("seq")
    values = pa.array(change(rows["seq"].to_pylist()), rows["seq"].type)
    pq.write_table(rows.set_column(place, rows.schema.field("seq"), values), path, store_schema=False)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_replaced_by_other_rows_of_the_same_count_is_named(damaged: Path) -> None:
    base, source = _base(damaged), _source(damaged, 3)
    for path in (base, source):
        _with_seq(path, lambda values: [7] * len(values))
    for level in ("metadata", "full"):
        verified = verification_of(damaged / "table", level)
        assert {("file changed", base.name), ("file changed", source.name)} <= found(verified)
        assert ("source changed", source.name) in found(verified)


@pytest.mark.parametrize("reader", ["hudisql", "duckdb"])
def test_other_rows_with_the_same_statistics_are_named_by_their_column(damaged: Path, reader: str) -> None:
    rows = _slice_file(damaged, "rows")
    length = rows.stat().st_size
    _with_seq(rows, lambda values: [values[0], values[2], values[1], *values[3:]])
    assert rows.stat().st_size == length
    assert verification_of(damaged / "table", "metadata").problems == ()
    [problem] = verification_of(damaged / "table", "full", reader).problems
    assert (problem.kind, problem.partition) == ("rows differ", "dt=2024-03-01")
    assert problem.path == str(_source(damaged, 1))
    assert "have the values of each column, but not together" in problem.detail


def test_a_source_that_was_overwritten_in_a_partition_without_commits_is_named(damaged: Path) -> None:
    source = _source(damaged, 3)
    source.write_bytes(source.read_bytes())
    os.utime(source, (1, 1))
    for level in ("metadata", "full"):
        verified = verification_of(damaged / "table", level)
        assert found(verified) == {("source changed", source.name)}
        assert "it was modified at 1970-01-01T00:00:01.000Z" in verified.problems[0].detail


def test_wrong_counts_of_manifests_and_of_their_list_are_named(damaged: Path) -> None:
    manifest = _manifest(damaged, "data")
    _rewrite_avro(manifest, lambda entries: entries[0]["data_file"].update(record_count=99))
    verified = verification_of(damaged / "table", "metadata")
    assert ("manifest wrong", manifest.name) in found(verified)
    details = " ".join(problem.detail for problem in verified.problems)
    assert "the manifest list says added_rows_count" in details
    assert "its manifest says 99" in details
    assert "the snapshot says total-records" in details


def test_a_count_that_is_wrong_in_the_manifest_list_is_named(damaged: Path) -> None:
    _rewrite_avro(_avro(damaged, "snap-*.avro"), lambda records: records[0].update(added_files_count=9))
    verified = verification_of(damaged / "table", "metadata")
    assert {problem.kind for problem in verified.problems} == {"manifest wrong"}
    assert "says added_files_count 9, the manifest has" in verified.problems[0].detail


def _remove_deletes(directory: Path) -> None:
    """Take the delete manifest from the snapshot, and its counts."""
    _rewrite_avro(_avro(directory, "snap-*.avro"), lambda records: records.pop())

    def change(document: dict[str, Any]) -> None:
        document["snapshots"][0]["summary"].update({"total-delete-files": "0", "total-position-deletes": "0"})
        size = int(document["snapshots"][0]["summary"]["total-files-size"])
        removed = _slice_file(directory, "deletes").stat().st_size
        document["snapshots"][0]["summary"]["total-files-size"] = str(size - removed)

    _rewrite_metadata(directory, change)


@pytest.mark.parametrize("reader", ["hudisql", "duckdb", "pyiceberg"])
def test_deletes_that_are_in_no_manifest_are_found_by_the_rows(damaged: Path, reader: str) -> None:
    _remove_deletes(damaged)
    assert verification_of(damaged / "table", "metadata").problems == ()
    [problem] = verification_of(damaged / "table", "full", reader).problems
    assert (problem.kind, problem.partition) == ("rows differ", "dt=2024-03-01")
    assert problem.path == str(_source(damaged, 1))
    assert "30 rows, the Hudi table has 18" in problem.detail


def test_deletes_of_another_file_and_wrong_partitions_are_named(damaged: Path) -> None:
    deletes = _manifest(damaged, "deletes")
    _rewrite_avro(deletes, lambda entries: entries[0]["data_file"].update(referenced_data_file="file:/x"))
    data = _manifest(damaged, "data")
    _rewrite_avro(data, lambda entries: entries[-1]["data_file"]["partition"].update(dt="2024-03-09"))
    kinds = {problem.kind for problem in verification_of(damaged / "table", "metadata").problems}
    assert kinds == {"deletes wrong", "partition wrong", "manifest wrong"}


def test_files_that_are_too_many_or_missing_in_the_snapshot_are_named(damaged: Path) -> None:
    def change(entries: list[Any]) -> None:
        entries[0]["data_file"]["file_path"] = f"file:{damaged}/source/other.parquet"

    taken = fastavro.reader(io.BytesIO(_manifest(damaged, "data").read_bytes()))
    first = next(iter(taken))["data_file"]["file_path"].rpartition("/")[2]  # type: ignore[index, call-overload]
    _rewrite_avro(_manifest(damaged, "data"), change)
    kinds = found(verification_of(damaged / "table", "metadata"))
    assert {("file not in the table", "other.parquet"), ("file missing", "other.parquet")} <= kinds
    assert ("file not published", first) in kinds


def test_manifests_that_are_gone_or_broken_are_named(damaged: Path) -> None:
    manifest = _manifest(damaged, "deletes")
    manifest.write_bytes(b"cut short")
    manifest_list = _avro(damaged, "snap-*.avro")
    for missing in (manifest, manifest_list):
        verified = verification_of(damaged / "table")
        assert found(verified) == {("manifest missing", missing.name), ("not compared", "table")}
        assert [problem.kind for problem in verified.errors] == ["manifest missing"]
        manifest_list.unlink(missing_ok=True)


def test_metadata_that_says_otherwise_than_the_table_is_named(damaged: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["schemas"][0]["fields"][0]["type"] = "long"
        document["properties"]["schema.name-mapping.default"] = "[]"
        document["properties"]["gc.enabled"] = "true"
        document["last-column-id"] = 1

    _rewrite_metadata(damaged, change)
    details = [problem.detail for problem in verification_of(damaged / "table", "metadata").problems]
    assert [detail.split(":")[0] for detail in details] == [
        "the columns are not those of the table",
        "the name mapping does not have the ids of the columns",
        "columns have ids above last-column-id",
        "gc.enabled is not false",
    ]


def test_a_hint_that_does_not_name_the_newest_version_is_named(session: Any, damaged: Path) -> None:
    hint = damaged / "table/.hoodie/iceberg/metadata/version-hint.text"
    for damage, named in ((lambda: hint.write_text("7"), "7"), (hint.unlink, "nothing")):
        damage()
        [problem] = verification_of(damaged / "table", "metadata").problems
        assert (problem.kind, problem.path) == ("metadata wrong", str(hint))
        assert f"it names {named}, the newest version is 1" in problem.detail
        publish(session, NAME)
        assert verification_of(damaged / "table", "metadata").problems == ()


def test_snapshots_of_other_engines_are_named(damaged: Path) -> None:
    directory = damaged / "table/.hoodie/iceberg/metadata"
    foreign = directory / "00003-5d9.metadata.json"
    foreign.write_text("{}")
    [problem] = verification_of(damaged / "table").problems
    assert problem.kind == "foreign snapshot"
    assert foreign.name in problem.detail
    foreign.unlink()
    text = (directory / "v1.metadata.json").read_text().replace("hudi.state", "other")
    (directory / "v2.metadata.json").write_text(text)
    [problem] = verification_of(damaged / "table").problems
    assert problem.kind == "foreign snapshot"
    assert "v2.metadata.json" in problem.detail


def test_a_table_that_is_not_published_or_was_moved(damaged: Path, tmp_path: Path) -> None:
    shutil.copytree(damaged / "table", tmp_path / "moved")
    [problem] = verification_of(tmp_path / "moved").problems
    assert problem.kind == "metadata of another place"
    shutil.rmtree(tmp_path / "moved/.hoodie/iceberg")
    with pytest.raises(InvalidArgumentError, match="is not published as an Iceberg table"):
        verification_of(tmp_path / "moved")


def _calls(session: Any, name: str, *more: str) -> list[tuple[str, str, str]]:
    """The rows of CALL verify_iceberg at the full level: kinds, severities and details."""
    given = "".join(f", {each}" for each in ("level => 'full'", "fail_on_error => false", *more))
    rows = session.sql(f"CALL verify_iceberg(table => '{name}'{given})").rows
    return [(row.finding, row.severity, row.detail) for row in rows]


CHANGES = (
    "UPDATE {t} SET note = 'later' WHERE seq IN (0, 1, 2, 31)",
    "DELETE FROM {t} WHERE seq IN (5, 6, 7)",
    "INSERT INTO {t} SELECT 'new', 900, total, fare, price, is_even, day, at, note, place, labels, extra, "
    "'2024-03-09' FROM {t} WHERE seq = 8",
    COMPACT.replace("{o}", AFTER_ONE),
    "UPDATE {t} SET note = 'last' WHERE seq IN (8, 9, 10)",
    "ALTER TABLE {t} ADD COLUMNS (more STRING)",
    "UPDATE {t} SET more = 'x' WHERE seq = 11",
)


@pytest.mark.parametrize(
    "changes", [CHANGES[:1], pytest.param(CHANGES, marks=pytest.mark.soak)], ids=["one", "many"]
)
def test_a_publication_that_is_behind_is_compared_with_its_own_state(
    session: Any, damaged: Path, changes: Sequence[str]
) -> None:
    first = verification_of(damaged / "table")
    for change in changes:
        session.sql(change.format(t=NAME))
        for reader in ("hudisql", "duckdb"):
            verified = verification_of(damaged / "table", reader=reader)
            assert [problem.kind for problem in verified.problems] == ["behind"], verified.problems
            assert verified.errors == ()
            assert (verified.instant, verified.compared_rows) == (first.instant, 58)
    commits = open_at(damaged / "table").timeline.commits
    [problem] = verified.problems
    missing = [commit.timestamp for commit in commits if commit.timestamp > first.instant]
    assert len(missing) >= len(changes)
    more = f" and {len(missing) - 5} more:" if len(missing) > 5 else ":"
    assert f"commits that are missing: {', '.join(missing[:5])}{more}" in problem.detail
    assert "CALL sync_iceberg publishes" in problem.detail
    publish(session, NAME)
    assert verification_of(damaged / "table").problems == ()


@pytest.mark.soak
def test_a_published_state_that_was_cleaned_or_rolled_back_is_not_compared(
    session: Any, damaged: Path
) -> None:
    session.sql(f"UPDATE {NAME} SET note = 'undone' WHERE seq = 5")
    publish(session, NAME)
    undone = open_at(damaged / "table").timeline.commits[-1].timestamp
    session.sql(f"CALL rollback_to_instant(table => '{NAME}', instant_time => '{undone}')")
    verified = verification_of(damaged / "table")
    assert [(each.kind, each.is_error) for each in verified.problems] == [("not compared", False)]
    assert f"the commit {undone}, which it shows, was rolled back" in verified.problems[0].detail
    publish(session, NAME)
    for note in "ab":
        session.sql(f"UPDATE {NAME} SET note = '{note}' WHERE dt = '2024-03-02'")
        session.sql(COMPACT.format(t=NAME, o=AFTER_ONE))
    base = min((damaged / "table/dt=2024-03-02").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    session.sql(f"CALL run_clean(table => '{NAME}', retain_commits => 1)")
    assert not base.exists()
    verified = verification_of(damaged / "table")
    kinds = [each.kind for each in verified.problems]
    assert kinds == ["file missing", "behind", "not compared"]
    assert "a clean deleted files" in verified.problems[2].detail


def test_the_call_names_what_differs_and_fails(session: Any, damaged: Path) -> None:
    [(finding, severity, detail)] = _calls(session, NAME)
    assert (finding, severity) == ("SUMMARY", "ok")
    assert detail.startswith("0 errors, 0 notices; full: 5 files with 58 rows of instant ")
    assert detail.endswith(", 58 rows compared by DuckDB 1.5.5")
    assert "58 rows compared by hudisql's own reading" in _calls(session, NAME, "reader => 'hudisql'")[0][2]
    _remove_deletes(damaged)
    bootstrap = session.sql(
        f"CALL verify_bootstrap(table => '{NAME}', level => 'full', fail_on_error => false)"
    )
    assert [row.finding for row in bootstrap.rows] == ["Iceberg: rows differ", "SUMMARY"]
    assert "; Iceberg: 4 files with 70 rows of instant" in bootstrap.rows[1].detail
    [(finding, severity, detail), summary] = _calls(session, NAME)
    assert (finding, severity, summary[:2]) == ("rows differ", "error", ("SUMMARY", "failed"))
    assert "30 rows, the Hudi table has 18" in detail
    with pytest.raises(VerificationFailedError, match="does not match it: 1 errors"):
        session.sql(f"CALL verify_iceberg(path => '{damaged / 'table'}', level => 'full')").raise_error()
    with pytest.raises(InvalidArgumentError, match="level 'half' is unknown"):
        session.sql(f"CALL verify_iceberg(table => '{NAME}', level => 'half')")


@pytest.mark.usefixtures("damaged")
def test_an_entry_that_shows_other_metadata_is_named(session: Any) -> None:
    publish(session, NAME, ", register => true")
    assert [row[:2] for row in _calls(session, NAME)] == [("SUMMARY", "ok")]
    client = session.context.metastore
    entry = client.get_table("oracle", "verified_iceberg")
    parameters = {**entry.parameters, "metadata_location": "file:/elsewhere/v1.metadata.json"}
    alter_guarded(client, entry, replace(entry, parameters=parameters))
    [(finding, severity, detail), _] = _calls(session, NAME)
    assert (finding, severity) == ("entry wrong", "error")
    assert "oracle.verified_iceberg shows file:/elsewhere/v1.metadata.json" in detail
    session.sql(f"DROP TABLE {NAME}_iceberg")
