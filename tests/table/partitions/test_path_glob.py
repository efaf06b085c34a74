"""Hadoop's globs, in which `*` matches separators, too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.table.partitions.listed_partitions import list_matching_paths
from hudisql.table.partitions.path_glob import glob_pattern
from tests.opened import open_at
from tests.table.conftest import TableDirectory


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("*/dt=a/*", ["/t/dt=a/f", "/t/x/dt=a/y/f"], ["/t/dt=ab/f"]),
        ("f?.[ab]", ["f1.a", "f/.b"], ["f1.c", "f.a"]),
        ("[!ab]x", ["cx"], ["ax"]),
        ("{a,b{1,2}}.c+", ["a.c+", "b1.c+", "b2.c+"], ["b.c+", "a.cc"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_globs_match_whole_paths(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = glob_pattern(glob)
    assert [text for text in [*matching, *other] if pattern.fullmatch(text)] == matching


@pytest.mark.parametrize("glob", ["dt=[9-0]", "[!]"])
def test_a_class_that_is_none_is_an_error_that_names_the_pattern(glob: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(f"'{glob}' is not a pattern of paths")):
        glob_pattern(glob)


def test_a_partition_is_found_by_its_name_whatever_that_would_match(
    make_table: Callable[..., TableDirectory],
) -> None:
    made = make_table()
    for path in ("a[1]", "a1", "[9-0]"):
        made.partition(path)
    table = open_at(made.path)
    assert list_matching_paths(table, "a[1]") == ["a[1]"]
    assert list_matching_paths(table, "[9-0]") == ["[9-0]"]
    assert list_matching_paths(table, "a*") == ["a1", "a[1]"]
