"""A statement that changes rows looks up its settings, and lists each directory of the table, once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hudisql.options import (
    table_settings,
    writer_settings,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions import table_directories
from tests.opened import open_at
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

MERGE = """
MERGE INTO {t} AS t USING (SELECT id, dt, seq + 100 AS seq FROM {t} WHERE seq < 12) AS s
ON t.id = s.id AND t.dt = s.dt
WHEN MATCHED THEN UPDATE SET seq = s.seq
WHEN NOT MATCHED THEN INSERT (id, dt, seq) VALUES (s.id, s.dt, s.seq)
"""
STATEMENTS = {
    "merge": MERGE,
    "update": "UPDATE {t} SET seq = seq + 1 WHERE dt = '2024-03-02'",
    "delete": "DELETE FROM {t} WHERE id = 'k01'",
    "insert": "INSERT INTO {t} (id, dt, seq) VALUES ('new', '2024-03-01', 7)",
    "overwrite": "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') (id) SELECT id FROM {t}",
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the look-ups of settings, and the listings of each of the table's directories.

    Listings are counted for each state of the table: the sync lists the table as the commit leaves it.
    """
    counted: Counter[str] = Counter()

    def count(module: Any, name: str, label: Callable[..., list[str]]) -> None:
        function = getattr(module, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted.update(label(*arguments))
            return function(*arguments, **named)

        for each in list(sys.modules.values()):
            if getattr(each, "__name__", "").startswith("hudisql.") and hasattr(each, name):
                monkeypatch.setattr(each, name, counting)

    count(table_settings, "settings_of", lambda *_: ["settings"])
    count(writer_settings, "write_options_by", lambda *_: ["write options"])
    directory_of = table_directories._directory_of

    def counting_directories(table: HudiTable, path: str, entries: Any) -> Any:
        counted[f"'{path}' {_state(table)}"] += 1
        return directory_of(table, path, entries)

    monkeypatch.setattr(table_directories, "_directory_of", counting_directories)
    return counted


def _state(table: HudiTable) -> str:
    return f"after {len(table.timeline.completed)} instants"


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("kind", ["table", "merge_on_read_table"])
def test_a_statement_looks_up_and_lists_once(
    request: pytest.FixtureRequest, calls: Counter[str], kind: str, statement: str
) -> None:
    table: ChangedTable = request.getfixturevalue(kind)
    state = _state(open_at(table.path))
    calls.clear()
    table.run(STATEMENTS[statement])
    assert calls["settings"] == calls["write options"] == calls[f"'' {state}"] == 1
    assert {label: times for label, times in calls.items() if times > 1} == {}
