"""What random lives report appears at the end of a run, whether or not they failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

REPORT = "report of random lives"


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Adds a text to the summary of the run; it comes from xdist's workers, too."""
    return lambda text: record_property(REPORT, text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the reports."""
    for reports in terminalreporter.stats.values():
        for each in reports:
            if getattr(each, "when", None) != "call":
                continue
            for name, text in each.user_properties:
                if name == REPORT:
                    terminalreporter.section(f"{REPORT}: {each.nodeid}")
                    terminalreporter.write_line(text)
