"""Batches collected up to a limit: rows may be far larger in memory than in their files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def few_batches(batches: Iterable[pa.RecordBatch], most_bytes: int) -> list[pa.RecordBatch] | None:
    """All batches; None as soon as they take more than `most_bytes` of memory."""
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            return None
    return found
