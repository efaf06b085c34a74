"""`resume => true`: what a killed or failed run has finished is kept, and readers never see half a table."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.lease.skeleton_checkpoint import CHECKPOINT_DIRECTORY, checkpointed, read_checkpoint
from hudisql.bootstrap.lease.target_lease import Lease
from hudisql.bootstrap.run import plan_execution as run
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore, embedded_metastore_status
from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    NoSuchTableError,
    SourceChangedError,
    StorageError,
    TableExistsError,
)
from hudisql.format.timeline.commit_metadata import parse_commit_metadata
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from tests.fault_injection import metastore_relay, run_with_fault
from tests.file_slices import base_file_path
from tests.procedures.conftest import sql_literal
from tests.sources import fingerprint, orders, write_parquet
from tests.spark_versions import frame_of_path

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def failed_run(bootstrap, tmp_path, monkeypatch):
    """A target as a run leaves it that was to be resumed: all skeletons are there, nothing is visible."""

    def leave(**more) -> list[str]:
        def fail(*_arguments):
            raise StorageError("injected fault")

        with monkeypatch.context() as patched:
            patched.setattr(run, "write_table_files", fail)
            with pytest.raises(StorageError, match="injected fault"):
                bootstrap(resume=True, **more)
        assert not (tmp_path / "t/.hoodie/.hudisql-bootstrap").exists()
        return sorted(path.name for path in (tmp_path / "t").rglob("*.parquet"))

    return leave


def visible_rows(target: Path) -> int | None:
    """Rows of the table's base files, None if no reader sees a table."""
    try:
        slices = load_file_slices(open_table(Storage(), str(target)))
    except NoSuchTableError:
        return None
    return sum(pq.read_metadata(base_file_path(each)).num_rows for each in slices)


def check_is_whole(session, name: str | None, target: Path, rows: int = 80) -> None:
    """The table has the source's rows, its commits name each data file, and nothing is left of the run."""
    named = {
        stat.path: stat.file_size_in_bytes
        for path in (target / ".hoodie").glob("*.commit")
        for stat in parse_commit_metadata(path.read_bytes()).write_stats
    }
    assert named == {
        str(path.relative_to(target)): path.stat().st_size
        for path in target.rglob("*.parquet")
        if ".hoodie" not in path.parts
    }
    assert not (target / CHECKPOINT_DIRECTORY).exists()
    assert not [path for path in (target / ".hoodie").iterdir() if path.name.startswith(".hudisql")]
    frame_of_path(session, target).createOrReplaceTempView("crashed")
    for table in ("crashed", name) if name is not None else ("crashed",):
        (counted,) = session.sql(
            f"SELECT count(*) AS r, count(DISTINCT id) AS i, count(DISTINCT _hoodie_commit_seqno) AS s,"
            f" count(DISTINCT _hoodie_file_name) AS f FROM {table}"
        ).rows
        assert (counted.r, counted.i, counted.s, counted.f) == (rows, rows, rows, len(named))
    files = session.sql("SELECT DISTINCT _hoodie_file_name AS f FROM crashed").rows
    assert {row.f for row in files} == {Path(path).name for path in named if path}


def test_a_failed_run_is_gone_on_with_and_its_skeletons_are_kept(
    session, failed_run, bootstrap, daily_orders, tmp_path, name
):
    before = fingerprint(daily_orders)
    made = failed_run()
    assert len(made) == 4
    with pytest.raises(BootstrapBlockedError, match="did not finish") as refused:
        bootstrap()
    assert "resume => true" in str(refused.value)
    assert "CALL rollback_bootstrap" in str(refused.value)
    (tmp_path / "t" / "dt=2024-03-01" / made[0].replace("-0-", "-0-9")).write_bytes(
        b"of an attempt that lost"
    )
    shown = bootstrap(resume=True, dry_run=True)
    assert "it is resumed" in shown[-1]["warnings"]
    total = bootstrap(resume=True)[-1]
    assert (total["files"], total["rows"]) == (4, 80)
    assert "4 of the files were finished by an earlier run" in total["warnings"]
    assert sorted(path.name for path in (tmp_path / "t").rglob("*.parquet")) == made
    check_is_whole(session, name, tmp_path / "t")
    assert fingerprint(daily_orders) == before


def test_what_was_kept_for_resuming_can_be_rolled_back(call, failed_run, daily_orders, tmp_path):
    before = fingerprint(daily_orders)
    failed_run()
    rows = call("rollback_bootstrap", path=tmp_path / "t")
    assert (rows[-1]["kind"], rows[-1]["files"]) == ("a bootstrap that did not finish", 4)
    assert not (tmp_path / "t").exists()
    assert fingerprint(daily_orders) == before


