from __future__ import annotations

import inspect
import pickle

import pytest

from hudisql import errors
from hudisql.cli.interrupts import is_interrupt
from hudisql.spark.task_errors import translate_task_error

ERROR_CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.HudisqlError)
]


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_every_error_says_what_to_do_and_survives_a_process_border(
    error_class: type[errors.HudisqlError],
) -> None:
    error = error_class("column 'a' of file f.parquet is INT96", hint="rewrite it")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is error_class
    assert str(again) == "column 'a' of file f.parquet is INT96\n  -> rewrite it"


def test_blockers_are_kept() -> None:
    error = errors.BootstrapBlockedError("2 blockers", blockers=["a", "b"])
    assert pickle.loads(pickle.dumps(error)).blockers == ("a", "b")


def test_the_chain_of_an_error_ends_even_if_it_is_its_own_cause() -> None:
    inner, outer = ValueError("inner"), errors.QueryError("outer")
    inner.__cause__, outer.__cause__ = outer, inner
    assert list(errors.error_chain(outer)) == [outer, inner]
    outer.__cause__ = outer
    assert not is_interrupt(outer)
    assert translate_task_error(inner) is outer
    inner.__cause__ = KeyboardInterrupt()
    assert is_interrupt(inner)
