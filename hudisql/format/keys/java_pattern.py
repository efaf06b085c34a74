"""Java's regular expressions as Python's, for those that mean the same in both.

Follows `java.util.regex.Pattern` without flags. Constructs that Python lacks or reads differently are
refused, so that no text is matched otherwise than in Hudi.
"""

from __future__ import annotations

import re
from typing import Final

_TERMINATOR: Final = r"\n\r\u0085\u2028\u2029"
_END: Final = rf"(?=(?:\r\n|[{_TERMINATOR}])?\Z)"
_ESCAPES: Final = re.compile(r"\\([dDwWsStnrf]|[^A-Za-z0-9])", re.DOTALL)
_OUTSIDE: Final = re.compile(
    r"\((?:\?(?:[:=!>]|<[=!]))?"  # groups
    r"|[)|^*+?\]}]"
    r"|\{\d+\}"
    r"|[^\\()|^$*+?{\[.]",
    re.DOTALL,
)


def java_pattern(text: str) -> re.Pattern[str]:
    """The pattern of a Java regular expression. Raises ValueError with what is not supported."""
    translated, at = [], 0
    while at < len(text):
        part, at = _part(text, at)
        translated.append(part)
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from None


def _part(text: str, at: int) -> tuple[str, int]:
    """What stands for the next construct, and where the one after it begins."""
    character = text[at]
    if character == "[":
        return _character_class(text, at)
    if character == ".":
        return f"[^{_TERMINATOR}]", at + 1
    if character == "$":
        return _END, at + 1
    found = (_ESCAPES if character == "\\" else _OUTSIDE).match(text, at)
    if found is None:
        raise ValueError(f"'{text[at : at + 3]}'")
    # Java takes a lone ( as a group; what follows (? must be known.
    if found[0] == "(" and text[at + 1 : at + 2] == "?":
        raise ValueError(f"'{text[at : at + 4]}'")
    return found[0], found.end()


def _character_class(text: str, at: int) -> tuple[str, int]:
    start, at = at, at + 1
    parts = ["["]
    if text[at : at + 1] == "^":
        parts.append("^")
        at += 1
    first = at
    while at < len(text) and (text[at] != "]" or at == first):
        if text[at] in "[]^" or text.startswith(("&&", "--"), at):
            raise ValueError(f"'{text[start : at + 2]}'")
        if text[at] == "\\":
            found = _ESCAPES.match(text, at)
            if found is None:
                raise ValueError(f"'{text[at : at + 2]}'")
            parts.append(found[0])
            at = found.end()
        else:
            parts.append(text[at] if text[at] == "-" else re.escape(text[at]))
            at += 1
    if at >= len(text):
        raise ValueError(f"'{text[start:]}'")
    return "".join([*parts, "]"]), at + 1