def test_only_what_is_missing_changed_or_new_is_done_again(
    session, failed_run, bootstrap, daily_orders, tmp_path, name
):
    changed = daily_orders / "dt=2024-03-01" / "part-0.parquet"
    pq.write_table(orders(), changed, compression="none")
    made = failed_run()
    finished = {Path(each.source.path).name: each for each in read_checkpoint(Storage(), str(tmp_path / "t"))}
    kept = {number: Path(finished[f"part-{number}.parquet"].result.path) for number in range(4)}
    assert sorted(path.name for path in kept.values()) == made
    # Same length and same modification time, other content: the footer tells.
    stat = changed.stat()
    content = changed.read_bytes()
    pq.write_table(orders(1000), changed, compression="none")
    assert len(changed.read_bytes()) == len(content)
    assert changed.read_bytes() != content
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    kept[1].write_bytes(kept[1].read_bytes()[:-1])
    (daily_orders / "dt=2024-03-02" / "part-2.parquet").unlink()
    write_parquet(daily_orders / "dt=2024-03-09" / "part-9.parquet", orders(900))
    total = bootstrap(resume=True)[-1]
    assert total["files"] == 4
    assert "1 of the files" in total["warnings"]
    now = {path.name for path in (tmp_path / "t").rglob("*.parquet")}
    assert now & set(made) == {kept[3].name}
    check_is_whole(session, name, tmp_path / "t")
    assert session.sql(f"SELECT id FROM {name} WHERE id = 'k01000'").rows
    assert not session.sql(f"SELECT id FROM {name} WHERE id = 'k00000'").rows


def test_a_changed_request_is_refused_by_name_and_harms_nothing(
    failed_run, bootstrap, daily_orders, tmp_path
):
    failed_run()
    before = fingerprint(tmp_path)
    other = write_parquet(tmp_path / "other" / "dt=2024-03-01" / "a.parquet", orders()).parents[1]
    for more, words in (
        ({"record_key": "seq"}, "record_key was 'id', now it is 'seq'"),
        ({"record_key": "id,seq"}, "record_key was 'id', now it is 'id,seq'"),
        ({"skeleton_encoding": "delta"}, "skeleton_encoding was 'plain', now it is 'delta'"),
        ({"partition_filter": "dt > '2024-03-01'"}, "partition_filter was not given, now it is"),
        ({"source": other}, f"source was '{daily_orders}', now it is '{other}'"),
    ):
        with pytest.raises(InvalidArgumentError, match="had other arguments: ") as refused:
            bootstrap(resume=True, **more)
        assert words in refused.value.message
        assert "CALL rollback_bootstrap" in str(refused.value.hint)
    after = {path: told for path, told in fingerprint(tmp_path).items() if not path.startswith("other")}
    assert {path: told[0] for path, told in after.items()} == {path: told[0] for path, told in before.items()}
    # What has no part in the table's form may change.
    assert "4 of the files" in bootstrap(resume=True, parallelism=1, sync=False)[-1]["warnings"]


def test_keys_that_stop_the_run_leave_nothing_to_resume(bootstrap, daily_orders, tmp_path):
    write_parquet(daily_orders / "dt=2024-03-01" / "twice.parquet", orders())
    with pytest.raises(BootstrapBlockedError, match="twice"):
        bootstrap(resume=True)
    assert not (tmp_path / "t").exists()


def test_a_source_that_changes_stops_the_run_and_only_the_changed_file_is_done_again(
    session, bootstrap, daily_orders, tmp_path, name, monkeypatch
):
    write = run._write_skeletons

    def write_and_touch(*arguments):
        written = write(*arguments)
        os.utime(daily_orders / "dt=2024-03-02" / "part-2.parquet", (1, 1))
        return written

    with monkeypatch.context() as patched:
        patched.setattr(run, "_write_skeletons", write_and_touch)
        with pytest.raises(SourceChangedError, match=r"part-2") as raised:
            bootstrap(resume=True)
    assert "only the changed files are bootstrapped again" in str(raised.value.hint)
    assert "3 of the files" in bootstrap(resume=True)[-1]["warnings"]
    check_is_whole(session, name, tmp_path / "t")


