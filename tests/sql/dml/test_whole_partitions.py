"""DELETE of whole partitions replaces their file groups and writes no file; all others go row by row."""

from __future__ import annotations

import pytest

from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.storage import Storage
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import DAYS, ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def last_commit(table: ChangedTable) -> tuple[str, str | None, dict[str, int]]:
    """Action and operation of the latest commit, and the number of replaced file groups by partition."""
    opened = open_at(table.path)
    commit = opened.timeline.commits[-1]
    metadata = read_commit_metadata(Storage(), opened.instant_path(commit))
    replaced = metadata.partition_to_replace_file_ids or {}
    return commit.action, metadata.operation_type, {path: len(ids) for path, ids in replaced.items()}


def partitions(table: ChangedTable) -> list[str]:
    """What SHOW PARTITIONS gives; the metastore has the same."""
    shown = [row[0] for row in table.session.sql(f"SHOW PARTITIONS {table.name}").rows]
    assert table.session.context.metastore.list_partition_names(*table.name.split(".")) == shown
    return shown


@pytest.mark.parametrize("kind", parameters(["table", "merge_on_read_table"], in_ci=["merge_on_read_table"]))
def test_a_condition_over_partition_columns_drops_the_partitions(
    request: pytest.FixtureRequest, kind: str
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    # Log files and new rows count as well.
    table.run("UPDATE {t} SET price = 0 WHERE seq = 12")
    table.run("INSERT INTO {t} (id, dt) VALUES ('new', '2024-03-02')")
    assert table.run("DELETE FROM {t} AS x WHERE x.`DT` = '2024-03-02'") == {"deleted": 11}
    action, operation, replaced = last_commit(table)
    assert (action, operation, list(replaced)) == ("replacecommit", "DELETE_PARTITION", ["dt=2024-03-02"])
    assert table.seqs() == [*range(10), *range(20, 30)]
    assert partitions(table) == [f"dt={DAYS[0]}", f"dt={DAYS[2]}"]
    assert table.run("DELETE FROM {t} WHERE dt = '2024-03-02'") == {}
    assert last_commit(table)[2] == replaced
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('k12', 112, '2024-03-02')")
    assert table.seqs(f"dt = '{DAYS[1]}'") == [112]
    assert len(partitions(table)) == 3
    assert table.run("DELETE FROM {t}") == {"deleted": 21}
    assert (table.rows(), partitions(table)) == ([], [])
    assert last_commit(table)[1] == "DELETE_PARTITION"


@pytest.mark.parametrize(
    ("condition", "deleted"),
    [
        ("dt IN ('2024-03-01', '2024-03-03')", 20),
        ("upper(dt) LIKE '%-02' OR dt > date_format(DATE'2024-03-02', 'yyyy-MM-dd')", 20),
        ("day(to_date(dt)) BETWEEN 1 AND 2", 20),
        ("dt IS NOT NULL AND NOT (dt <=> '2024-03-01')", 20),
    ],
)
def test_any_condition_that_partition_values_decide_drops_partitions(
    table: ChangedTable, condition: str, deleted: int
) -> None:
    [explained] = table.session.sql(f"EXPLAIN DELETE FROM {table.name} WHERE {condition}").rows
    assert "DELETE_PARTITION (replacecommit)" in explained[0]
    assert table.run(f"DELETE FROM {{t}} WHERE {condition}") == {"deleted": deleted}
    assert last_commit(table)[1] == "DELETE_PARTITION"
    assert len(table.rows()) == 30 - deleted


@pytest.mark.parametrize(
    ("condition", "deleted"),
    [
        ("dt = '2024-03-02' AND seq >= 10", 10),
        ("dt = '2024-03-02' AND st.a >= 10", 10),
        ("dt = (SELECT max(dt) FROM {t})", 10),
        ("dt = '2024-03-02' AND rand() >= 0", 10),
        ("_hoodie_partition_path = 'dt=2024-03-02'", 10),
    ],
)
def test_a_condition_that_needs_more_than_partition_columns_goes_row_by_row(
    table: ChangedTable, condition: str, deleted: int
) -> None:
    assert table.run(f"DELETE FROM {{t}} WHERE {condition}") == {"deleted": deleted, "files_written": 1}
    assert last_commit(table)[1] == "DELETE"
    assert len(partitions(table)) == 3


def test_file_groups_with_a_planned_compaction_go_row_by_row(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    table.run("UPDATE {t} SET price = 0 WHERE dt = '2024-03-01'")
    table.session.sql(
        f"CALL run_compaction(op => 'schedule', table => '{table.name}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1')"
    )
    assert table.run("DELETE FROM {t} WHERE dt = '2024-03-01'")["deleted"] == 10
    assert last_commit(table)[1] == "DELETE"
    table.session.sql(f"CALL run_compaction(op => 'run', table => '{table.name}')")
    assert table.seqs() == list(range(10, 30))
    assert table.run("DELETE FROM {t} WHERE dt = '2024-03-02'") == {"deleted": 10}
    assert last_commit(table)[1] == "DELETE_PARTITION"
    assert table.seqs() == list(range(20, 30))
