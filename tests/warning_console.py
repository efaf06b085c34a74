"""A console that keeps warnings for tests to read."""

from __future__ import annotations

from hudisql.console import SilentConsole


class WarningConsole(SilentConsole):
    """Keeps the texts of the warnings."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warning(self, text: str) -> None:
        self.texts.append(text)
