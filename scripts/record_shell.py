"""Writes docs/pictures/shell.svg: the screen of a shell in which a table is made, changed and queried.

`python -m scripts.record_shell` types into a shell on a real terminal, and draws what stands on the screen at
the end. Nothing of it is written by hand.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.cli.interactive.terminal import open_terminal

if TYPE_CHECKING:
    from pyte.screens import Char

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURE: Final = ROOT / "docs" / "pictures" / "shell.svg"
_LINES: Final = 40
_COLUMNS: Final = 156
_SECONDS: Final = 200
# What is typed, and what the screen shows when it is done.
_TYPED: Final = (
    ("CREATE TABLE orders (order_id INT, city STRING, amount DECIMAL(9,2)) USING hudi\r", "\n..."),
    ("TBLPROPERTIES (primaryKey = 'order_id');\r", "Time taken"),
    ("INSERT INTO orders VALUES (1, 'Oslo', 12.50), (2, 'Rome', 8.00);\r", " inserted in "),
    ("MERGE INTO orders t USING (SELECT 2 AS order_id, 9.25 AS amount) s\r", "\n..."),
    ("ON t.order_id = s.order_id WHEN MATCHED THEN UPDATE SET amount = s.amount;\r", " updated in "),
    ("SELECT order_id, city, amount FROM orders ORDER BY order_id;\r", "Time taken"),
    ("CALL show_b\t", "show_bootstrap_partitions"),
)
# pyte's names of the colours that rich names otherwise.
_NAMES: Final = {"brown": "yellow", "brightbrown": "bright_yellow"}
_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    """Record the session and write the picture."""
    with tempfile.TemporaryDirectory() as directory:
        # Where the warehouse lies is of no interest.
        picture = _svg(_play(Path(directory))).replace(directory, "…")
    PICTURE.write_text(picture, encoding="utf-8")


def _play(directory: Path) -> Sequence[Sequence[Char]]:
    """The characters on the screen after what is typed."""
    command = [str(Path(sys.executable).parent / "hudisql"), "--warehouse", str(directory / "warehouse")]
    environment = {"XDG_STATE_HOME": str(directory), "PAGER": "", "TERM": "xterm-256color"}
    with open_terminal(command, environment, _LINES, _COLUMNS) as terminal:
        terminal.wait_for("default>")
        for text, sign in _TYPED:
            seen = terminal.screen.count(sign)
            terminal.type(text)
            terminal.wait_until(
                lambda seen=seen, sign=sign: terminal.screen.count(sign) > seen, sign, _SECONDS
            )
        return terminal.characters


def _svg(lines: Iterable[Sequence[Char]]) -> str:
    """The screen as rich draws it, without fonts from other hosts."""
    shown = [_text_of(line) for line in lines]
    while shown and not shown[-1].plain.strip():
        shown.pop()
    console = Console(record=True, width=max(map(len, shown)), file=io.StringIO(), force_terminal=True)
    for text in shown:
        console.print(text, no_wrap=True, soft_wrap=True)
    picture = console.export_svg(title="hudisql", theme=MONOKAI, unique_id="shell")
    return "\n".join(line.rstrip() for line in _FONTS.sub("", picture).splitlines()) + "\n"


def _text_of(line: Sequence[Char]) -> Text:
    text = Text()
    for style, characters in groupby(line, _style_of):
        text.append("".join(character.data for character in characters), style)
    text.rstrip()
    return text


def _style_of(character: Char) -> Style:
    return Style(
        color=_color_of(character.fg),
        bgcolor=_color_of(character.bg),
        bold=character.bold,
        reverse=character.reverse,
    )


def _color_of(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return _NAMES.get(name, name.replace("bright", "bright_"))


if __name__ == "__main__":
    main()
