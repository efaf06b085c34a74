"""After which statement a compaction is planned: hudisql and Apache Hudi count the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.timeline.instant import COMMIT, COMPACTION
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

STEPS = (
    "INSERT INTO {t} VALUES (1, 1), (2, 2)",
    "INSERT INTO {t} VALUES (3, 3)",
    "UPDATE {t} SET v = 10 WHERE id = 1",
    "UPDATE {t} SET v = 20 WHERE id = 1",
    "UPDATE {t} SET v = 30 WHERE id = 2",
    "UPDATE {t} SET v = 40 WHERE id = 3",
)
INLINE = "hoodie.compact.inline"
TRIGGER = "hoodie.compact.inline.trigger.strategy"
COMMITS = "hoodie.compact.inline.max.delta.commits"
SECONDS = "hoodie.compact.inline.max.delta.seconds"
STRATEGY = "hoodie.compaction.strategy"
BY_NUMBER = "org.apache.hudi.table.action.compact.strategy.LogFileNumBasedCompactionStrategy"


@dataclass(frozen=True)
class Case:
    """Settings, and the numbers of the steps after which there is one compaction more."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    expected: tuple[int, ...] = ()
    runs: bool = True


CASES = (
    Case("by_commits", {COMMITS: "4"}, (4,)),
    Case("by_commits_again", {COMMITS: "3"}, (3, 6)),
    Case(
        "after_the_last_request", {COMMITS: "3", TRIGGER: "NUM_COMMITS_AFTER_LAST_REQUEST"}, (3,), runs=False
    ),
    Case("by_time", {SECONDS: "0", TRIGGER: "TIME_ELAPSED"}, (3, 4, 5, 6)),
    Case("by_either", {COMMITS: "5", SECONDS: "86400", TRIGGER: "NUM_OR_TIME"}, (5,)),
    Case("by_both", {COMMITS: "2", SECONDS: "86400", TRIGGER: "NUM_AND_TIME"}, ()),
    Case(
        "by_log_files",
        {COMMITS: "1", STRATEGY: BY_NUMBER, "hoodie.compaction.logfile.num.threshold": "3"},
        (5,),
    ),
    Case("inline", {COMMITS: "2", INLINE: "true"}, (3, 5)),
)


def _compactions(path: Path) -> int:
    timeline = open_at(path).timeline
    return sum(each.action in (COMMIT, COMPACTION) for each in timeline.instants)


def _planned_after(run: Callable[[str], Any], name: str, path: Path, argument: str, case: Case) -> list[int]:
    is_inline = case.settings.get(INLINE) == "true"
    settings = {INLINE: "false", "hoodie.metadata.enable": "false", **case.settings}
    run(
        f"CREATE TABLE {name} (id INT, v INT) USING hudi LOCATION '{path}' "
        "TBLPROPERTIES (type = 'mor', primaryKey = 'id')"
    )
    for key, value in settings.items():
        run(f"SET {key} = {value}")
    options = ",".join(f"{key}={value}" for key, value in settings.items())
    found, known = [], 0
    for number, step in enumerate(STEPS, start=1):
        run(step.replace("{t}", name))
        if not is_inline:
            run(f"CALL run_compaction(op => 'schedule', {argument}, options => '{options}')")
        count = _compactions(path)
        if count > known:
            found.append(number)
            known = count
            if case.runs and not is_inline:
                run(f"CALL run_compaction(op => 'run', {argument}, options => '{options}')")
    for key in settings:
        run(f"RESET {key}")
    run(f"DROP TABLE {name}")
    return found


def _check(oracle: HudiOracle, session: Any, tmp_path: Path, case: Case) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name = f"oracle.triggers_{case.name}"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert _planned_after(session.sql, name, ours, f"table => '{name}'", case) == list(case.expected)
    found = _planned_after(oracle.sql, f"triggers_{case.name}", theirs, f"path => '{theirs}'", case)
    assert found == list(case.expected)
    rows = [oracle.read(str(path)).select(["id", "v"]).sort_by("id").to_pylist() for path in (ours, theirs)]
    assert rows == [[{"id": 1, "v": 20}, {"id": 2, "v": 30}, {"id": 3, "v": 40}]] * 2


@pytest.mark.parametrize("case", parameters(CASES, in_ci=[]), ids=lambda case: case.name)
def test_hudi_015_plans_after_the_same_statements(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, case: Case
) -> None:
    _check(oracle_015, session, tmp_path, case)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hudi_120_plans_after_the_same_statements(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, case: Case
) -> None:
    _check(oracle_120, session, tmp_path, case)
