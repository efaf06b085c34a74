"""Which tables take pushes in this process: read by the servers' threads, changed by the worker's.

A table takes pushes here from when the worker has begun with it until the worker gives it up. For a table
that another worker has, the refusal names that worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hudisql.errors import PushRefusedError
from hudisql.ingest.push.event_checks import RowCheck

FindOwner = Callable[[str], Mapping[str, str] | None]
"""Where the owner of a table takes pushes, by protocol (`http`, `flight`); None if none is known."""
_SOON: Final = 2
_PAUSED: Final = 30


class AcceptedTables:
    """The tables that are declared for pushes; changes are single assignments, so that no lock is needed."""

    def __init__(self, find_owner: FindOwner = lambda _table: None) -> None:
        self.find_owner = find_owner
        self._paused: Mapping[str, bool] = {}
        self._checks: dict[str, RowCheck] = {}
        self._open: frozenset[str] = frozenset()

    def declare(self, paused: Mapping[str, bool]) -> None:
        """These tables are declared for pushes now, and paused or not."""
        self._paused = paused

    def offer(self, table: str, check: RowCheck) -> None:
        """Use this check for the table's rows from now on."""
        self._checks[table] = check

    def check_of(self, table: str) -> RowCheck | None:
        """The current check of the table's rows."""
        return self._checks.get(table)

    def open(self, table: str) -> None:
        """Accept pushes to the table."""
        self._open |= {table}

    def close(self, table: str) -> None:
        """Refuse pushes to the table."""
        self._open -= {table}

    def find(self, table: str) -> RowCheck | PushRefusedError | None:
        """The check of a table that takes pushes here, or why it does not; None for unknown ones."""
        paused = self._paused.get(table)
        if paused is None:
            return None
        if paused:
            return PushRefusedError(
                f"the table {table} is paused",
                hint="CALL resume_ingest lets it take rows again",
                status=503,
                code="paused",
                retry_after=_PAUSED,
            )
        check = self._checks.get(table)
        if table in self._open and check is not None:
            return check
        return _elsewhere(table, self.find_owner(table))


def _elsewhere(table: str, owner: Mapping[str, str] | None) -> PushRefusedError:
    if owner:
        return PushRefusedError(
            f"another worker takes the rows of {table}",
            hint="push to the address that `owner` names",
            status=307 if "http" in owner else 421,
            code="other_owner",
            owner=owner,
        )
    return PushRefusedError(
        f"no worker has the table {table} yet",
        hint=f"push again in {_SOON} seconds",
        status=503,
        code="no_owner",
        retry_after=_SOON,
    )
