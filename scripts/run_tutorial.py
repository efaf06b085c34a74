"""Run the SQL of docs/tutorial.md and write what it prints below each block, as the shell prints it.

A block of SQL is followed by a block of text with the results of its statements that give rows; of long ones
the middle is left out.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial.md"
_BLOCK = re.compile(r"```sql\n(?P<sql>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
_SCREEN_WIDTH = 120
_FIRST_LINES, _LAST_LINES = 10, 21


def main() -> None:
    """Rewrite the page with the results of this run."""
    import hudisql
    from hudisql.cli.terminal_display import TerminalDisplay
    from hudisql.console import SilentConsole
    from hudisql.sql.text.script import split_script

    with (
        tempfile.TemporaryDirectory() as warehouse,
        hudisql.connect(warehouse=warehouse, console=SilentConsole()) as session,
    ):

        def with_results(block: re.Match[str]) -> str:
            printed = io.StringIO()
            display = TerminalDisplay(open_output=lambda: nullcontext(printed), width=_SCREEN_WIDTH)
            for statement in split_script(block["sql"]):
                began = time.monotonic()
                result = session.sql(statement.text)
                if result.has_rows:
                    before = printed.tell()
                    display.fetch(result)(time.monotonic() - began)
                    lines = printed.getvalue()[before:].splitlines(keepends=True)
                    if len(lines) > _FIRST_LINES + _LAST_LINES:
                        printed.seek(before)
                        printed.truncate()
                        end = lines[-_LAST_LINES:]
                        start = next((at for at, line in enumerate(end) if line.startswith("-[")), 0)
                        printed.writelines([*lines[:_FIRST_LINES], "…\n", *end[start:]])
            text = printed.getvalue().replace(warehouse, "…/hudisql-warehouse")
            shown = f"\n```text\n{text}```\n" if text else ""
            return f"```sql\n{block['sql']}```\n{shown}"

        PAGE.write_text(_BLOCK.sub(with_results, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
