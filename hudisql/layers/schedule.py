"""Runs a graph of work in a bounded number of threads: each piece after those that it needs.

Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

Piece = tuple[str, str]
"""A kind of work, and a name."""


@dataclass
class Schedule:
    """`needs` has the pieces in their preferred order, each with those it depends on.

    `work` runs one and returns whether it succeeded; `skip` is called for each piece that depends on a failed
    one, with that one. After `is_stopping` returns true, no piece starts.
    """

    needs: Mapping[Piece, Collection[Piece]]
    work: Callable[[Piece], bool]
    skip: Callable[[Piece, Piece], None]
    parallelism: int
    is_stopping: Callable[[], bool]
    _ended: dict[Piece, bool] = field(default_factory=dict)

    def run(self) -> bool:
        """Run all pieces; True if each of them ran and succeeded."""
        running: dict[Future[bool], Piece] = {}
        with ThreadPoolExecutor(self.parallelism, thread_name_prefix="hudisql-run") as threads:
            while True:
                self._begin(threads, running)
                if not running:
                    return len(self._ended) == len(self.needs) and all(self._ended.values())
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    self._ended[running.pop(done)] = done.result()

    def _begin(self, threads: ThreadPoolExecutor, running: dict[Future[bool], Piece]) -> None:
        waiting = [need for need in self.needs if need not in self._ended and need not in running.values()]
        for piece in waiting:
            failed = next((need for need in self.needs[piece] if self._ended.get(need) is False), None)
            if failed is not None:
                self._ended[piece] = False
                self.skip(piece, failed)
            elif self._may_begin(piece) and len(running) < self.parallelism and not self.is_stopping():
                running[threads.submit(self.work, piece)] = piece

    def _may_begin(self, piece: Piece) -> bool:
        return all(self._ended.get(need, False) for need in self.needs[piece])
