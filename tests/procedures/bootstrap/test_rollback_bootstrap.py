"""`CALL rollback_bootstrap`: what a bootstrap made goes, and nothing else, however often it is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hudisql.bootstrap.run import plan_execution as run
from hudisql.catalog.sync import sync_table
from hudisql.errors import (
    InvalidArgumentError,
    NoSuchTableError,
    RollbackRefusedError,
    StorageError,
    TableExistsError,
)
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from tests.fault_injection import run_with_fault
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_rollback_takes_away_table_and_entries_and_the_source_can_be_bootstrapped_again(
    call, session, bootstrap, daily_orders, tmp_path, name
):
    before = fingerprint(daily_orders)
    for table_type, version in (("cow", 6), ("mor", 9)):
        bootstrap(table_type=table_type, table_version=version, precombine="seq")
        standing = fingerprint(tmp_path)
        shown = call("rollback_bootstrap", table=name, dry_run=True)
        assert fingerprint(tmp_path) == standing
        assert {row["action"] for row in shown} == {"would remove"}
        rows = call("rollback_bootstrap", table=name)
        names = [name] if table_type == "cow" else [name, f"{name}_ro", f"{name}_rt"]
        assert [(row["kind"], row["name"], row["files"]) for row in rows] == [
            ("files", "dt=2024-03-01", 3),
            ("files", "dt=2024-03-02", 3),
            *(("metastore entry", each, None) for each in names),
            ("a Hudi table", str(tmp_path / "t"), 6),
        ]
        assert not (tmp_path / "t").exists()
        for each in names:
            assert session.context.metastore.get_table(*each.split(".")) is None
    assert fingerprint(daily_orders) == before
    with pytest.raises(NoSuchTableError, match="no bootstrapped table"):
        call("rollback_bootstrap", table=name)


def test_what_the_table_did_not_make_stays(call, bootstrap, daily_orders, tmp_path):
    bootstrap(sync=False)
    before = fingerprint(daily_orders)
    target = tmp_path / "t"
    (target / "notes.txt").write_text("mine")
    (target / "dt=2024-03-02" / "export.parquet").write_text("mine")
    (target / "linked").symlink_to(daily_orders)
    (tmp_path / "nothing").mkdir()
    (target / "empty").symlink_to(tmp_path / "nothing")
    rows = call("rollback_bootstrap", path=target)
    left = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir()}
    assert left == {"notes.txt", "dt=2024-03-02/export.parquet"}
    assert {path.name for path in target.iterdir()} == {"notes.txt", "dt=2024-03-02", "linked", "empty"}
    kept = {row["name"] for row in rows if row["action"] == "kept"}
    assert {str(target / "notes.txt"), str(target / "dt=2024-03-02" / "export.parquet")} <= kept
    assert fingerprint(daily_orders) == before


def test_later_commits_are_lost_only_by_force_and_by_name(call, golden, tmp_path):
    made = golden("cow_bootstrap_then_upsert_delete")
    shutil.copytree(made.table, tmp_path / "t")
    before, source = fingerprint(tmp_path), fingerprint(Path(made.source))
    with pytest.raises(RollbackRefusedError, match=r"would lose 2 commits: commit \d{17}") as raised:
        call("rollback_bootstrap", path=tmp_path / "t")
    assert "force => true" in raised.value.hint
    shown = call("rollback_bootstrap", path=tmp_path / "t", dry_run=True)
    assert fingerprint(tmp_path) == before
    lost = [row["name"] for row in shown if row["action"] == "would lose"]
    assert len(lost) == 2
    assert "rows inserted" in lost[0]
    rows = call("rollback_bootstrap", path=tmp_path / "t", force=True)
    assert [row["name"] for row in rows if row["action"] == "lost"] == lost
    assert not (tmp_path / "t").exists()
    assert fingerprint(Path(made.source)) == source


def test_rows_that_are_nowhere_else_are_lost_only_by_force(call, bootstrap, daily_orders, tmp_path):
    bootstrap(sync=False, full_record_where="dt = '2024-03-02'")
    rewritten = daily_orders / "dt=2024-03-02" / "part-2.parquet"
    kept = rewritten.read_bytes()
    before = fingerprint(tmp_path / "t")

    def refused(reason):
        with pytest.raises(RollbackRefusedError, match=reason):
            call("rollback_bootstrap", path=tmp_path / "t")
        assert fingerprint(tmp_path / "t") == before

    rewritten.write_bytes(kept + b"more")
    refused(r"source files were removed or changed: 1 file: .*part-2\.parquet")
    shutil.rmtree(rewritten.parent)
    refused(r"source files were removed or changed: 2 files: .*part-2\.parquet, .*part-3\.parquet")
    shutil.rmtree(daily_orders)
    refused("source files were removed or changed: 4 files")
    call("rollback_bootstrap", path=tmp_path / "t", force=True)
    assert not (tmp_path / "t").exists()


def test_rewritten_rows_whose_source_files_no_list_names_are_lost_only_by_force(call, golden, tmp_path):
    shutil.copytree(golden("cow_bootstrap_mixed").table, tmp_path / "t")
    with pytest.raises(RollbackRefusedError, match="names no source files for its rewritten partitions"):
        call("rollback_bootstrap", path=tmp_path / "t")
    assert (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_tables_of_others_and_empty_places_are_refused(call, session, third_party, tmp_path, name):
    with pytest.raises(InvalidArgumentError, match="was not bootstrapped"):
        call("rollback_bootstrap", path=third_party("v6_nonpartitioned"))
    with pytest.raises(NoSuchTableError, match="no bootstrapped table"):
        call("rollback_bootstrap", path=tmp_path)
    with pytest.raises(InvalidArgumentError, match="give table or path"):
        call("rollback_bootstrap")
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.spark.sql(f"CREATE TABLE {name} (id string) STORED AS PARQUET")
    with pytest.raises(NoSuchTableError, match="is not a Hudi table"):
        call("rollback_bootstrap", table=name)
    session.spark.sql(f"DROP TABLE {name}")


def test_source_files_inside_the_table_stop_every_rollback(call, bootstrap, daily_orders, tmp_path):
    bootstrap(sync=False)
    inside = tmp_path / "t" / "source"
    daily_orders.rename(inside)
    daily_orders.symlink_to(inside)
    before = fingerprint(tmp_path / "t")
    with pytest.raises(RollbackRefusedError, match="source files lie inside"):
        call("rollback_bootstrap", path=tmp_path / "t", force=True)
    assert fingerprint(tmp_path / "t") == before


def _dead_process() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.fixture
def killed_run(bootstrap, tmp_path, monkeypatch):
    """A target as a killed run leaves it, with its lease."""

    def leave() -> Path:
        def fail(*_arguments):
            raise StorageError("killed here")

        with monkeypatch.context() as patched:
            patched.setattr(run, "_delete_files_of_run", lambda *_: None)
            patched.setattr(run, "write_table_files", fail)
            with pytest.raises(StorageError, match="killed here"):
                bootstrap()
        assert len(list((tmp_path / "t").rglob("*.parquet"))) == 4
        return tmp_path / "t" / ".hoodie" / ".hudisql-bootstrap"

    return leave


def test_what_a_killed_bootstrap_left_is_cleared_away_once_its_process_is_gone(
    call, killed_run, bootstrap, daily_orders, tmp_path, name
):
    before = fingerprint(daily_orders)
    lease = killed_run()
    told = json.loads(lease.read_text())
    assert told["process"] == os.getpid()
    for process, host in ((os.getpid(), told["host"]), (_dead_process(), "another-host")):
        lease.write_text(json.dumps({**told, "process": process, "host": host}))
        with pytest.raises(RollbackRefusedError, match=f"may still be running: process {process} on {host}"):
            call("rollback_bootstrap", table=name, path=tmp_path / "t")
    lease.write_text(json.dumps({**told, "process": _dead_process()}))
    rows = call("rollback_bootstrap", path=tmp_path / "t")
    assert (rows[-1]["kind"], rows[-1]["files"]) == ("a bootstrap that did not finish", 4)
    assert not (tmp_path / "t").exists()
    # Process numbers are reused: a process that started at another time did not create the lease.
    lease = killed_run()
    lease.write_text(json.dumps({**told, "process_start": "1"}))
    call("rollback_bootstrap", path=tmp_path / "t")
    assert not (tmp_path / "t").exists()
    assert bootstrap()[-1]["rows"] == 80
    assert fingerprint(daily_orders) == before


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_a_rollback_killed_at_any_step_leaves_no_half_table_and_ends_its_work_when_called_again(
    call, session, bootstrap, daily_orders, tmp_path, metastore_uri, stride
):
    bootstrap(sync=False)
    before = fingerprint(daily_orders)
    metastore = session.context.metastore
    visible, steps = {}, 0
    while True:
        target = tmp_path / f"copy_{steps}"
        shutil.copytree(tmp_path / "t", target)
        properties = target / ".hoodie" / "hoodie.properties"
        shutil.copy(properties, f"{properties}.backup")
        name = f"killed_{steps}"
        sync_table(metastore, open_table(Storage(), str(target)), "store", name)
        killed = run_with_fault(
            session.spark,
            metastore_uri,
            statement=f"CALL rollback_bootstrap(table => 'store.{name}')",
            target=str(target),
            step=steps,
        )
        if killed.returncode == 0:
            break
        assert killed.returncode == -9, killed.stderr
        try:
            slices = load_file_slices(open_table(Storage(), str(target)))
            visible[steps] = True
            assert len(slices) == 4
        except NoSuchTableError:
            visible[steps] = False
        is_registered = metastore.get_table("store", name) is not None
        where = {} if is_registered else {"path": target}
        call("rollback_bootstrap", table=f"store.{name}", **where)
        assert not target.exists()
        assert metastore.get_table("store", name) is None
        assert fingerprint(daily_orders) == before
        steps += stride
    # Mark, backup, properties | two partitions, four files, three directories of .hoodie, entry, directory.
    assert visible == {step: step < 3 for step in visible}
    assert steps >= 12
    assert not target.exists()
    assert metastore.get_table("store", name) is None


def test_a_second_bootstrap_says_that_the_table_stands_and_does_nothing(
    call, bootstrap, daily_orders, tmp_path, name
):
    bootstrap()
    before = fingerprint(tmp_path)
    for more in ({}, {"dry_run": True}, {"target_path": None}):
        if more.get("target_path", "") is None:
            rows = call("bootstrap_table", table=name, source=daily_orders, record_key="ID")
        else:
            rows = bootstrap(**more)
        assert [row["partition"] for row in rows] == ["(table)"]
        assert "is bootstrapped from this source already" in rows[0]["warnings"]
        assert rows[0]["blockers"] is None
    assert fingerprint(tmp_path) == before
    write_parquet(tmp_path / "other" / "dt=1" / "a.parquet", orders())
    for more, words in (
        ({"record_key": "id,seq"}, "its record key is id"),
        ({"source": tmp_path / "other"}, f"its source is {daily_orders}"),
        ({"table_type": "mor", "precombine": "seq"}, "it is COPY_ON_WRITE"),
        ({"table": f"{name}_b"}, f"it is {name}"),
    ):
        arguments = {"table": name, "source": daily_orders, "record_key": "id", "target_path": tmp_path / "t"}
        with pytest.raises(TableExistsError, match=words):
            call("bootstrap_table", **{**arguments, **more})


def test_a_table_that_the_metastore_lost_is_told_with_the_call_that_syncs_it(session, bootstrap, name):
    bootstrap()
    session.sql(f"DROP TABLE {name}")
    warning = bootstrap()[0]["warnings"]
    session.sql(warning[warning.index("CALL hive_sync") :])
    assert session.context.metastore.get_table(*name.split(".")) is not None
