"""What is said of a service that fails after a commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.errors import StorageError
from hudisql.services.schedule.automatic import AutomaticServices
from tests.opened import open_at
from tests.table.conftest import TableDirectory


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError(), "AssertionError (CALL run_clean runs it again)"),
        (ValueError("\nsecond line"), "ValueError (CALL run_clean runs it again)"),
        (ValueError("first\nsecond"), "first (CALL run_clean runs it again)"),
        (StorageError("the disk is full", hint="make room"), "the disk is full (make room)"),
    ],
)
def test_a_failure_of_any_kind_is_a_warning(
    make_table: Callable[..., TableDirectory], error: Exception, said: str
) -> None:
    def failing(_name: str, _default: str) -> str:
        raise error

    def options() -> Any:
        raise AssertionError("nothing was due")

    warnings: list[str] = []
    table = open_at(make_table().path)
    spark: Any = None
    AutomaticServices(table, HudiConfig(failing), options, warnings.append, "db.t").run(spark)
    assert warnings[0] == f"db.t: committed, but the automatic clean failed: {said}"


def test_no_service_runs_if_table_services_are_off(make_table: Callable[..., TableDirectory]) -> None:
    asked: list[str] = []

    def lookup(name: str, default: str) -> str:
        asked.append(name)
        return "false" if name == "hoodie.table.services.enabled" else default

    def options() -> Any:
        raise AssertionError("nothing was due")

    spark: Any = None
    table = open_at(make_table().path)
    assert not AutomaticServices(table, HudiConfig(lookup), options, asked.append, "db.t").run(spark)
    assert set(asked) == {"hoodie.table.services.enabled"}