def test_a_run_that_may_be_at_work_is_not_taken_over_and_of_two_that_take_over_one_goes_on(
    session, failed_run, bootstrap, tmp_path, name
):
    failed_run()
    lease = tmp_path / "t/.hoodie/.hudisql-bootstrap"
    holder = {"host": "another-host", "processes": "its boot", "process": 7, "process_start": "1"}
    lease.write_text(json.dumps({"table": name, **holder}))
    with pytest.raises(TableExistsError, match="may still be running: process 7 on another-host"):
        bootstrap(resume=True)
    alive = lease.with_name(".hudisql-alive")
    alive.write_text("at work")
    os.utime(lease, (1, 1))
    with pytest.raises(TableExistsError, match="may still be running"):
        bootstrap(resume=True)
    os.utime(alive, (1, 1))
    assert "4 of the files" in bootstrap(resume=True)[-1]["warnings"]
    check_is_whole(session, name, tmp_path / "t")


@pytest.mark.soak
def test_a_run_that_was_taken_over_makes_nothing_visible_and_removes_nothing(
    session, failed_run, bootstrap, tmp_path, name, monkeypatch
):
    failed_run()
    check = run._check_written

    def be_taken_over(storage, plan, skeletons):
        check(storage, plan, skeletons)
        (tmp_path / "t/.hoodie/.hudisql-bootstrap").rename(tmp_path / "t/.hoodie/.hudisql-bootstrap-1")

    with monkeypatch.context() as patched:
        patched.setattr(run, "_check_written", be_taken_over)
        with pytest.raises(TableExistsError, match="another bootstrap took"):
            bootstrap(resume=True)
    assert visible_rows(tmp_path / "t") is None
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 4
    lease = tmp_path / "t/.hoodie/.hudisql-bootstrap-1"
    # Another process had this one's number.
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "process_start": "1"}))
    assert "4 of the files" in bootstrap(resume=True)[-1]["warnings"]
    check_is_whole(session, name, tmp_path / "t")


def test_a_late_task_of_a_run_that_is_over_takes_its_skeletons_back(tmp_path):
    results = [tmp_path / "a.parquet", tmp_path / "b.parquet"]

    class Finished:
        def __init__(self, path):
            path.write_bytes(b"late")
            self.result = type("Result", (), {"path": str(path)})

    gone = Lease(str(tmp_path), 0)
    late = checkpointed(
        Storage(), str(tmp_path), map(Finished, results), partial(gone.fence_late_attempt, Storage())
    )
    with pytest.raises(StorageError, match="has ended"):
        list(late)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def crash(spark, session, call, metastore_uri, daily_orders, tmp_path):
    """`crash(process, fault, step)`: a crashed run, then what holds of it, then its end by resuming.

    `more` are further arguments of the call. Gives False if the run was through before the step came.
    """

    def run_and_resume(process: str, fault: str, step: int, *, resume: bool = True, **more: str) -> bool:
        before = fingerprint(daily_orders)
        rows = 20 * len(list(daily_orders.rglob("*.parquet")))
        label = "_".join([process, fault, str(step), str(resume), *more]).lower()
        name, target = f"store.crashed_{label}", tmp_path / label
        arguments = {
            "table": name,
            "source": daily_orders,
            "record_key": "id",
            "target_path": target,
            "parallelism": 2,
            "resume": resume,
            "verify": False,
            **more,
        }
        given = ", ".join(f"{key} => {sql_literal(value)}" for key, value in arguments.items())
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=f"CALL bootstrap_table({given})",
            target=str(target),
            process=process,
            fault=fault,
            step=step,
        )
        if fault == "kill" and process == "driver":
            assert ended.returncode in (0, -9), ended.stderr
        else:
            assert ended.returncode in (0, 1), ended.stderr
        assert fingerprint(daily_orders) == before
        assert visible_rows(target) in (None, rows)
        if ended.returncode == 1:
            assert re.search(r"File too large|exited unexpectedly|crashed|SyncFailed", ended.stderr)
        resumed = call("bootstrap_table", **{**arguments, "resume": True})
        assert resumed[-1]["rows"] in (rows, None)
        check_is_whole(session, name, target, rows)
        assert fingerprint(daily_orders) == before
        return ended.returncode != 0

    return run_and_resume


@pytest.mark.parametrize(
    ("process", "fault", "step"),
    [
        ("driver", "kill", 6),
        ("driver", "disk_full", 4),
        pytest.param("task", "kill", 2, marks=pytest.mark.soak),
    ],
)
def test_a_crashed_run_shows_no_half_table_and_resuming_ends_it(crash, process, fault, step):
    assert crash(process, fault, step)


