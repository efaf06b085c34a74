"""Tables that hudisql upgrades and downgrades: Apache Hudi 1.2 and 0.15 go on with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.table_properties import TableProperties, read_table_properties
from hudisql.storage import Storage
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape, noted_rows
from tests.rows import rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

WITHOUT_SKIPPING = {"hoodie.enable.data.skipping": "false"}
DEFAULTS = {"hoodie.write.table.version": "9", "hoodie.metadata.enable": "true"}
MERGE_ON_READ = next(each for each in SHAPES if each.table_type == "MERGE_ON_READ")
# Of the metadata table that 1.2 makes, and the old name of a strategy that nobody reads in version 9.
FREE = {
    *(
        "hoodie.table.checksum",
        "hoodie.table.metadata.partitions",
        "hoodie.table.metadata.partitions.inflight",
    ),
    *("hoodie.table.index.defs.path", "hoodie.compaction.record.merger.strategy"),
}


def _upsert(oracle: HudiOracle, path: str, shape: Shape, start: int, stop: int, **options: str) -> None:
    oracle.upsert(noted_rows(shape, start, stop, "theirs"), path, {**shape.write_options(), **options})


def _compare(oracle: HudiOracle, session: Any, name: str, path: str) -> dict[int, str]:
    theirs = oracle.read(path, options=WITHOUT_SKIPPING)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    return dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))


def _properties(path: str) -> TableProperties:
    return read_table_properties(Storage(), path)


def _table(session: Any, shape: Shape, directory: Path, name: str) -> str:
    """A bootstrapped table of version 6 whose rows were changed, with log files where it can have them."""
    path = bootstrap_shape(session, shape, directory, table=name).path
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq < 5")
    session.sql(f"DELETE FROM {name} WHERE seq = 10")
    return path


@pytest.mark.parametrize(
    "shape", parameters([SHAPES[0], MERGE_ON_READ], in_ci=[]), ids=lambda shape: shape.name
)
def test_hudi_12_goes_on_with_a_table_that_hudisql_has_upgraded(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    name = f"oracle.upgraded_{shape.name}"
    path = _table(session, shape, tmp_path, name)
    before = _compare(oracle_120, session, name, path)
    theirs = str(tmp_path / "theirs")
    shutil.copytree(path, theirs)
    planned = rows(session, f"CALL upgrade_table(table => '{name}', to_version => 'NINE', dry_run => true)")
    assert not any(result for result, _ in planned)
    assert open_at(path).version == 6
    done = rows(session, f"CALL upgrade_table(table => '{name}', to_version => 'NINE')")
    assert [step for _, step in done] == [step for _, step in planned]
    assert open_at(path).version == 9
    assert _compare(oracle_120, session, name, path) == before
    named = {"hoodie.table.name": name.partition(".")[2]}
    _upsert(oracle_120, theirs, shape, 0, 1, **DEFAULTS, **named)
    ours, upgraded = (
        {key: text for key, text in _properties(each).values.items() if key not in FREE}
        for each in (path, theirs)
    )
    assert ours == upgraded
    _upsert(oracle_120, path, shape, 3, 8, **DEFAULTS, **named)
    session.sql(f"UPDATE {name} SET note = 'again' WHERE seq IN (3, 20)")
    after = _compare(oracle_120, session, name, path)
    assert after == before | dict.fromkeys(range(3, 8), "theirs") | {3: "again", 20: "again"}


@pytest.mark.soak
@pytest.mark.parametrize(
    "shape", parameters([SHAPES[0], MERGE_ON_READ], in_ci=["merge_on_read"]), ids=lambda shape: shape.name
)
def test_hudi_015_goes_on_with_a_table_that_hudisql_has_downgraded(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    name = f"oracle.downgraded_{shape.name}"
    path = _table(session, shape, tmp_path, name)
    named = {"hoodie.table.name": name.partition(".")[2]}
    _upsert(oracle_120, path, shape, 3, 8, **DEFAULTS, **named)
    session.sql(f"UPDATE {name} SET note = 'again' WHERE seq IN (3, 20)")
    before = _compare(oracle_120, session, name, path)
    session.sql(f"CALL downgrade_table(table => '{name}', to_version => 'SIX')")
    assert open_at(path).version == 6
    assert _compare(oracle_120, session, name, path) == before
    assert _compare(oracle_015, session, name, path) == before
    _upsert(oracle_015, path, shape, 30, 33, **named)
    after = before | dict.fromkeys(range(30, 33), "theirs")
    assert _compare(oracle_015, session, name, path) == after
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq = 30")
    assert _compare(oracle_015, session, name, path) == after | {30: "ours"}
    session.sql(f"CALL upgrade_table(table => '{name}', to_version => 'NINE')")
    assert _compare(oracle_120, session, name, path) == after | {30: "ours"}
