"""Inside Spark's Python workers: whether a task got all of its rows, and less garbage collection.

Spark ends the input of a Python worker whose task is killed (speculation, a cancelled job, a lost executor)
by closing its socket, and pyarrow takes that for the end of the rows. After rows that are complete Spark
always writes more into the socket: an input that ends with nothing behind it was cut short.

PySpark's daemon runs a full collection when a task ends. With pyarrow, pandas and numba loaded that costs a
tenth of a CPU second, more than a small file's own work. Modules are never unloaded, so they are left out of
later collections. Knows nothing of Hudi.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, TypeVar

from hudisql.errors import StorageError

_Batch = TypeVar("_Batch")
_frozen_modules = 0


def complete_input(batches: Iterable[_Batch]) -> Iterator[_Batch]:
    """Pass the batches of a task of `mapInArrow` on; to be called in the task itself.

    Raises StorageError if the rows were cut short. Before PySpark 4.0 batches of another Python function that
    were cut short end as if they were complete; the files of the attempt are then found as those of an
    attempt that does not count.
    """
    stream = _worker_input()
    yield from batches
    if stream is not None and not stream.peek(1):
        raise StorageError("Spark stopped this attempt of a task before it had all its rows")


def _worker_input() -> Any:
    """The stream that PySpark's worker reads, which is passed to its `main` as `infile`.

    None outside of a worker, or where a PySpark calls it otherwise: an input that is cut short then goes
    unnoticed.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        stream = frame.f_locals.get("infile")
        if frame.f_code.co_name in ("main", "worker") and hasattr(stream, "peek"):
            return stream
        frame = frame.f_back
    return None


def freeze_loaded_modules() -> None:
    """Leave what is loaded out of later collections; to be called where a task has done its work."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        _frozen_modules = len(sys.modules)
        # What is garbage now would otherwise stay for good, too.
        gc.collect()
        gc.freeze()
