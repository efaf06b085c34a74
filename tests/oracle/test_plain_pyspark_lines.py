"""The same lines of PySpark by name: on Spark 3.5 with Hudi 0.15's bundle, and by `hudisql.install`."""

from __future__ import annotations

from typing import Any

import pytest

import hudisql
from hudisql.console import SilentConsole
from tests.oracle.client import HudiOracle
from tests.pyspark_names.programs import LINES

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.soak]


def test_lines_by_name_give_the_rows_of_hudi_s_bundle(oracle_015: HudiOracle, spark: Any) -> None:
    theirs = oracle_015.request("program", text=LINES)["answers"]
    ours: dict[str, Any] = {}
    with hudisql.install(spark, console=SilentConsole()):
        exec(LINES, {"spark": spark, "answers": ours})
    assert len(ours) == 22
    assert ours == theirs
