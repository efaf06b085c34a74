"""The findings of a bootstrap's checks: blockers, which stop it, and warnings, which do not.

A finding has a message and advice, so that a dry run can list all of them at once. Values only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hudisql.errors import BootstrapBlockedError

_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: the problem with its place, and the advice.

    `ways` are parameters of the call that solve it, each with what it does; `hint` is other advice.
    """

    message: str
    is_blocker: bool
    hint: str | None = None
    ways: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.without(())

    def without(self, ways: Collection[str]) -> str:
        """The finding with its advice, but for these ways."""
        advice = [way for way in self.ways if way not in ways]
        advice += [self.hint] if self.hint else []
        return f"{self.message} ({'; or '.join(advice)})" if advice else self.message


def blocker(message: str, *, hint: str | None = None, ways: tuple[str, ...] = ()) -> Finding:
    """A finding that stops the bootstrap."""
    return Finding(message, True, hint, ways)


def warning(message: str, *, hint: str | None = None) -> Finding:
    """A finding that does not stop the bootstrap."""
    return Finding(message, False, hint)


def blockers_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that stop the bootstrap."""
    return tuple(finding for finding in findings if finding.is_blocker)


class PlanWithFindings:
    """A plan of a bootstrap or a resync, which runs only without blockers."""

    findings: tuple[Finding, ...]

    @property
    def refusal(self) -> str:
        """What the blockers stop, as the begin of an error's message."""
        raise NotImplementedError

    @property
    def blockers(self) -> tuple[Finding, ...]:
        """The findings that stop it."""
        return blockers_of(self.findings)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that do not stop it."""
        return tuple(finding for finding in self.findings if not finding.is_blocker)

    def raise_if_blocked(self) -> None:
        """Raise BootstrapBlockedError with every blocker if there is one."""
        if self.blockers:
            raise self.describe_blockers("nothing was written; dry_run => true shows the whole plan")

    def describe_blockers(self, hint: str) -> BootstrapBlockedError:
        """The error that lists every blocker."""
        return blockers_error(self.refusal, self.blockers, hint)


def blockers_error(subject: str, blockers: Sequence[Finding], hint: str) -> BootstrapBlockedError:
    """The error that lists every blocker; `subject` says what they stop.

    What solves all of them stands in its first line.
    """
    shared = [way for way in blockers[0].ways if all(way in finding.ways for finding in blockers)]
    listed = "".join(f"\n  - {finding.without(shared)}" for finding in blockers)
    count = f"{len(blockers)} blocker{'' if len(blockers) == 1 else 's'}"
    solved = f". {'; or '.join(shared)}" if shared else ""
    return BootstrapBlockedError(
        f"{subject}, {count}{solved}:{listed}", blockers=[str(finding) for finding in blockers], hint=hint
    )


def count_files(files: int) -> str:
    """`1 file`, `1,200 files`."""
    return f"{files:,} file{'' if files == 1 else 's'}"


def name_some(names: Sequence[str], kind: str = "file") -> str:
    """`3 files: a, b, c` or `12 files, such as a, b, c`: the number of all, and the first few names."""
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    counted = f"{len(names):,} {kind if len(names) == 1 else plural}"
    if len(names) <= _SAMPLES:
        return f"{counted}: {', '.join(names)}"
    return f"{counted}, such as {', '.join(names[:_SAMPLES])}"
