"""The matrix of changes: every operation on every kind of table, and a part of it that has every pair.

A case says what is done to which table; `pairwise_cases` picks few cases, by a seed, so that any two values
of two axes meet in one of them at least.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations, product

OPERATIONS = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
    "MERGE",
    "UPDATE",
    "DELETE",
)
STORAGES = ("cow", "mor-avro", "mor-parquet")
ORIGINS = ("bootstrapped", "native")
LAYOUTS = ("partitioned", "flat")


@dataclass(frozen=True)
class Case:
    """One operation on one kind of table; `storage` is the table type and the format of its log blocks."""

    operation: str
    storage: str
    origin: str
    layout: str

    def __str__(self) -> str:
        return "-".join(astuple(self))

    @property
    def table_type(self) -> str:
        """Hudi's name of the table type."""
        return "COPY_ON_WRITE" if self.storage == "cow" else "MERGE_ON_READ"

    @property
    def block_format(self) -> str:
        """What log blocks are written as, if any are."""
        return "parquet" if self.storage.endswith("parquet") else "avro"


def all_cases() -> list[Case]:
    """Every case that there can be: without partitions none can be dropped."""
    cases = [Case(*values) for values in product(OPERATIONS, STORAGES, ORIGINS, LAYOUTS)]
    return [case for case in cases if (case.operation, case.layout) != ("delete_partition", "flat")]


def pairwise_cases(seed: int, cases: Sequence[Case]) -> list[Case]:
    """A small part of the cases in which each pair of values occurs that occurs in all of them."""
    shuffled = random.Random(seed).sample(cases, len(cases))
    missing = set().union(*(_pairs(case) for case in shuffled))
    chosen: list[Case] = []
    while missing:
        best = max(shuffled, key=lambda case: len(_pairs(case) & missing))
        chosen.append(best)
        missing -= _pairs(best)
    return chosen


def _pairs(case: Case) -> set[tuple[tuple[int, str], ...]]:
    return set(combinations(enumerate(astuple(case)), 2))
