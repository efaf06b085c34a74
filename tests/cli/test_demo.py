"""`make demo`, and then the commands of the README: beeline shows the rows that the README has."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pexpect
import pytest

from tests.free_port import find_free_port

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```\n(?P<text>\$ make demo\n.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "pasted> "
_SECONDS = 180


def commands_and_rows() -> tuple[list[str], list[str]]:
    """The commands of the README's block, and the lines of the table that beeline prints."""
    block = _BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert block is not None
    lines = block["text"].splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")], [x for x in lines if x[:1] in ("+", "|")]


def checkout(directory: Path) -> Path:
    """A directory with what the commands find in a checkout, and no data of another run."""
    for name in ("Makefile", "hudisql", "pyproject.toml", "requirements.lock", "scripts", "sql"):
        (directory / name).symlink_to(ROOT / name)
    (directory / ".venv").symlink_to(sys.prefix)
    return directory


def test_three_commands_after_the_demo_show_the_table_in_beeline(tmp_path: Path) -> None:
    (demo, activate, serve, ask, stop), rows = commands_and_rows()
    assert len(rows) > 10
    port = str(find_free_port())
    shell = pexpect.spawn(
        str(shutil.which("bash")),
        ["--norc", "-i"],
        cwd=str(checkout(tmp_path)),
        env={**os.environ, "PS1": _PROMPT, "TERM": "dumb"},
        encoding="utf-8",
        timeout=_SECONDS,
        dimensions=(200, 400),
    )
    try:
        shell.expect_exact(_PROMPT)
        shell.sendline(f"{demo} > demo.log 2>&1; echo demo ended with $?")
        shell.expect(r"demo ended with (\d+)\r")
        assert shell.match.group(1) == "0", (tmp_path / "demo.log").read_text()[-3000:]
        # Pasted at once: beeline does not wait for the server.
        shell.sendline("\n".join((activate, serve, ask, stop)).replace("10000", port))
        for row in rows:
            shell.expect_exact(row)
        shell.expect("SIGTERM: stopping")
        shell.sendline("wait; echo server ended")
        shell.expect(r"server ended\r")
    finally:
        shell.close(force=True)
