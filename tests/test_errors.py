"""The tree of errors, and every place of the code that makes one: what its message and its hint look like."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from hudisql import errors
from hudisql.cli.interrupts import is_interrupt
from hudisql.spark.task_errors import translate_task_error

ERROR_CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.HudisqlError)
]


ROOT = Path(__file__).parents[1]

# Whoever meets one of these cannot go on without being told how.
ALWAYS_HINTED = {
    "BootstrapBlockedError",
    "ExecutorEnvironmentError",
    "NoSuchProcedureError",
    "RepeatedKeysError",
    "RollbackRefusedError",
    "SessionClosedError",
    "SourceProtectedError",
    "SyncFailedError",
    "TableLockedError",
    "VerificationFailedError",
}
# A sentence may begin with these, otherwise it begins in lower case, with a name of SQL or with a value.
PROPER_NAMES = {"Avro", "Hive", "Hudi", "Java", "Kafka", "Kerberos", "Python", "Spark"}


@dataclass(frozen=True)
class MadeError:
    """A call in the source that makes an error; in its texts `{}` stands for each value put in.

    A text that no literal shows (it is a variable, say) is None, and so is a missing hint.
    """

    place: str
    class_name: str
    has_message: bool
    message: str | None
    has_hint: bool
    hint: str | None


def _literal(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return None if left is None and right is None else (left or "{}") + (right or "{}")
    return None


def _made_error(call: ast.Call, place: str, names: set[str]) -> MadeError | None:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name not in names:
        return None
    message = call.args[0] if call.args else None
    hint = next((each.value for each in call.keywords if each.arg == "hint"), None)
    return MadeError(place, name, message is not None, _literal(message), hint is not None, _literal(hint))


@cache
def made_errors() -> list[MadeError]:
    """Every error that the two packages make."""
    names = {each.__name__ for each in ERROR_CLASSES}
    found = []
    for package in ("hudisql", "pyspark_hudisql", "pyspark_hudisql_full_name"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    found.append(_made_error(node, place, names))
    return [each for each in found if each is not None]


def _flaws(text: str) -> list[str]:
    """What is wrong with a message or a hint."""
    word = re.split(r"[\s(:.,']", text.lstrip("{}'`\""))[0]
    flaws = []
    if not text.strip():
        flaws.append("is empty")
    if text != text.strip() or text.endswith("."):
        flaws.append("ends or begins with a blank, or ends with a full stop")
    if re.fullmatch(r"[A-Z][a-z]+", word) and word not in PROPER_NAMES:
        flaws.append(f"begins with a capital: {word}")
    # Spark's own texts begin with their error class and show the place on lines of its form.
    if "\n" in text.replace("\n{}", "") and not text.startswith("["):
        flaws.append("has several lines that are no list of values")
    return flaws


def test_the_code_makes_errors_of_every_class() -> None:
    made = {each.class_name for each in made_errors()}
    assert {each.__name__ for each in ERROR_CLASSES} - made == set()
    assert len(made_errors()) > 400


def test_every_error_has_a_message_that_names_something() -> None:
    assert [each.place for each in made_errors() if not each.has_message] == []
    texts = [(each.place, each.message) for each in made_errors() if each.message is not None]
    assert [place for place, text in texts if "{}" not in text and len(text.split()) < 3] == []


@pytest.mark.parametrize("part", ["message", "hint"])
def test_messages_and_hints_are_one_line_of_plain_text(part: str) -> None:
    texts = [(each.place, getattr(each, part)) for each in made_errors()]
    flawed = [
        f"{place}: {text!r} {flaw}" for place, text in texts if text is not None for flaw in _flaws(text)
    ]
    assert flawed == []
    assert sum(text is not None for _, text in texts) > 200


def test_errors_that_stop_a_user_say_how_to_go_on() -> None:
    assert {each.__name__ for each in ERROR_CLASSES} >= ALWAYS_HINTED
    unhinted = [
        each.place for each in made_errors() if each.class_name in ALWAYS_HINTED and not each.has_hint
    ]
    assert unhinted == []


def test_flaws_are_found() -> None:
    assert _flaws("column {} of {} is INT96") == []
    assert _flaws("Hudi stores schemas as Avro") == []
    assert _flaws("DROP TABLE takes one table") == []
    for text in ("", "no such table {}.", "Table {} is broken", "one\ntwo {}"):
        assert len(_flaws(text)) >= 1, text


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_every_error_survives_a_process_border(error_class: type[errors.HudisqlError]) -> None:
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
