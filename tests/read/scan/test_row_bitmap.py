from __future__ import annotations

import numpy as np
import pytest

from hudisql.read.scan import row_bitmap
from hudisql.read.scan.row_bitmap import FileRows, RowBitmap, row_bitmap_of


def _positions(bitmap: RowBitmap, file: FileRows) -> list[int]:
    """The rows of the file that the bitmap has, by the look-up that its docstring says."""
    rows = np.arange(file.row_count)
    first = bitmap.first_words[file.length % len(bitmap.first_words)]
    words = bitmap.words.view(np.uint64)[first + (rows >> 6)]
    return rows[(words >> (rows & 63).astype(np.uint64)) & np.uint64(1) == 1].tolist()


def _file(length: int, rows: int, positions: list[int]) -> FileRows:
    return FileRows(length, rows, np.array(positions, np.int64))


def test_each_file_has_its_own_rows_and_no_others() -> None:
    random = np.random.default_rng(7)
    lengths = random.choice(10**9, 300, replace=False)
    files = [_file(1000, 0, []), _file(2000, 64, [0, 63]), _file(2064, 65, [64]), _file(3000, 1, [])]
    for length in lengths.tolist():
        rows = int(random.integers(1, 300))
        files.append(_file(length + 10_000, rows, sorted(set(random.integers(0, rows, 5).tolist()))))
    bitmap = row_bitmap_of(files)
    assert bitmap is not None
    for each in files:
        assert _positions(bitmap, each) == each.positions.tolist()


def test_files_that_a_bitmap_cannot_tell_apart_or_hold_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_bitmap_of([_file(5, 10, [1]), _file(5, 10, [2])]) is None
    files = [_file(5, 640, [1]), _file(6, 640, [2])]
    assert row_bitmap_of(files) is not None
    monkeypatch.setattr(row_bitmap, "MOST_WORDS", 19)
    assert row_bitmap_of(files) is None
