"""Tables of versions 8 and 9 that hudisql writes to: Apache Hudi 1.2, on its defaults, goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from hudisql.format.table_properties import COPY_ON_WRITE
from hudisql.storage import Storage
from hudisql.table import written_versions
from hudisql.table.hudi_table import HudiTable, open_table
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

SHAPE = SHAPES[0]
NAME = "newer_versions"
# The test harness makes 1.2 write version 6 without a metadata table; these are its own defaults.
DEFAULTS = {"hoodie.write.table.version": "9", "hoodie.metadata.enable": "true"}
WITHOUT_SKIPPING = {"hoodie.enable.data.skipping": "false"}


@pytest.fixture(autouse=True)
def opened_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_versions, "_TESTED", {COPY_ON_WRITE: written_versions.COMMITS})


def _upsert(oracle: HudiOracle, path: str, shape: Shape, start: int, stop: int, note: str) -> None:
    oracle.upsert(noted_rows(shape, start, stop, note), path, shape.write_options() | DEFAULTS)


def _table(path: str, version: int) -> HudiTable:
    table = open_table(Storage(), path)
    assert table.version == version
    return table


def _notes(oracle: HudiOracle, session: Any, name: str, path: str) -> dict[int, str]:
    """The notes of all rows, once 1.2 and hudisql have read the same rows, also with a filter."""
    theirs = oracle.read(path, options=WITHOUT_SKIPPING)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    found = oracle.read(path, options=WITHOUT_SKIPPING, where="note = 'ours'")
    ours = theirs.filter(pc.equal(theirs["note"], "ours"))
    assert_same_rows(found, ours, sort_by=["seq"])
    return dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))


def _change(session: Any, name: str, path: str, expected: dict[int, str]) -> None:
    """UPDATE, DELETE, INSERT and MERGE, in the table and in `expected`."""
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq < 5")
    expected.update(dict.fromkeys(range(5), "ours"))
    session.sql(f"DELETE FROM {name} WHERE seq IN (10, 11)")
    del expected[10], expected[11]
    columns = "* EXCEPT (id, seq, note), concat('new', id) AS id, seq + 1000L AS seq, 'ours' AS note"
    rows = f"SELECT {columns} FROM {name} WHERE seq IN (20, 21)"
    names = ", ".join(open_table(Storage(), path).schema.names)
    session.sql(f"INSERT INTO {name} ({names}) SELECT {names} FROM ({rows})")
    expected.update({1020: "ours", 1021: "ours"})
    session.sql(
        f"MERGE INTO {name} t USING (SELECT id, seq FROM {name} WHERE seq IN (30, 31)) s ON t.id = s.id "
        "WHEN MATCHED AND t.seq = 30 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged'"
    )
    del expected[30]
    expected[31] = "merged"


@pytest.mark.parametrize("origin", ["hudi", "upgraded"])
def test_hudi_12_and_hudisql_change_a_table_of_version_9_in_turn(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, origin: str
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_{origin}"
    if origin == "hudi":
        _upsert(oracle_120, path, SHAPE, 0, 60, "first")
        session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    else:
        bootstrap_shape(session, SHAPE, tmp_path, table=name)
        _upsert(oracle_120, path, SHAPE, 0, 60, "first")
    assert _table(path, 9).properties.metadata_partitions
    expected = _notes(oracle_120, session, name, path)
    _change(session, name, path, expected)
    table = _table(path, 9)
    assert not table.properties.metadata_partitions
    assert all(each.completion_time > each.timestamp for each in table.timeline.commits[-4:])
    assert _notes(oracle_120, session, name, path) == expected

    _upsert(oracle_120, path, SHAPE, 3, 8, "theirs")
    expected.update(dict.fromkeys(range(3, 8), "theirs"))
    assert _notes(oracle_120, session, name, path) == expected
    assert _table(path, 9).properties.metadata_partitions
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq IN (7, 40)")
    expected.update({7: "ours", 40: "ours"})
    assert _notes(oracle_120, session, name, path) == expected
    _upsert(oracle_120, path, SHAPE, 40, 42, "theirs")
    expected.update({40: "theirs", 41: "theirs"})
    assert _notes(oracle_120, session, name, path) == expected
