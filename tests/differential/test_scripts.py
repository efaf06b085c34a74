"""Every script of `scripts/`: hudisql leaves its oracle's rows, but where the script says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.difference import find_differences
from tests.differential.engines import Hudisql, Outcome, run_script
from tests.differential.script import DifferentialScript, read_scripts

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.mark.parametrize("script", read_scripts(), ids=lambda script: script.name)
def test_hudisql_does_as_the_oracle(
    script: DifferentialScript,
    hudisql_engine: Hudisql,
    hudisql_directory: Path,
    oracle_outcome: Callable[[DifferentialScript], Outcome | None],
) -> None:
    ours = run_script(hudisql_engine, script, hudisql_directory)
    theirs = oracle_outcome(script)
    assert not (differences := find_differences(script, ours, theirs)), "\n".join(differences)
