"""A confirmed clean deletes source files of a bootstrap with their skeletons, unless something names them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.hfile.bootstrap_index import BootstrapMapping, write_bootstrap_index
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.instant import CLEAN, METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.services.clean.clean_action import clean_table, schedule_clean
from hudisql.services.clean.clean_metadata import read_clean_metadata
from hudisql.services.clean.clean_plan import CleanOptions, read_clean_plan
from hudisql.services.clean.clean_sources import SourceDeletion
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.fault_injection import FaultyStorage
from tests.table.conftest import TableDirectory

MakeTable = Callable[..., TableDirectory]
KEEP_ONE = CleanOptions(commits_retained=1)
GROUPS = ("f0", "f1", "f2")


def _time(number: int) -> str:
    return f"2026112200000{number}000"


@dataclass
class Confirmed:
    """A confirmation; `named` is what other tables name, `kept` what the clean has told."""

    named: Mapping[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def deletion(self) -> SourceDeletion:
        return SourceDeletion(self._named, self.kept.update)

    def _named(self, paths: Collection[str]) -> Mapping[str, str]:
        return {path: who for path, who in self.named.items() if path in paths}


def _fill(made: TableDirectory, *, rewritten: Collection[str] = GROUPS, mapped_twice: bool = False) -> Path:
    """Three skeletons in one partition, of which some were rewritten twice; returns the source."""
    source = made.path.parent / "source"
    source.mkdir(exist_ok=True)
    made.partition("dt=a")
    mappings = []
    for file_id in GROUPS:
        made.base_file("dt=a", file_id, METADATA_BOOTSTRAP_INSTANT_TIME)
        path = source / f"{file_id}.parquet"
        path.write_bytes(b"rows")
        status = path.stat()
        file = ExternalFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
        mappings.append(BootstrapMapping("dt=a", file_id, "dt=a", file))
    if mapped_twice:
        mappings[2] = BootstrapMapping("dt=a", "f2", "dt=a", mappings[0].external_file)
    write_bootstrap_index(Storage(), str(made.path), str(source), mappings, 1)
    made.commit(METADATA_BOOTSTRAP_INSTANT_TIME)
    for number in (1, 2, 3):
        for file_id in rewritten:
            made.base_file("dt=a", file_id, _time(number))
        written = tuple(f"dt=a/{file_id}_0-0-0_{_time(number)}.parquet" for file_id in rewritten)
        made.commit(_time(number), written=written)
    return source


def _open(made: TableDirectory, storage: Storage | None = None) -> HudiTable:
    return open_table(storage or Storage(), str(made.path))


def _left(source: Path) -> list[str]:
    return sorted(path.stem for path in source.glob("*.parquet"))


def test_a_clean_that_is_not_confirmed_deletes_no_source_file(make_table: MakeTable) -> None:
    made = make_table(hoodie__bootstrap__base__path="/source")
    source = _fill(made)
    metadata = clean_table(_open(made), KEEP_ONE, SINGLE_WRITER)
    assert metadata is not None
    assert (metadata.files_deleted, metadata.sources) == (6, ())
    assert _left(source) == [*GROUPS]


def test_source_files_go_with_their_skeletons_and_those_of_skeletons_that_went_before(
    make_table: MakeTable,
) -> None:
    made = make_table(hoodie__bootstrap__base__path="/source")
    source = _fill(made, rewritten=("f0", "f1"))
    assert clean_table(_open(made), KEEP_ONE, SINGLE_WRITER) is not None
    # Its skeleton is gone; the other's is cleaned together with its source file.
    for number in (4, 5):
        made.base_file("dt=a", "f2", _time(number))
        made.commit(_time(number), written=(f"dt=a/f2_0-0-0_{_time(number)}.parquet",))
    confirmed = Confirmed({str(source / "f1.parquet"): "the table hive.t"})
    metadata = clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, confirmed.deletion)
    assert metadata is not None
    assert _left(source) == ["f1"]
    assert [each.deleted for each in metadata.sources] == [
        tuple(f"file:{source}/{name}.parquet" for name in ("f0", "f2"))
    ]
    assert confirmed.kept == {str(source / "f1.parquet"): "the table hive.t names it"}
    # The other table was dropped; no commit was made since.
    metadata = clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, Confirmed().deletion)
    assert metadata is not None
    assert metadata.files_deleted == 0
    assert _left(source) == []
    assert clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, Confirmed().deletion) is None


def test_source_files_stay_that_a_skeleton_a_savepoint_or_nobody_knows(make_table: MakeTable) -> None:
    made = make_table(hoodie__bootstrap__base__path="/source")
    source = _fill(made, mapped_twice=True)
    files = {
        "partitionPath": "dt=a",
        "savepointDataFile": [f"f2_0-0-0_{METADATA_BOOTSTRAP_INSTANT_TIME}.parquet"],
    }
    record = {"savepointedBy": "", "savepointedAt": 0, "comments": "", "version": 1}
    content = load_codec("HoodieSavepointMetadata").encode({**record, "partitionMetadata": {"dt=a": files}})
    made.instant(f"{METADATA_BOOTSTRAP_INSTANT_TIME}.savepoint", content)
    os.utime(source / "f1.parquet", (1, 1))
    confirmed = Confirmed()
    assert clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, confirmed.deletion) is not None
    assert _left(source) == [*GROUPS]
    assert not list(made.path.glob(f"dt=a/f0_*_{METADATA_BOOTSTRAP_INSTANT_TIME}.parquet"))
    assert confirmed.kept == {
        str(source / "f0.parquet"): "the skeleton of the file group f2 is there",
        str(source / "f1.parquet"): "it has changed since the bootstrap",
    }


def test_what_is_named_since_the_plan_was_made_stays(make_table: MakeTable) -> None:
    made = make_table(hoodie__bootstrap__base__path="/source")
    source = _fill(made)
    requested = schedule_clean(_open(made), KEEP_ONE, SINGLE_WRITER, Confirmed().deletion)
    assert requested is not None
    planned = [each.uri for each in read_clean_plan(_open(made), requested).files["dt=a"] if each.is_source]
    assert planned == [f"file:{source}/{name}.parquet" for name in GROUPS]
    confirmed = Confirmed({str(source / "f1.parquet"): "the table hive.t"})
    metadata = clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, confirmed.deletion)
    assert metadata is not None
    assert [each.failed for each in metadata.sources] == [(f"file:{source}/f1.parquet",)]
    assert _left(source) == ["f1"]


def test_a_confirmed_clean_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    for step in range(100):
        made = TableDirectory(tmp_path / str(step) / "table", {"hoodie.bootstrap.base.path": "/source"})
        source = _fill(made)
        code = _clean_and_kill(made, step)
        # Without a confirmation the next one finishes without source files, and leaves none unknown.
        clean_table(_open(made), KEEP_ONE, SINGLE_WRITER)
        assert _open(made).timeline.pending == ()
        clean_table(_open(made), KEEP_ONE, SINGLE_WRITER, Confirmed().deletion)
        assert _left(source) == []
        cleans = [each for each in _open(made).timeline.completed if each.action == CLEAN]
        deleted = [
            uri
            for clean in cleans
            if (metadata := read_clean_metadata(_open(made), clean)) is not None
            for each in metadata.sources
            for uri in each.deleted
        ]
        assert sorted(deleted) == [f"file:{source}/{name}.parquet" for name in GROUPS]
        assert len(list(made.path.glob("dt=a/*.parquet"))) == 2 * len(GROUPS)
        if code == 0:
            assert step > 4
            return
    raise AssertionError("the clean never came to its end")


def _clean_and_kill(made: TableDirectory, step: int) -> int:
    child = os.fork()
    if not child:
        try:
            storage = FaultyStorage(target=str(made.path.parent), step=step)
            clean_table(_open(made, storage), KEEP_ONE, SINGLE_WRITER, Confirmed().deletion)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
