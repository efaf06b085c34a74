"""Reading instants of a timeline while other processes archive, roll back or merge archives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hudisql.errors import NoSuchPathError
from hudisql.table.hudi_table import HudiTable

_LISTINGS: Final = 10
T = TypeVar("T")


def read_listed_again(table: HudiTable, read: Callable[[HudiTable], T]) -> T:
    """The result of `read` for the table; the timeline is listed again if files are gone since the listing.

    `read` must not keep anything from a failed attempt.
    """
    for _ in range(_LISTINGS - 1):
        try:
            return read(table)
        except NoSuchPathError:
            table = table.reopened()
    return read(table)
