"""Patterns of names, as clients of HiveServer2 send them with catalog calls.

Hive (`MetadataOperation.convertPattern`) turns JDBC's `%` and `_` into regular expressions and gives the rest
to the metastore, whose patterns have `*` and `|`. So a pattern may come in JDBC's form (`trips\\_%`), as a
regular expression (impyla sends `.*`) or in the metastore's form (`fact*|dim*`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_PARTS: Final = re.compile(r"\\(?P<escaped>.)|(?P<many>\.\*|[%*])|(?P<one>[_.])|(?P<either>\|)|.", re.DOTALL)


def name_matcher(pattern: bytes | None) -> Callable[[str], bool]:
    """A predicate for names that match the pattern, ignoring case; an empty or missing one matches all.

    `%`, `*` and `.*` match any characters, `_` and `.` one, `|` means "or", a backslash escapes the next
    character; all others match themselves.
    """
    text = (pattern or b"").decode(errors="replace")
    if not text:
        return lambda _name: True
    expressions = [_regular_expression(pieces) for pieces in _alternatives(text)]
    compiled = [re.compile(expression, re.IGNORECASE | re.DOTALL) for expression in expressions]
    return lambda name: any(expression.fullmatch(name) for expression in compiled)


def _alternatives(text: str) -> list[list[str]]:
    """For each alternative the regular expressions of what stands between its `%`."""
    alternatives = [[""]]
    for part in _PARTS.finditer(text):
        if part["either"]:
            alternatives.append([""])
        elif part["many"]:
            alternatives[-1].append("")
        else:
            alternatives[-1][-1] += "." if part["one"] else re.escape(part["escaped"] or part[0])
    return alternatives


def _regular_expression(pieces: list[str]) -> str:
    """A regular expression without backtracking: the first match of each piece is sufficient."""
    first, *others = pieces
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>.*?{piece})" for piece in between if piece) + f".*{last}"
