from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
from hudisql.spark.task_heap import freeze_loaded_modules

assert gc.get_freeze_count() == 0
freeze_loaded_modules()
first = gc.get_freeze_count()
assert first > 1000, first
tracked_after = [[] for _ in range(1000)]
freeze_loaded_modules()
assert gc.get_freeze_count() <= first, "frozen twice without new modules"
import decimal, xml.dom.minidom
freeze_loaded_modules()
assert gc.get_freeze_count() > first, "new modules left to the collector"
"""


def test_loaded_modules_are_frozen_once_and_again_only_when_more_are_loaded() -> None:
    # In a process of its own: frozen objects stay frozen.
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
