"""What change logs hold of a row."""

from __future__ import annotations

from enum import StrEnum


class ChangeLogMode(StrEnum):
    """Hudi's `HoodieCDCSupplementalLoggingMode`: both images, the one before, or the record key alone."""

    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    DATA_BEFORE = "DATA_BEFORE"
    OP_KEY_ONLY = "OP_KEY_ONLY"
