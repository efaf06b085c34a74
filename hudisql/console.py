"""Output of everything that is not a result: notes, warnings and progress. Always standard error.

One protocol with several implementations: a terminal (rich's live bars), plain lines (CI, log files), JSON
lines and silence. Other modules call the protocol and never print. This module does not know Spark or SQL.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TextIO

_LINE_SECONDS = 5.0


class Progress(Protocol):
    """The progress of a running piece of work."""

    def advance(self, units: float = 1, detail: str = "") -> None:
        """Report that `units` more are done; `detail` replaces the text beside the bar (rows/s, bytes …)."""


class Console(Protocol):
    """Shows notes, warnings and progress to the user, apart from the results."""

    def info(self, text: str) -> None:
        """Show a note."""

    def warning(self, text: str) -> None:
        """Show a warning: the user should act, although the statement goes on."""

    def progress(self, label: str, total_units: float | None) -> AbstractContextManager[Progress]:
        """Show the progress of work of `total_units` (None: unknown) while the context is open."""


class _SilentProgress:
    def advance(self, units: float = 1, detail: str = "") -> None:
        """Ignore it."""


class SilentConsole:
    """Ignores everything (`-S`, library use)."""

    def info(self, text: str) -> None:
        """Ignore it."""

    def warning(self, text: str) -> None:
        """Ignore it."""

    @contextmanager
    def progress(self, label: str, total_units: float | None) -> Iterator[Progress]:  # noqa: ARG002
        """Ignore it."""
        yield _SilentProgress()


@dataclass
class DistinctWarnings:
    """Passes each distinct warning to another console once, for work that may be retried."""

    console: Console
    given: set[str] = field(default_factory=set)

    def info(self, text: str) -> None:
        """Pass a note on."""
        self.console.info(text)

    def warning(self, text: str) -> None:
        """Pass a warning on, unless it was given before."""
        if text not in self.given:
            self.given.add(text)
            self.console.warning(text)

    def progress(self, label: str, total_units: float | None) -> AbstractContextManager[Progress]:
        """The console's own progress."""
        return self.console.progress(label, total_units)


@dataclass
class PlainConsole:
    """One line at a time, for logs: progress every few seconds and when it ends.

    A line that cannot be written (disk full, reader gone) is dropped, and the work goes on.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    seconds_between_lines: float = _LINE_SECONDS

    def info(self, text: str) -> None:
        """A note on a line of its own."""
        with suppress(OSError):
            print(text, file=self.stream, flush=True)

    def warning(self, text: str) -> None:
        """A warning on a line of its own."""
        self.info(f"WARNING: {text}")

    @contextmanager
    def progress(self, label: str, total_units: float | None) -> Iterator[Progress]:
        """A line every few seconds, and a last one with the time it took."""
        running = _LineProgress(self, label, total_units)
        yield running
        running.finish()


@dataclass
class JsonConsole(PlainConsole):
    """One JSON object a line for log collectors: `time`, `level`, `event` and further fields."""

    def info(self, text: str) -> None:
        """A note, as `message`."""
        self.record("note", {"message": text})

    def warning(self, text: str) -> None:
        """A warning, as `message`."""
        self.record("warning", {"message": text}, level="warning")

    def record(self, event: str, fields: Mapping[str, object], *, level: str = "info") -> None:
        """A line with these fields."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "event": event, **fields}, ensure_ascii=False)
        super().info(line)


@dataclass
class _LineProgress:
    console: PlainConsole
    label: str
    total: float | None
    done: float = 0
    detail: str = ""
    started: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)

    def advance(self, units: float = 1, detail: str = "") -> None:
        """Count, and print when a line is due."""
        self.done += units
        self.detail = detail or self.detail
        now = time.monotonic()
        if now - self.last_line >= self.console.seconds_between_lines:
            self.last_line = now
            self.console.info(self._line() + self._time_left(now))

    def finish(self) -> None:
        """The last line."""
        now = time.monotonic()
        self.console.info(f"{self._line()} in {now - self.started:.1f} s")

    def _line(self) -> str:
        total = "" if self.total is None else f"/{self.total:g}"
        return f"{self.label}: {self.done:g}{total}" + (f" ({self.detail})" if self.detail else "")

    def _time_left(self, now: float) -> str:
        if not self.total or not self.done or self.done >= self.total:
            return ""
        return f", {(now - self.started) / self.done * (self.total - self.done):.0f} s left"


class TerminalConsole:
    """Colours and live progress bars on a terminal, on standard error."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole

        self._console = RichConsole(stderr=True, highlight=False)
        self._shown = 0

    @property
    def shown_progress(self) -> int:
        """How many bars are shown now."""
        return self._shown

    def info(self, text: str) -> None:
        """A note."""
        self._console.print(text, markup=False)

    def warning(self, text: str) -> None:
        """A warning in yellow."""
        self._console.print(f"WARNING: {text}", style="yellow", markup=False)

    @contextmanager
    def progress(self, label: str, total_units: float | None) -> Iterator[Progress]:
        """A live bar that goes away when the work ends, leaving one line."""
        started = time.monotonic()
        with self.live_progress(label, total_units) as running:
            yield running
        self.info(f"{label}: {running.done:g} in {time.monotonic() - started:.1f} s")

    @contextmanager
    def live_progress(self, label: str, total_units: float | None = 0) -> Iterator[BarProgress]:
        """A live bar that goes away when the work ends, leaving nothing."""
        from rich import progress as rich_progress

        bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[detail]}"),
            rich_progress.TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._shown += 1
        try:
            with bar:
                yield BarProgress(bar, bar.add_task(label, total=total_units, detail=""), total_units)
        finally:
            self._shown -= 1

    @contextmanager
    def spinner(self, label: str) -> Iterator[None]:
        """A spinner with the time that goes by; it leaves nothing."""
        from rich import progress as rich_progress

        spinner = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.TextColumn("{task.description}"),
            rich_progress.TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._shown += 1
        try:
            with spinner:
                spinner.add_task(label, total=None)
                yield
        finally:
            self._shown -= 1


class BarProgress:
    """Progress shown as a live bar: `done` of `total` units."""

    def __init__(self, bar: object, task: object, total_units: float | None) -> None:
        self._bar = bar
        self._task = task
        self._total = total_units
        self.done = 0.0

    def expect(self, units: float) -> None:
        """Add `units` to the total."""
        self._total = (self._total or 0) + units
        self._bar.update(self._task, total=self._total)  # type: ignore[attr-defined]

    def advance(self, units: float = 1, detail: str = "") -> None:
        """Move the bar."""
        self.done += units
        changes = {"detail": detail} if detail else {}
        self._bar.update(self._task, advance=units, **changes)  # type: ignore[attr-defined]


def open_console(*, silent: bool = False) -> Console:
    """The console for this process: silent if requested, live bars on a terminal, plain lines elsewhere."""
    if silent:
        return SilentConsole()
    return TerminalConsole() if sys.stderr.isatty() else PlainConsole(sys.stderr)
