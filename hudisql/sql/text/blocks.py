"""Where a `BEGIN … END` block (a compound statement of Spark 4) ends: the semicolons inside are its own.

Counts words only. `BEGIN` and `CASE` (statement or expression) are closed by `END`; what is closed by two
words (`END IF`, `END WHILE`, `END REPEAT`, `END FOR`, `END LOOP`) needs no count.
"""

from __future__ import annotations

import re
from typing import Final

TRANSACTION_WORDS: Final = frozenset({"TRANSACTION", "TRAN", "WORK"})
_UNCOUNTED: Final = frozenset({"IF", "WHILE", "REPEAT", "FOR", "LOOP"})
_WORD: Final = re.compile(r"\w+|[^\s\w]")


class BlockScanner:
    """Scans one statement, piece by piece; `is_open` says whether it is inside a block."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._depth = 0
        self._previous = ""
        self._seen_end = False

    @property
    def is_open(self) -> bool:
        """True from the block's BEGIN to the word after its END."""
        return self._depth > 0

    def take_code(self, text: str) -> None:
        """Scan code without strings, comments, quoted names and semicolons."""
        if self._depth or len(self._head) < 3:
            for word in _WORD.findall(text):
                self._take(word.upper())

    def take_name(self) -> None:
        """Scan a quoted name or a string."""
        self._take("`")

    def take_semicolon(self) -> None:
        """Scan a semicolon. It ends the statement if the block is not open afterwards."""
        if self._previous == "BEGIN" and self._depth == 1:
            # In other dialects `BEGIN;` begins a transaction.
            self._depth = 0
        self._take(";")

    def _take(self, word: str) -> None:
        if self._depth:
            self._count(word)
        elif len(self._head) < 3:
            self._head.append(word)
            if word == "BEGIN" and (len(self._head) == 1 or self._head[1:2] == [":"]):
                self._depth = 1
        self._previous = word

    def _count(self, word: str) -> None:
        if self._previous == "BEGIN" and self._depth == 1 and word in TRANSACTION_WORDS:
            self._depth = 0
            return
        if self._seen_end:
            self._seen_end = False
            if word in _UNCOUNTED:
                return
            self._depth -= 1
            if word == "CASE" or not self._depth:
                return
        if self._previous in (".", "AS"):
            return
        if word == "END":
            self._seen_end = True
        elif word in ("BEGIN", "CASE"):
            self._depth += 1

    def end(self) -> None:
        """End of the text."""
        self.take_semicolon()
