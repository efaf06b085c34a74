from __future__ import annotations

from collections.abc import Callable

import pytest

from hudisql.retry import retry


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr("hudisql.retry.time.sleep", seconds.append)
    return seconds


def _call(*errors: Exception) -> tuple[list[Exception], Callable[[], str]]:
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return left, call


def test_an_error_that_passes_is_waited_out(slept: list[float]) -> None:
    _, call = _call(KeyError("one"), KeyError("two"))
    assert retry(call, lambda error: isinstance(error, KeyError), (1.0, 2.0, 4.0)) == "done"
    assert slept == [1.0, 2.0]


def test_the_error_of_the_last_call_comes_out(slept: list[float]) -> None:
    left, call = _call(*(KeyError(name) for name in "abcd"))
    with pytest.raises(KeyError, match="c"):
        retry(call, lambda error: isinstance(error, KeyError), (1.0, 2.0))
    assert (len(left), slept) == (1, [1.0, 2.0])


def test_another_error_comes_out_at_once(slept: list[float]) -> None:
    left, call = _call(ValueError("other"), KeyError("later"))
    with pytest.raises(ValueError, match="other"):
        retry(call, lambda error: isinstance(error, KeyError), (1.0, 2.0))
    assert (len(left), slept) == (1, [])
