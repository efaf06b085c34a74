"""How a publication hands work to tasks, which may be other processes. The caller runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from hudisql.table.hudi_table import HudiTable


class TaskRunner(Protocol):
    """Runs work on items in tasks."""

    def __call__(
        self, items: Sequence[Any], work: Callable[[Iterable[Any]], Iterator[Any]], label: str, /
    ) -> list[Any]:
        """The outcomes in the order of the items. Raises the first error of a task."""


def table_of_tasks(table: HudiTable) -> HudiTable:
    """The table without what was listed, which tasks do not need."""
    return replace(table, listing=None, lister=None)
