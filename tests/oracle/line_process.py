"""A child process that answers requests: one line of JSON in, one out.

Waiting has an end: a child that dies or hangs is an error that carries the end of its log.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.processes import wait_or_kill


class ChildError(AssertionError):
    """The child refused, failed, died or hangs; the message is its own."""


@dataclass
class LineProcess:
    """A running child; make one with `start_line_process`. `directory` is its working directory and has
    its log.
    """

    name: str
    process: subprocess.Popen[str]
    directory: Path
    answers: Queue[str | None]

    def request(self, message: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Send one message and wait for its answer. Raises ChildError."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=seconds)
        except Empty:
            self.process.kill()
            raise ChildError(f"{self.name} did not answer in {seconds} s\n{self._log_end()}") from None
        except BrokenPipeError:
            line = None
        if line is None:
            self.answers.put(None)
            raise ChildError(f"{self.name} ended ({self.process.wait()})\n{self._log_end()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise ChildError(f"{self.name}: {answer['error']}\n{answer['trace']}")
        return answer

    def close(self) -> None:
        """End the child: it stops by itself when its input ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        wait_or_kill(self.process, 30)
        while self.answers.get() is not None:
            pass

    def _log_end(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]


def start_line_process(
    name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> LineProcess:
    """Start `command` in `directory`; what it says on standard error goes to `directory/log`."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=directory,
            env=dict(environment),
            text=True,
        )
    return LineProcess(name, process, directory, _lines_of(process))


def _lines_of(process: subprocess.Popen[str]) -> Queue[str | None]:
    """The child's answers as a queue (so that waiting can time out); None is its end."""
    lines: Queue[str | None] = Queue()

    def pump() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=pump, daemon=True).start()
    return lines
