"""Every engine as a function."""

from __future__ import annotations

import pytest

from tests.hive.engines import Ask, ask_beeline, ask_hudisql, ask_oracle


@pytest.fixture(params=["beeline", "spark 3.5 with Hudi 0.15", "hudisql"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """An engine as a function: a statement in, rows out."""
    if request.param == "beeline":
        return ask_beeline(request.getfixturevalue("hive_server"))
    if request.param == "hudisql":
        return ask_hudisql(request.getfixturevalue("session"))
    return ask_oracle(request.getfixturevalue("oracle_015"))
