"""The bootstrap source file that a skeleton points to, as the bootstrap index records it (RFC-12).

A separate module, so that tasks which need only this value do not load the index's Avro and HFile readers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A bootstrap source file, with the length (bytes) and mtime (epoch ms) the bootstrap index recorded."""

    path: str
    length: int
    modification_time_ms: int


def is_same_time(recorded_ms: int, found_ms: int) -> bool:
    """True if a file's modification time (epoch ms) is the one recorded of it.

    Indexes of other writers may have no time; some stores keep only whole seconds.
    """
    if recorded_ms <= 0 or recorded_ms == found_ms:
        return True
    in_seconds = recorded_ms % 1000 == 0 or found_ms % 1000 == 0
    return in_seconds and recorded_ms // 1000 == found_ms // 1000


def utc_text(epoch_ms: int) -> str:
    """A time as messages show it, such as 2024-03-01T12:00:00.000Z."""
    return f"{np.datetime64(epoch_ms, 'ms')}Z"
