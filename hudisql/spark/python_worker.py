"""Inside Spark's Python workers: the check that a task got all of its rows, and less garbage collection.

Spark ends the input of a Python worker whose task is killed (speculation, a cancelled job, a lost executor)
by closing its socket, which for pyarrow is the end of the rows. After complete rows Spark always writes more
bytes into the socket: an input without bytes behind it was cut short.

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
    """Pass on the batches of a `mapInArrow` task, or the items of an RDD's; to be called in the task itself.

    Raises StorageError if the rows were cut short. Before PySpark 4.0 truncated batches of another Python
    function end as if they were complete; the files of that attempt are then found as those of a discarded
    attempt.
    """
    stream = _worker_input()
    yield from batches
    if stream is not None and not stream.peek(1):
        raise StorageError("Spark stopped this attempt of a task before it had all its rows")


def _worker_input() -> Any:
    """The stream that PySpark's worker reads, which is passed to its `main` as `infile`.

    None outside of a worker, or if PySpark has another name for it; a truncated input is then not detected.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        stream = frame.f_locals.get("infile")
        if frame.f_code.co_name in ("main", "worker") and hasattr(stream, "peek"):
            return stream
        frame = frame.f_back
    return None


def freeze_loaded_modules() -> None:
    """Exclude loaded modules from later collections; to be called at the end of a task."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        _frozen_modules = len(sys.modules)
        # Otherwise present garbage would never be freed.
        gc.collect()
        gc.freeze()
