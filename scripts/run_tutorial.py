"""Run the SQL of docs/tutorial.md and write what it prints below each block, as the shell prints it.

A block of SQL is followed by a block of text with the results of its statements that give rows.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial.md"
_BLOCK = re.compile(r"```sql\n(?P<sql>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
_MOST_COLUMNS = 8


def main() -> None:
    """Rewrite the page with the results of this run."""
    import hudisql
    from hudisql.cli.output import write_result
    from hudisql.console import SilentConsole
    from hudisql.sql.text.script import split_script

    with (
        tempfile.TemporaryDirectory() as warehouse,
        hudisql.connect(warehouse=warehouse, console=SilentConsole()) as session,
    ):

        def with_results(block: re.Match[str]) -> str:
            printed = io.StringIO()
            for statement in split_script(block["sql"]):
                result = session.sql(statement.text)
                if result.has_rows:
                    write_result(result, _form_of(len(result.names)), printed)
            text = printed.getvalue().replace(warehouse, "…/hudisql-warehouse")
            shown = f"\n```text\n{text}```\n" if text else ""
            return f"```sql\n{block['sql']}```\n{shown}"

        PAGE.write_text(_BLOCK.sub(with_results, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _form_of(columns: int) -> str:
    return "table" if columns <= _MOST_COLUMNS else "vertical"


if __name__ == "__main__":
    sys.exit(main())
