"""What a directory is taken for by the marks in it, and whether the run that leases it can still be at
work.
"""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from hudisql.bootstrap.lease.target_state import LeaseRecord, TargetState, read_lease, read_target_state
from hudisql.storage import Storage

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
    host = socket.gethostname()
    assert not LeaseRecord("db.t", host, os.getpid(), now).is_expired
    assert LeaseRecord("db.t", host, os.getpid(), 1000).is_expired  # another process had this number then
    assert LeaseRecord("db.t", host, 2**22 + 1, now).is_expired
    assert not LeaseRecord("db.t", "elsewhere", 2**22 + 1, now).is_expired
    assert not LeaseRecord("db.t", host, None, now).is_expired


def test_a_claim_that_was_cut_short_tells_nothing_but_is_one(tmp_path: Path) -> None:
    assert read_lease(Storage(), str(tmp_path)) is None
    path = tmp_path / ".hoodie" / ".hudisql-bootstrap"
    path.parent.mkdir()
    for content in ('{"table": "db', "[]", json.dumps({"process": "seven"})):
        path.write_text(content)
        lease = read_lease(Storage(), str(tmp_path))
        assert lease is not None
        assert (lease.table, lease.host, lease.process, lease.is_expired) == (None, None, None, False)
        assert str(lease) == "process unknown on an unknown host"
