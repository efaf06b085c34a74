"""Cleans: killed at any step they are finished by the next, and they delete nothing that is in use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hudisql.errors import CorruptTableError, StorageError, UnsupportedTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import CLEAN, Instant, InstantState
from hudisql.services.clean.clean_action import clean_table, run_clean, run_pending_cleans, schedule_clean
from hudisql.services.clean.clean_metadata import read_clean_metadata
from hudisql.services.clean.clean_plan import CleanOptions, CleanPlan, FileToClean, read_clean_plan
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.fault_injection import run_and_kill
from tests.table.conftest import TableDirectory

MakeTable = Callable[..., TableDirectory]
KEEP_ONE = CleanOptions(commits_retained=1)


def _time(number: int) -> str:
    return f"2026112200000{number}000"


@pytest.fixture
def directory(make_table: MakeTable) -> TableDirectory:
    return _fill(make_table())


def _fill(made: TableDirectory) -> TableDirectory:
    """Two partitions, of which one was dropped; two file versions in the other are superfluous."""
    for partition in ("dt=a", "dt=b"):
        made.partition(partition)
        made.base_file(partition, "f", _time(0))
    made.commit(_time(0))
    made.commit(_time(1), "replacecommit", replaced={"dt=b": ("f",)})
    for number in range(2, 5):
        made.commit(_time(number))
        made.base_file("dt=a", "f", _time(number))
    return made


def _open(directory: TableDirectory, storage: Storage | None = None) -> HudiTable:
    return open_table(storage or Storage(), str(directory.path))


def _data_files(directory: TableDirectory) -> list[str]:
    return sorted(str(path.relative_to(directory.path)) for path in directory.path.rglob("*.parquet"))


KEPT = [f"dt=a/f_0-0-0_{_time(number)}.parquet" for number in (3, 4)]


def test_a_clean_says_what_it_has_deleted(directory: TableDirectory) -> None:
    metadata = clean_table(_open(directory), KEEP_ONE, SINGLE_WRITER)
    assert metadata is not None
    assert _data_files(directory) == KEPT
    assert not (directory.path / "dt=b").exists()
    assert (metadata.earliest_retained, metadata.last_completed) == (_time(4), _time(4))
    assert metadata.files_deleted == 3
    assert {each.partition_path: each.is_partition_deleted for each in metadata.partitions} == {
        "dt=a": False,
        "dt=b": True,
    }
    table = _open(directory)
    assert table.timeline.pending == ()
    (done,) = [each for each in table.timeline.completed if each.action == CLEAN]
    assert read_clean_metadata(table, done) == metadata
    inflight = table.instant_path(done.in_state(InstantState.INFLIGHT))
    requested = table.instant_path(done.in_state(InstantState.REQUESTED))
    assert Path(inflight).read_bytes() == Path(requested).read_bytes()
    assert clean_table(table, KEEP_ONE, SINGLE_WRITER) is None


def test_a_clean_that_was_killed_at_any_step_is_finished_by_the_next(make_table: MakeTable) -> None:
    # `make_table` makes its table in one place: each round begins with an empty one.
    for step in range(100):
        made = _fill(make_table())
        is_killed = _clean_and_kill(made, step)
        assert set(KEPT) <= set(_data_files(made))
        clean_table(_open(made), KEEP_ONE, SINGLE_WRITER)
        assert _data_files(made) == KEPT
        assert _open(made).timeline.pending == ()
        shutil.rmtree(made.path)
        if not is_killed:
            assert step > 5
            return
    raise AssertionError("the clean never came to its end")


def _clean_and_kill(directory: TableDirectory, step: int) -> bool:
    return run_and_kill(
        str(directory.path),
        lambda storage: clean_table(_open(directory, storage), KEEP_ONE, SINGLE_WRITER),
        step,
    )


def _planned(directory: TableDirectory) -> tuple[HudiTable, Instant]:
    requested = schedule_clean(_open(directory), KEEP_ONE, SINGLE_WRITER)
    assert requested is not None
    return _open(directory), requested


def test_a_plan_that_another_process_has_run_is_done(directory: TableDirectory) -> None:
    table, requested = _planned(directory)
    first = run_clean(table, requested, SINGLE_WRITER)
    assert run_clean(table, requested, SINGLE_WRITER) == first


def test_files_that_a_savepoint_protects_by_now_stay(directory: TableDirectory) -> None:
    _, requested = _planned(directory)
    files = {"partitionPath": "dt=a", "savepointDataFile": [f"f_0-0-0_{_time(2)}.parquet"]}
    record = {"savepointedBy": "", "savepointedAt": 0, "comments": "", "version": 1}
    content = load_codec("HoodieSavepointMetadata").encode({**record, "partitionMetadata": {"dt=a": files}})
    directory.instant(f"{_time(2)}.savepoint", content)
    metadata = run_clean(_open(directory), requested, SINGLE_WRITER)
    assert metadata is not None
    assert [name for each in metadata.partitions for name in each.failed] == [f"f_0-0-0_{_time(2)}.parquet"]
    assert f"dt=a/f_0-0-0_{_time(2)}.parquet" in _data_files(directory)


def test_files_that_readers_see_by_now_stay(directory: TableDirectory) -> None:
    _, requested = _planned(directory)
    # The newer versions were rolled back since.
    for number in (3, 4):
        (directory.path / f".hoodie/{_time(number)}.commit").unlink()
        (directory.path / f"dt=a/f_0-0-0_{_time(number)}.parquet").unlink()
    run_clean(_open(directory), requested, SINGLE_WRITER)
    assert f"dt=a/f_0-0-0_{_time(2)}.parquet" in _data_files(directory)


def test_a_partition_that_is_written_to_stays(directory: TableDirectory) -> None:
    _, requested = _planned(directory)
    directory.instant(f"{_time(5)}.commit.requested")
    metadata = run_clean(_open(directory), requested, SINGLE_WRITER)
    assert metadata is not None
    assert not any(each.is_partition_deleted for each in metadata.partitions)
    assert (directory.path / "dt=b/.hoodie_partition_metadata").exists()


def test_source_files_are_never_deleted_whoever_planned_it(directory: TableDirectory, tmp_path: Path) -> None:
    table, requested = _planned(directory)
    source = tmp_path / "source.parquet"
    source.touch()
    plan = read_clean_plan(table, requested)
    files = {"dt=a": (*plan.files["dt=a"], FileToClean(f"file:{source}", is_source=True))}
    _put_plan(directory, requested, plan, files)
    metadata = run_clean(_open(directory), requested, SINGLE_WRITER)
    assert metadata is not None
    assert source.exists()
    assert [each.failed for each in metadata.sources] == [(f"file:{source}",)]


def test_a_plan_that_names_files_outside_of_the_table_deletes_nothing(directory: TableDirectory) -> None:
    table, requested = _planned(directory)
    plan = read_clean_plan(table, requested)
    before = _data_files(directory)
    for path in (f"{directory.path}/.hoodie/hoodie.properties", f"{directory.path.parent}/other.parquet"):
        _put_plan(directory, requested, plan, {"dt=a": (*plan.files["dt=a"], FileToClean(path))})
        with pytest.raises(CorruptTableError, match="which is not a data file of the table"):
            run_clean(_open(directory), requested, SINGLE_WRITER)
    assert _data_files(directory) == before


def _put_plan(
    directory: TableDirectory,
    requested: Instant,
    plan: CleanPlan,
    files: dict[str, tuple[FileToClean, ...]],
) -> None:
    changed = CleanPlan(plan.earliest_retained, plan.last_completed, plan.policy, files)
    directory.instant(f"{requested.timestamp}.clean.requested", changed.to_avro())


def test_a_plan_that_was_never_written_is_taken_away(directory: TableDirectory) -> None:
    directory.instant(f"{_time(6)}.clean.requested")
    assert run_pending_cleans(_open(directory), SINGLE_WRITER) is None
    assert _open(directory).timeline.pending == ()


def test_a_file_that_cannot_be_deleted_is_named(
    directory: TableDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = f"f_0-0-0_{_time(2)}.parquet"
    delete = Storage.delete_file

    def fails(self: Storage, path: str) -> None:
        if path.endswith(stuck):
            raise StorageError(f"cannot delete {path}")
        delete(self, path)

    monkeypatch.setattr(Storage, "delete_file", fails)
    metadata = clean_table(_open(directory), KEEP_ONE, SINGLE_WRITER)
    assert metadata is not None
    assert [name for each in metadata.partitions for name in each.failed] == [stuck]
    assert metadata.files_deleted == 2


def test_a_file_that_could_not_be_deleted_is_deleted_by_the_next_clean(
    directory: TableDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = str(directory.path / f"dt=b/f_0-0-0_{_time(0)}.parquet")
    delete = Storage.delete_file

    def fails(self: Storage, path: str) -> None:
        if path == stuck:
            raise StorageError(f"cannot delete {path}")
        delete(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "delete_file", fails)
        clean_table(_open(directory), KEEP_ONE, SINGLE_WRITER)
    assert Path(stuck).exists()
    # No commit since writes into its partition.
    for number in (5, 6):
        directory.commit(_time(number))
    clean_table(_open(directory), KEEP_ONE, SINGLE_WRITER)
    assert not Path(stuck).exists()


def test_a_pending_clean_of_a_table_with_a_metadata_table_is_left_to_hudi(
    directory: TableDirectory,
) -> None:
    _, requested = _planned(directory)
    directory.file(".hoodie/metadata/.hoodie/hoodie.properties")
    with pytest.raises(UnsupportedTableError, match="has a metadata table"):
        run_clean(_open(directory), requested, SINGLE_WRITER)
