"""Register-only partitions as the timeline and the lists of resyncs tell them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import (
    CorruptTableError,
    NoSuchPathError,
    NoSuchStateError,
    RegisterOnlyError,
    SourceChangedError,
    UnsupportedTableError,
)
from hudisql.format.paths.external_file import ExternalFile
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.registered_partitions import (
    RECORD_FILE,
    RegisteredPartition,
    end_registration,
    ended_registrations,
    read_registered_record,
    refuse_registered,
    registered_partitions,
    registered_slices,
    write_registered_partitions,
)
from hudisql.table.partitions.resynced_sources import (
    LISTS_DIRECTORY,
    ResyncedSource,
    merge_archived_lists,
    read_resync_lists,
    record_resync,
)
from tests.table.conftest import TableDirectory

STORAGE = Storage()
FIRST, LIFT, LATER = "00000000000001", "20240301000000000", "20240401000000000"


@pytest.fixture
def made(make_table: Callable[..., TableDirectory], tmp_path: Path) -> TableDirectory:
    """A table with the register-only partitions `dt=1` and `dt=2`."""
    table = make_table(hudisql__bootstrap__register__only="true")
    table.commit(FIRST)
    for day in (1, 2):
        directory = tmp_path / "source" / f"dt={day}"
        directory.mkdir(parents=True)
        (directory / "a.parquet").write_bytes(b"rows")
        (directory / "_SUCCESS").write_bytes(b"no rows")
        (directory / "empty.parquet").touch()
    recorded = [RegisteredPartition(f"dt={day}", f"{tmp_path}/source/dt={day}") for day in (1, 2)]
    assert write_registered_partitions(STORAGE, str(table.path), recorded) > 0
    return table


def opened(made: TableDirectory) -> HudiTable:
    return open_table(STORAGE, str(made.path))


def paths(made: TableDirectory, *arguments: Any, **named: Any) -> list[str]:
    return sorted(registered_partitions(opened(made), *arguments, **named).by_path)


def test_a_partition_ends_when_the_commit_that_has_taken_its_files_completes(
    made: TableDirectory, tmp_path: Path
) -> None:
    assert paths(made) == ["dt=1", "dt=2"]
    made.instant(f"{LIFT}.commit.requested")
    made.instant(f"{LIFT}.inflight")
    end_registration(opened(made), LIFT, ["dt=1", "dt=9"])
    assert paths(made) == ["dt=1", "dt=2"]
    assert paths(made, own_instant=LIFT) == ["dt=2"]
    refuse_registered(opened(made), ["dt=1"], own_instant=LIFT)
    with pytest.raises(RegisterOnlyError, match=r"touches 1 register-only partition .* 'dt=1'") as caught:
        refuse_registered(opened(made), ["dt=1", "dt=9"])
    assert caught.value.partitions == ("dt=1",)
    assert ended_registrations(opened(made), {LIFT}) == {}
    made.commit(LIFT)
    assert paths(made) == ["dt=2"]
    [(ended, [taken])] = ended_registrations(opened(made), {LIFT, LATER}).items()
    assert (ended, taken.path) == ("dt=1", f"{tmp_path}/source/dt=1/a.parquet")
    assert ended_registrations(opened(made), {LATER}) == {}

    # The state before it has the files that the commit took, not those that are there now.
    (tmp_path / "source/dt=1/later.parquet").write_bytes(b"rows")
    (tmp_path / "source/dt=2/later.parquet").write_bytes(b"rows")
    late = ResyncedSource("dt=1", ExternalFile(f"{tmp_path}/source/dt=1/later.parquet", 4, 0))
    record_resync(opened(made), LATER, read_resync_lists(opened(made)), [late])
    made.commit(LATER)
    before = registered_partitions(opened(made), FIRST)
    slices = registered_slices(opened(made), before.among(["dt=1", "dt=2", "dt=3"]), ())
    assert [each.external_file.path.rpartition("source/")[2] for each in slices if each.external_file] == [
        "dt=1/a.parquet",
        "dt=2/a.parquet",
        "dt=2/later.parquet",
    ]
    assert all(each.is_register_only and each.length == 4 for each in slices)
    with pytest.raises(UnsupportedTableError, match=r"'dt=2' of .* another writer"):
        registered_slices(opened(made), before.among(["dt=2"]), {"dt=2"})

    # Rolled back: the partition is register-only again.
    for instant in (LIFT, LATER):
        for path in (made.path / ".hoodie").glob(f"{instant}.*"):
            path.unlink()
    assert paths(made) == ["dt=1", "dt=2"]


def test_what_an_archived_commit_took_is_known_without_its_instant(
    made: TableDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.commit(LATER)
    end_registration(opened(made), LIFT, ["dt=1"])
    monkeypatch.setattr(
        "hudisql.table.partitions.resynced_sources.archived_commits", lambda *_: frozenset({LIFT})
    )
    assert paths(made) == ["dt=2"]
    merge_archived_lists(opened(made))
    monkeypatch.undo()
    assert paths(made) == ["dt=2"]
    assert len(list((made.path / LISTS_DIRECTORY).iterdir())) == 1
    (made.path / ".hoodie" / f"{FIRST}.commit").unlink()
    assert paths(made, LATER) == ["dt=2"]
    with pytest.raises(NoSuchStateError, match=f"register-only at {FIRST}"):
        paths(made, FIRST)


def test_a_directory_that_is_gone_is_an_error_that_names_it(made: TableDirectory, tmp_path: Path) -> None:
    (tmp_path / "source/dt=1").rename(tmp_path / "elsewhere")
    registered = registered_partitions(opened(made))
    assert len(registered_slices(opened(made), registered.among(["dt=2"]), ())) == 1
    with pytest.raises(SourceChangedError, match=r"is gone: .*/source/dt=1"):
        registered_slices(opened(made), registered.among(["dt=1", "dt=2"]), ())


@pytest.mark.parametrize("has_directory", [True, False])
def test_a_partition_without_files_ends(made: TableDirectory, tmp_path: Path, has_directory: bool) -> None:
    directory = tmp_path / "source/dt=1"
    directory.rename(tmp_path / "elsewhere")
    if has_directory:
        directory.mkdir()
    made.instant(f"{LIFT}.commit.requested")
    made.instant(f"{LIFT}.inflight")
    end_registration(opened(made), LIFT, ["dt=1"])
    made.commit(LIFT)
    assert paths(made) == ["dt=2"]
    lists = read_resync_lists(opened(made))
    assert lists.taken == {}
    # The state before it: without rows if it had none, with those of the directory if that was away.
    before = registered_partitions(opened(made), FIRST)
    assert sorted(before.by_path) == ["dt=1", "dt=2"]
    if has_directory:
        (directory / "later.parquet").write_bytes(b"rows")
        assert registered_slices(opened(made), before.among(["dt=1"]), ()) == []
        return
    with pytest.raises(SourceChangedError, match=r"is gone: .*/source/dt=1"):
        registered_slices(opened(made), before.among(["dt=1"]), ())
    (tmp_path / "elsewhere").rename(directory)
    assert len(registered_slices(opened(made), before.among(["dt=1"]), ())) == 1


def test_a_record_that_cannot_be_read_is_an_error_that_names_it(made: TableDirectory) -> None:
    (made.path / RECORD_FILE).write_bytes(b"damaged")
    with pytest.raises(CorruptTableError, match="hudisql-register-only, which names"):
        paths(made)
    (made.path / RECORD_FILE).unlink()
    with pytest.raises(NoSuchPathError):
        read_registered_record(STORAGE, str(made.path))
