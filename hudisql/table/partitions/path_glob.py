"""Patterns of paths as Hudi's options take them.

Follows Hadoop's `GlobPattern`: `*` and `?` match separators, too; `[…]` are classes, `{a,b}` choices.
"""

from __future__ import annotations

import re

from hudisql.errors import InvalidArgumentError


def glob_pattern(glob: str) -> re.Pattern[str]:
    """The regular expression that matches what the glob matches, of whole texts.

    Raises InvalidArgumentError for an invalid class, such as `[9-0]`.
    """
    text, depth, position = "", 0, 0
    while position < len(glob):
        mark = glob[position]
        position += 1
        if mark == "*":
            text += ".*"
        elif mark == "?":
            text += "."
        elif mark == "{":
            text, depth = text + "(?:", depth + 1
        elif mark == "}" and depth:
            text, depth = text + ")", depth - 1
        elif mark == "," and depth:
            text += "|"
        elif mark == "[" and (end := glob.find("]", position + 1)) > 0:
            inner = glob[position:end].replace("\\", r"\\")
            text += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
            position = end + 1
        else:
            text += re.escape(mark)
    try:
        return re.compile(text + ")" * depth, re.DOTALL)
    except re.error as error:
        raise InvalidArgumentError(
            f"'{glob}' is not a pattern of paths: {error.msg}",
            hint="* and ? match any characters, [a-c] one of these, {a,b} either text",
        ) from error
