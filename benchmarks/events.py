"""The second table that is measured: events whose record key is a random UUID, the costliest key to keep.

Such keys do not compress and come in no order, so that the ranges of all files overlap. Made by pyarrow from
a fixed seed, with types that every reader gets right.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

KEY_COLUMNS = ("event_id",)
PRECOMBINE_COLUMN = "event_time"
ROWS_PER_SCALE_FACTOR = 6_000_000
_SEED = 4
_FIRST_EVENT_MS = 1_700_000_000_000
_KINDS = ("created", "paid", "packed", "shipped", "returned")
_TEXT_BYTES = 36
# Where the hexadecimal digits stand in a UUID's text.
_DIGIT_PLACES = np.array([place for place in range(_TEXT_BYTES) if place not in (8, 13, 18, 23)])


def make_events(directory: Path, *, scale_factor: float, files: int) -> Path:
    """Return the directory with the events in `files` files; kept from run to run."""
    target = directory / f"events-sf{scale_factor:g}-{files}"
    if not (target / "_SUCCESS").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        random = np.random.default_rng(_SEED)
        rows = round(ROWS_PER_SCALE_FACTOR * scale_factor)
        bounds = [rows * number // files for number in range(files + 1)]
        for number, (first, end) in enumerate(pairwise(bounds)):
            events = _make_rows(random, first, end - first)
            # No Arrow schema in the footer, and the format version of Spark's own files.
            pq.write_table(events, target / f"part-{number:05d}.parquet", version="1.0", store_schema=False)
        (target / "_SUCCESS").touch()
    return target


def uuid_texts(random: np.random.Generator, rows: int) -> pa.StringArray:
    """Random UUIDs (version 4) as text."""
    values = random.integers(0, 256, (rows, 16), dtype=np.uint8)
    values[:, 6] = values[:, 6] & 0x0F | 0x40
    values[:, 8] = values[:, 8] & 0x3F | 0x80
    text = np.full((rows, _TEXT_BYTES), ord("-"), dtype=np.uint8)
    text[:, _DIGIT_PLACES] = _hexadecimal(values)
    offsets = np.arange(0, (rows + 1) * _TEXT_BYTES, _TEXT_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def _hexadecimal(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    halves = np.stack([values >> 4, values & 0x0F], axis=2).reshape(len(values), -1)
    return np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[halves]


def _make_rows(random: np.random.Generator, first: int, rows: int) -> pa.Table:
    kinds = pa.DictionaryArray.from_arrays(random.integers(0, len(_KINDS), rows, dtype=np.int32), _KINDS)
    return pa.table(
        {
            "event_id": uuid_texts(random, rows),
            "event_time": pa.array(_FIRST_EVENT_MS + np.arange(first, first + rows, dtype=np.int64)),
            "kind": kinds.cast(pa.string()),
            "amount": pa.array(random.integers(1, 1_000_000, rows, dtype=np.int64)),
        }
    )
