"""Arguments of CALL against declared parameters: names, order, types, and what complaints say."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from hudisql.bootstrap.plan.bootstrap_mode import UnsafeTypePolicy
from hudisql.errors import InvalidArgumentError
from hudisql.procedures.binder import bind_arguments, parse_choice
from hudisql.procedures.registry import (
    Arguments,
    Long,
    Procedure,
    parameter,
    parameters_of,
)


@dataclass(frozen=True, kw_only=True)
class LoadArguments(Arguments):
    table: str = parameter(help="the table")
    rowKey_field: tuple[str, ...] | None = parameter(None)  # noqa: N815
    limit: int = parameter(10)
    timestamp: Long | None = parameter(None)
    ratio: float = parameter(0.5)
    dry_run: bool = parameter(False)
    options: Mapping[str, str] | None = parameter(None)
    age: datetime.timedelta | None = parameter(None)


@dataclass(frozen=True)
class LoadRow:
    status: int


PROCEDURE = Procedure("load_it", "Loads it.", LoadArguments, LoadRow, lambda _context, _arguments: [])


def bind(*positional: object, **named: object) -> Any:
    return bind_arguments(PROCEDURE, positional, named.items())


def test_defaults_fill_what_is_not_given() -> None:
    arguments = bind(table="t")
    assert dataclasses.asdict(arguments) == {
        "given": {"table"},
        "table": "t",
        "rowKey_field": None,
        "limit": 10,
        "timestamp": None,
        "ratio": 0.5,
        "dry_run": False,
        "options": None,
        "age": None,
    }


def test_names_are_taken_in_any_case_and_mixed_with_positions() -> None:
    arguments = bind("t", ROWKEY_FIELD="id", Dry_Run=True)
    assert (arguments.table, arguments.rowKey_field, arguments.dry_run) == ("t", ("id",), True)


def test_null_means_not_given() -> None:
    bound = bind(table="t", limit=None, dry_run=None)
    assert dataclasses.replace(bound, given=frozenset({"table"})) == bind(table="t")
    with pytest.raises(InvalidArgumentError, match="required and not given: table"):
        bind(table=None)


@pytest.mark.parametrize(
    ("name", "given", "bound"),
    [
        ("table", 7, "7"),
        ("table", True, "true"),
        ("limit", "12", 12),
        ("limit", Decimal("3.0"), 3),
        ("timestamp", 20240301000000000, 20240301000000000),
        ("ratio", 1, 1.0),
        ("ratio", Decimal("0.25"), 0.25),
        ("dry_run", "TRUE", True),
        ("options", {"a": 1, "b": True}, {"a": "1", "b": "true"}),
        ("options", "a=1, b=x=y", {"a": "1", "b": "x=y"}),
        ("rowKey_field", "a, b.c", ("a", "b.c")),
        ("rowKey_field", ["a", "b"], ("a", "b")),
        ("age", datetime.timedelta(days=7), datetime.timedelta(days=7)),
    ],
)
def test_values_are_converted_where_nothing_is_lost(name: str, given: object, bound: object) -> None:
    value = getattr(
        bind_arguments(
            PROCEDURE, (), [("table", "t"), (name, given)] if name != "table" else [(name, given)]
        ),
        name,
    )
    assert value == bound
    assert type(value) is type(bound)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("table", ["a"], "must be of type string, not array"),
        ("limit", "x", "must be of type int, not string 'x'"),
        ("limit", Decimal("1.5"), "not a whole number"),
        ("limit", 2**31, "out of range"),
        ("limit", True, "must be of type int, not boolean"),
        ("dry_run", 1, "must be of type boolean, not integer"),
        ("options", "a", "write map('key', 'value', …)"),
        ("options", ["a"], "must be of type map, not array"),
        ("age", 7, "must be of type interval, not integer"),
        ("ratio", "fast", "must be of type double, not string"),
    ],
)
def test_values_of_a_wrong_type_are_refused_by_name(name: str, given: object, complaint: str) -> None:
    named = {"table": "t", name: given}
    with pytest.raises(InvalidArgumentError) as caught:
        bind(**named)
    assert complaint in caught.value.message
    assert f"load_it: the argument '{name}'" in caught.value.message


def test_an_unknown_name_brings_the_nearest_ones() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        bind(table="t", dryrun=True)
    assert caught.value.message == "load_it has no parameter 'dryrun'"
    assert caught.value.hint == "did you mean dry_run?"


def test_too_many_or_doubled_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="takes 8 arguments, 9 were given"):
        bind(*["x"] * 9)
    with pytest.raises(InvalidArgumentError, match="'table' is given twice"):
        bind("t", TABLE="u")


def test_a_parameter_of_a_type_without_sql_type_cannot_be_declared() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bad(Arguments):
        a: bytes = parameter(help="bytes")

    with pytest.raises(TypeError, match="stands for no SQL type"):
        parameters_of(Bad)


def test_bound_arguments_are_an_instance_of_the_declared_dataclass() -> None:
    arguments = bind(table="t")
    assert isinstance(arguments, LoadArguments)
    with pytest.raises(dataclasses.FrozenInstanceError):
        arguments.table = "u"  # type: ignore[misc]


def test_a_choice_is_taken_in_any_case_and_the_others_are_named() -> None:
    assert parse_choice(UnsafeTypePolicy, "on_unsafe_type", " Warn ") is UnsafeTypePolicy.WARN
    with pytest.raises(InvalidArgumentError, match="on_unsafe_type 'no' is unknown") as refused:
        parse_choice(UnsafeTypePolicy, "on_unsafe_type", "no")
    assert refused.value.hint == "it is 'fail', 'warn' or 'full_record'"