REWRITES = (
    {"mode": "full_record"},
    {"full_record_where": "dt = '2024-03-02'"},
)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("more", "process", "fault", "step"),
    [
        (REWRITES[0], "task", "disk_full", 1),
        (REWRITES[1], "driver", "kill", 8),
    ],
)
def test_a_crashed_run_that_rewrites_partitions_shows_no_half_table(crash, more, process, fault, step):
    assert crash(process, fault, step, **more)


@pytest.fixture
def lose_metastore(spark, session, call, metastore_uri, daily_orders, tmp_path):
    """A run that loses its metastore before a step, and its end by resuming once there is one again."""
    before = fingerprint(daily_orders)

    def run_and_resume(step: int) -> bool:
        name, target = f"store.unsynced_{step}", tmp_path / f"metastore_{step}"
        arguments = {"table": name, "source": daily_orders, "record_key": "id", "target_path": target}
        given = ", ".join(f"{key} => {sql_literal(value)}" for key, value in arguments.items())
        with metastore_relay(metastore_uri) as (uri, relay):
            ended = run_with_fault(
                spark,
                uri,
                statement=f"CALL bootstrap_table({given}, parallelism => 2, verify => false)",
                target=str(target),
                step=step,
                target_pid=relay,
            )
        assert fingerprint(daily_orders) == before
        if ended.returncode == 0:
            return False
        assert "SyncFailedError" in ended.stderr, ended.stderr
        assert visible_rows(target) == 80  # the commit needs no metastore
        call("bootstrap_table", **arguments, resume=True)
        check_is_whole(session, name, target)
        assert len(session.sql(f"SHOW PARTITIONS {name}").rows) == 2
        return True

    return run_and_resume


@pytest.mark.soak
@pytest.mark.parametrize("step", [18])
def test_a_metastore_that_dies_leaves_the_whole_table_and_resuming_ends_the_sync(lose_metastore, step):
    assert lose_metastore(step)


@pytest.mark.soak
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("fault", ["kill", "disk_full"])
def test_a_driver_crashed_at_any_step_shows_no_half_table(crash, fault, resume):
    step = 0
    while crash("driver", fault, step, resume=resume):
        step += 1
    assert step >= 10


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["kill", "disk_full"])
def test_a_worker_crashed_at_any_skeleton_shows_no_half_table(crash, daily_orders, fault):
    for number in range(4, 12):
        path = daily_orders / f"dt=2024-03-0{number % 2 + 1}" / f"part-{number}.parquet"
        write_parquet(path, orders(number * 100))
    for step in range(10):
        assert crash("task", fault, step)


@pytest.mark.soak
@pytest.mark.parametrize("more", REWRITES)
@pytest.mark.parametrize("fault", ["kill", "disk_full"])
def test_a_driver_crashed_at_any_step_of_a_rewrite_shows_no_half_table(crash, fault, more):
    step = 0
    while crash("driver", fault, step, **more):
        step += 1
    assert step >= 10


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["kill", "disk_full"])
def test_a_worker_crashed_at_any_file_that_is_rewritten_shows_no_half_table(crash, fault):
    everything, one_partition = REWRITES
    for step in range(2):
        assert crash("task", fault, step, **everything)
    for step in range(3):
        assert crash("task", fault, step, **one_partition)


@pytest.mark.soak
def test_a_metastore_that_dies_at_any_step_leaves_the_whole_table(lose_metastore):
    step = 0
    while lose_metastore(step):
        step += 1
    assert step >= 10


@pytest.mark.soak
def test_a_killed_metastore_that_is_started_again_gets_the_rest(spark, session, daily_orders, tmp_path):
    target, warehouse = tmp_path / "t", tmp_path / "warehouse"
    statement = (
        f"CALL bootstrap_table(table => 'default.crashed', source => '{daily_orders}', record_key => 'id',"
        f" target_path => '{target}', resume => true, verify => false)"
    )
    with acquire_embedded_metastore(warehouse) as metastore:
        target_pid = embedded_metastore_status(warehouse).server_pid
        ended = run_with_fault(
            spark, metastore.uri, statement=statement, target=str(target), step=18, target_pid=target_pid
        )
    assert ended.returncode == 1
    assert visible_rows(target) == 80
    with acquire_embedded_metastore(warehouse) as metastore:
        ended = run_with_fault(spark, metastore.uri, statement=statement, target=str(target), step=-1)
        assert ended.returncode == 0, ended.stderr
        with MetastoreClient(metastore.uri) as client:
            assert len(client.list_partitions("default", "crashed")) == 2
    check_is_whole(session, None, target)
