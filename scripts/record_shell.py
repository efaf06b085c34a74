"""Draw docs/pictures/shell.svg: what a terminal shows after a run of the shell, on data made for it.

The shell runs on a pseudo-terminal, as a user would run it; nothing is drawn that it did not print.
"""

from __future__ import annotations

import sys
import tempfile
from html import escape
from pathlib import Path

from tests.cli.interactive.terminal import open_terminal

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "shell.svg"
_LINES = 60
_SECONDS = 600
_BEFORE = (
    "create database legacy",
    "create table legacy.trips using parquet as select id, 10 + id % 7 as fare, 1 as ts from range(3000)",
)
_SHOWN = (
    "call bootstrap_table(table => 'lake.trips', source_table => 'legacy.trips', record_key => 'id', "
    "precombine => 'ts', protect_source => true)",
    "update lake.trips set fare = 0 where id < 3",
    "select id, fare from lake.trips where id < 4 order by id",
    "select id, fare from lake.trips version as of '00000000000001' where id < 4 order by id",
)
_ADVANCE, _HEIGHT, _MARGIN = 8.4, 18, 14


def main() -> None:
    """Run the statements and draw the screen."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(Path(sys.executable).parent / "hudisql"), "--warehouse", f"{directory}/warehouse"]
        environment = {"HOME": directory, "XDG_STATE_HOME": directory, "PAGER": ""}
        with open_terminal(command, environment, _LINES) as shell:
            shell.wait_for("default>", _SECONDS)
            for number, text in enumerate(_BEFORE, 1):
                shell.type(f"{text};\r")
                shell.wait_until(
                    lambda count=number: shell.screen.count("Time taken") == count,  # type: ignore[misc]
                    text,
                    _SECONDS,
                )
            shell.type("clear\r")
            shell.wait_until(lambda: shell.screen.strip() == "default>", "a clean screen", _SECONDS)
            for number, text in enumerate(_SHOWN, 1):
                shell.type(f"{text};\r")
                shell.wait_until(
                    lambda count=number: shell.screen.count("Time taken") == count,  # type: ignore[misc]
                    text,
                    _SECONDS,
                )
            screen = shell.screen.replace(directory, "/data").rstrip().removesuffix("default>").rstrip()
            shell.type("quit\r")
    PICTURE.write_text(picture_of(screen.splitlines()), encoding="utf-8")


def picture_of(lines: list[str]) -> str:
    """The lines as an SVG, in the reader's own fixed-width font."""
    width = round(max(len(line) for line in lines) * _ADVANCE) + 2 * _MARGIN
    height = len(lines) * _HEIGHT + 2 * _MARGIN
    texts = "\n".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + (number + 1) * _HEIGHT - 5}">{escape(line)}</text>'
        for number, line in enumerate(lines)
        if line.strip()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" '
        f'font-size="14" fill="#e6e6e6" xml:space="preserve" role="img" aria-label="A run of the shell">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1e2430"/>\n{texts}\n</svg>\n'
    )


if __name__ == "__main__":
    main()
