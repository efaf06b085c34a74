"""CALL run_clustering and show_clustering: plans, rows and their order afterwards, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.errors import (
    InvalidArgumentError,
    NoSuchInstantError,
    SettingsError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.services.clustering import clustering_action as clustering
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.soak import parameters
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def changed(merge_on_read_table: ChangedTable) -> ChangedTable:
    """Bootstrapped slices with and without log files, and a new file group in one partition."""
    merge_on_read_table.run("DELETE FROM {t} WHERE seq = 7")
    merge_on_read_table.run(
        "INSERT INTO {t} SELECT concat('n', id), seq + 100, price, st, tags, at, dt FROM {t} WHERE seq = 25"
    )
    return merge_on_read_table


def _call(table: ChangedTable, more: str = "") -> list[tuple[Any, ...]]:
    text = f"CALL run_clustering(table => '{table.name}'{more})"
    return [tuple(row) for row in table.session.sql(text).rows]


def _shown(table: ChangedTable, more: str = "") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.session.sql(f"CALL show_clustering('{table.name}'{more})").rows]


def _kept(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    # `_hoodie_file_name` is the one meta column that a rewrite changes.
    return [row[:4] + row[5:] for row in rows]


def test_rows_keep_their_meta_columns_and_slices_become_base_files(changed: ChangedTable) -> None:
    before = changed.rows("*")
    groups = {each.file_id for each in load_file_slices(open_table(Storage(), changed.path))}
    ((instant_time, size, state, partitions),) = _call(changed, ", show_involved_partition => true")
    assert (size, state, partitions) == (3, "COMPLETED", "dt=2024-03-01,dt=2024-03-02,dt=2024-03-03")
    assert _shown(changed) == [(instant_time, 3, "COMPLETED", "*")]
    assert _kept(changed.rows("*")) == _kept(before)
    opened = open_table(Storage(), changed.path)
    slices = load_file_slices(opened)
    assert len(slices) == 3
    assert not groups & {each.file_id for each in slices}
    assert not any(each.is_bootstrapped or each.log_files for each in slices)
    metadata = read_commit_metadata(Storage(), opened.instant_path(opened.timeline.commits[-1]))
    assert metadata.operation_type == "CLUSTER"
    replaced = metadata.partition_to_replace_file_ids or {}
    assert {file_id for file_ids in replaced.values() for file_id in file_ids} == groups
    assert sum(stat.num_inserts for stat in metadata.write_stats) == len(before)
    assert changed.orphans() == []
    # The next change goes to the new groups.
    assert changed.run("UPDATE {t} SET price = 0 WHERE seq = 1")["updated"] == 1


def test_a_planned_clustering_rejects_updates_and_is_run_in_the_planned_order(changed: ChangedTable) -> None:
    before = changed.rows("*")
    more = ", op => 'schedule', order => 'price', predicate => \"dt > '2024-03-01'\""
    ((instant_time, size, state, _),) = _call(changed, more)
    assert (size, state) == (2, "REQUESTED")
    with pytest.raises(UnsupportedTableError, match=rf"clustering \({instant_time}\).*is pending"):
        changed.run("UPDATE {t} SET price = 0 WHERE seq = 12")
    assert changed.run("UPDATE {t} SET price = price WHERE seq = 1")["updated"] == 1
    # Nothing is left to schedule in these partitions: what is pending is run.
    assert _call(changed, f", instants => '{instant_time}'") == [(instant_time, 2, "COMPLETED", "*")]
    assert [row[5:] for row in changed.rows("*")] == [row[5:] for row in before]
    for each in load_file_slices(open_table(Storage(), changed.path)):
        if each.base_instant_time == instant_time:
            assert each.base_file is not None
            prices = pq.read_table(each.base_file.path).column("price").to_pylist()
            assert prices == sorted(prices)


@pytest.mark.parametrize("layout", parameters(["linear", "z-order", "hilbert"], in_ci=["z-order"]))
def test_sorted_groups_are_cut_into_files_of_the_target_size(changed: ChangedTable, layout: str) -> None:
    before = changed.rows("*")
    options = "hoodie.clustering.plan.strategy.target.file.max.bytes=4000"
    more = f", order => 'seq, id', order_strategy => '{layout}', options => '{options}'"
    ((instant_time, _, state, _),) = _call(changed, more + ", selected_partitions => 'dt=2024-03-02'")
    assert state == "COMPLETED"
    assert _kept(changed.rows("*")) == _kept(before)
    files = [
        pq.read_table(path).column("seq").to_pylist()
        for path in sorted(Path(changed.path).rglob(f"*_{instant_time}.parquet"))
    ]
    assert len(files) > 1
    assert sorted(seq for each in files for seq in each) == list(range(10, 20))
    if layout == "linear":
        assert all(each == sorted(each) for each in files)
        ranges = sorted((min(each), max(each)) for each in files)
        assert all(low[1] < high[0] for low, high in pairwise(ranges))
        # Rolled back, the replaced file groups are there again.
        changed.session.sql(f"CALL rollback_to_instant('{changed.name}', '{instant_time}')")
        assert changed.rows("*") == before
        assert _shown(changed) == []


def test_a_run_that_fails_leaves_the_plan_and_is_run_again(
    changed: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = changed.rows("*")
    ((instant_time, *_),) = _call(changed, ", op => 'schedule'")

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(clustering, "publish_commit", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            _call(changed, ", op => 'execute'")
    assert _shown(changed) == [(instant_time, 3, "REQUESTED", "*")]
    assert changed.orphans() == []
    # A killed run: its inflight instant and a file with a marker.
    base_path = open_table(Storage(), changed.path).base_path
    Path(changed.path, ".hoodie", f"{instant_time}.replacecommit.inflight").touch()
    left = Path(changed.path, "dt=2024-03-01", f"f-0_0-0-0_{instant_time}.parquet")
    create_marker(Storage(), base_path, instant_time, Marker("dt=2024-03-01", left.name, MarkerKind.CREATE))
    left.touch()
    assert changed.rows("*") == before
    beat = Path(changed.path, ".hoodie", ".heartbeat", instant_time)
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    with pytest.raises(WriteConflictError, match=f"another process runs the clustering {instant_time}"):
        _call(changed, ", op => 'execute'")
    beat.unlink()
    assert _call(changed, ", op => 'execute'") == [(instant_time, 3, "COMPLETED", "*")]
    assert not left.exists()
    assert _kept(changed.rows("*")) == _kept(before)


def test_partitions_are_chosen_as_in_hudi(changed: ChangedTable) -> None:
    days = "hoodie.clustering.plan.partition.filter.mode=RECENT_DAYS"
    lookback = "hoodie.clustering.plan.strategy.daybased.lookback.partitions=1"
    for more, expected in (
        (", partition_regex_pattern => 'dt=2024-03-0[13]'", "dt=2024-03-01,dt=2024-03-03"),
        (f", options => '{days},{lookback}'", None),
        (", selected_partitions => 'dt=2024-03-02'", "dt=2024-03-02"),
    ):
        found = _call(changed, ", op => 'schedule', show_involved_partition => true" + more)
        assert [row[3] for row in found] == ([] if expected is None else [expected])
    with pytest.raises(NoSuchInstantError, match="no clustering 2020 is pending"):
        _call(changed, ", instants => '2020'")
    assert [row[2] for row in _call(changed, ", op => 'execute', limit => 1")] == ["COMPLETED"]
    assert [row[2] for row in _shown(changed)] == ["REQUESTED", "COMPLETED"]


def test_a_clustering_that_is_due_runs_after_a_commit(changed: ChangedTable) -> None:
    session = changed.session
    with setting(session, "hoodie.clustering.schedule.inline", "true"):
        assert changed.run("UPDATE {t} SET price = 0 WHERE seq = 1")["updated"] == 1
    # Four commits: the bootstrap, two of the fixture, and this one.
    assert [row[2] for row in _shown(changed)] == ["REQUESTED"]
    with (
        setting(session, "hoodie.clustering.inline", "true"),
        setting(session, "hoodie.clustering.inline.max.commits", "3"),
    ):
        # What is pending is run; since it was planned there is one commit.
        select = "SELECT concat('m', id), seq + 200, price, st, tags, at, dt FROM {t} WHERE seq = 25"
        changed.run(f"INSERT INTO {{t}} {select}")
        assert [row[2] for row in _shown(changed)] == ["COMPLETED"]
    assert sorted(changed.seqs()) == [*(seq for seq in range(30) if seq != 7), 125, 225]


def test_what_cannot_be_clustered_is_one_error(changed: ChangedTable) -> None:
    strategy = "hoodie.clustering.plan.strategy.class"
    for more, error, match in (
        (", op => 'now'", InvalidArgumentError, "op must be schedule, execute or scheduleAndExecute"),
        (", op => 'schedule', instants => '1'", InvalidArgumentError, "instants are executed"),
        (", order => 'nothing'", InvalidArgumentError, "has no column 'nothing' to sort by"),
        (", order_strategy => 'random'", SettingsError, "must be one of linear, z-order, hilbert"),
        (f", options => '{strategy}=MyStrategy'", SettingsError, "MyStrategy is not supported"),
        (", predicate => 'seq > 1'", InvalidArgumentError, "predicate"),
        (", partition_regex_pattern => '('", InvalidArgumentError, "is not a regular expression"),
        (
            ", order => 'st, tags', order_strategy => 'hilbert'",
            InvalidArgumentError,
            "sorted in a hilbert curve",
        ),
    ):
        with pytest.raises(error, match=match):
            _call(changed, more)
    assert _shown(changed) == []
    buckets = "hoodie.index.type=BUCKET,hoodie.bucket.index.num.buckets=2"
    with pytest.raises(UnsupportedTableError, match="has a bucket index"):
        _call(changed, f", options => '{buckets}'")
