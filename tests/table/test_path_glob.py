"""Hadoop's globs, in which `*` matches separators, too."""

from __future__ import annotations

import pytest

from hudisql.table.path_glob import glob_pattern


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
