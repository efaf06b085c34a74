"""Batches that are read at once, as long as they are few: rows may be far larger than their files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def few_batches(batches: Iterable[pa.RecordBatch], most_bytes: int) -> list[pa.RecordBatch] | None:
    """All batches; None as soon as they have more than `most_bytes` in memory."""
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            return None
    return found
