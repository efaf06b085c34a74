"""Keeps Spark's Python workers from collecting garbage over their loaded modules after every task.

PySpark's daemon runs a full collection when a task ends. With pyarrow, pandas and numba loaded that costs a
tenth of a CPU second, more than a small file's own work. Modules stay for good, so they are taken out of the
collector's sight once they are loaded. Knows neither Spark nor Hudi.
"""

from __future__ import annotations

import gc
import sys

_frozen_modules = 0


def freeze_loaded_modules() -> None:
    """Leave what is loaded out of later collections; to be called where a task has done its work."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        _frozen_modules = len(sys.modules)
        # What is garbage now would otherwise stay for good, too.
        gc.collect()
        gc.freeze()
