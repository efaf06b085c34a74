"""Steps of random lives: rules of a state machine that are counted by kind and by how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from hypothesis.stateful import rule

DONE, REFUSED, KILLED, IDLE = "done", "refused", "killed", "nothing to do"


@dataclass
class StepCounts:
    """How often each kind of step ended in which way, and how often each check was made."""

    steps: Counter[tuple[str, str]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    lives: int = 0

    @property
    def total(self) -> int:
        """The number of steps."""
        return self.steps.total()

    def table(self) -> str:
        """A row for each kind of step with its numbers, and the checks."""
        outcomes = [DONE, REFUSED, KILLED, IDLE]
        outcomes[1:1] = sorted({outcome for _, outcome in self.steps} - set(outcomes))
        rows = [["step", *outcomes, "all"]]
        for kind in sorted({kind for kind, _ in self.steps}):
            rows.append(_row(kind, [self.steps[kind, outcome] for outcome in outcomes]))
        sums = [sum(self.steps[each] for each in self.steps if each[1] == outcome) for outcome in outcomes]
        rows.append(_row("all", sums))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        checks = ", ".join(f"{number:,} {name}" for name, number in sorted(self.checks.items()))
        return "\n".join([*lines, f"checked: {checks}"])


def _row(kind: str, numbers: list[int]) -> list[str]:
    return [kind, *(f"{number:,}" if number else "" for number in numbers), f"{sum(numbers):,}"]


def step(**drawn: Any) -> Callable[[Callable[..., str | None]], Any]:
    """Make a rule of a method that gives how it ended, DONE if it gives nothing; the machine has `counts`."""

    def decorate(method: Callable[..., str | None]) -> Any:
        @wraps(method)
        def run(machine: Any, **named: Any) -> None:
            shown = ", ".join(f"{name}={value!r}" for name, value in named.items() if name != "data")
            machine.log.append(f"{method.__name__}({shown})")
            with failing(machine):
                outcome = method(machine, **named) or DONE
            machine.counts.steps[method.__name__.replace("_", " "), outcome] += 1

        return rule(**drawn)(run)

    return decorate


class LifeFailedError(BaseException):
    """Ends a life at once. Hypothesis would live it again to report it, which the clock makes another one."""


@contextmanager
def failing(machine: Any) -> Iterator[None]:
    """Let an error within end the life, with what was done in it."""
    try:
        yield
    except Exception as error:
        machine.failed = True
        raise LifeFailedError("\n".join(["what was done:", *machine.log])) from error
