"""Beeline, started once: a JVM for every statement would take longer than the statements.

It reads its script from a pipe. After each statement it is told to print a line that no table has, which ends
the statement's rows.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import install_hive
from tests.processes import wait_or_kill


class HiveError(AssertionError):
    """HiveServer2 or beeline failed; the message is theirs."""


@dataclass
class Beeline:
    """A running beeline; make one with `start_beeline`. What it says on standard error goes to `log`."""

    process: subprocess.Popen[str]
    log: Path
    lines: Queue[str | None]
    numbers: Any = field(default_factory=count)

    def run(self, statement: str, *, seconds: float) -> list[str]:
        """Run one statement and return the lines that beeline prints. Raises HiveError."""
        assert self.process.stdin is not None
        said, end = self.log.stat().st_size, f"end-of-statement-{next(self.numbers)}"
        self.process.stdin.write(f"{statement.rstrip().rstrip(';')};\n!sh echo {end}\n")
        self.process.stdin.flush()
        printed = []
        while (line := self._next_line(statement, seconds)) != end:
            printed.append(line)
        errors = self.log.read_bytes()[said:].decode(errors="replace")
        if "Error:" in errors:
            raise HiveError(f"{statement}\n{errors[-3000:]}")
        return printed

    def close(self) -> None:
        """End beeline: it stops by itself when its script ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        wait_or_kill(self.process, 20)
        while self.lines.get() is not None:
            pass

    def _next_line(self, statement: str, seconds: float) -> str:
        try:
            line = self.lines.get(timeout=seconds)
        except Empty:
            line = None
        if line is None:
            self.lines.put(None)
            raise HiveError(
                f"beeline ended or hangs: {statement}\n{self.log.read_text(errors='replace')[-3000:]}"
            )
        return line


def start_beeline(command: Sequence[str], directory: Path) -> Beeline:
    """Start `command`, a beeline that reads its script from standard input, in `directory`."""
    log = directory / "beeline.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=directory, text=True
        )
    lines: Queue[str | None] = Queue()

    def pump() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=pump, daemon=True).start()
    return Beeline(process, log, lines)


def run_beeline(
    url: str,
    statements: str,
    *options: str,
    java_options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Beeline as a command that runs statements, each ended by a semicolon; rows are CSV."""
    command = [
        *(f"{find_java_home()}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *java_options,
        *("-cp", f"{install_hive().libraries}/*", "org.apache.hive.beeline.BeeLine", "-u", url, *options),
        *("--silent=true", "--outputformat=csv2", "-e", statements.replace("\n", " ")),
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
