"""What a directory is taken for by the marks in it, and whether the run that leases it can still be at
work.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.bootstrap.lease.target_state import (
    LEASE_TIMEOUT_MS,
    LeaseRecord,
    TargetState,
    read_lease,
    read_target_state,
)
from hudisql.storage import Storage
from hudisql.write.transaction.process_identity import this_process

INDEX = ".aux/.bootstrap/.partitions/00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        (None, TargetState.NOTHING),
        (["hoodie.properties"], TargetState.TABLE),
        (["hoodie.properties.backup"], TargetState.TABLE),
        (["hoodie.properties", ".hudisql-rollback"], TargetState.TABLE),
        ([".hudisql-rollback", ".hudisql-bootstrap"], TargetState.ROLLBACK),
        ([".hudisql-bootstrap"], TargetState.RUN),
        (["00000000000001.commit", "00000000000001.inflight", INDEX], TargetState.RUN),
        (["00000000000001.commit", ".0a1b.hudisql-staged", INDEX], TargetState.RUN),
        (["timeline/00000000000001.commit.requested"], TargetState.RUN),
        (["timeline/00000000000001_20261123010203004.commit", INDEX], TargetState.RUN),
        (["timeline/20261123010203004.commit.requested", INDEX], TargetState.NOTHING),
        ([INDEX], TargetState.RUN),
        ([], TargetState.RUN),
        # A table of someone else that has lost its properties is not ours to clear away.
        (["00000000000001.commit", "20240301010203004.commit", INDEX], TargetState.NOTHING),
        (["20240301010203004.commit"], TargetState.NOTHING),
        (["metadata/.hoodie/hoodie.properties"], TargetState.NOTHING),
    ],
)
def test_the_marks_in_a_directory_say_what_it_holds(tmp_path: Path, files, state) -> None:
    if files is not None:
        (tmp_path / ".hoodie").mkdir()
    for name in files or ():
        path = tmp_path / ".hoodie" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert read_target_state(Storage(), str(tmp_path)) is state


def test_only_an_ended_process_of_this_host_is_known_to_be_gone() -> None:
    now = int(time.time() * 1000)
    this = this_process()
    assert not LeaseRecord("db.t", this, 1000).is_expired
    # The number is reused: another process had it when the lease was written.
    assert LeaseRecord("db.t", replace(this, start="1"), now).is_expired
    gone = replace(this, process=2**22 + 1)
    assert LeaseRecord("db.t", gone, now).is_expired
    assert not LeaseRecord("db.t", replace(gone, host="elsewhere"), now).is_expired
    assert LeaseRecord("db.t", replace(gone, host="elsewhere"), now - LEASE_TIMEOUT_MS - 1).is_expired
    assert not LeaseRecord("db.t", None, now).is_expired


def test_a_claim_that_was_cut_short_tells_nothing_but_is_one(tmp_path: Path) -> None:
    assert read_lease(Storage(), str(tmp_path)) is None
    path = tmp_path / ".hoodie" / ".hudisql-bootstrap"
    path.parent.mkdir()
    for content in ('{"table": "db', "[]", json.dumps({"process": "seven"})):
        path.write_text(content)
        lease = read_lease(Storage(), str(tmp_path))
        assert lease is not None
        assert (lease.table, lease.holder, lease.is_expired) == (None, None, False)
        assert str(lease) == "an unknown process"
