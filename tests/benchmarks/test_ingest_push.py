"""The benchmark of pushes: each of its measurements runs and measures what it says."""

from __future__ import annotations

import pytest

from benchmarks.ingest_push import CLIENTS, as_ndjson, make_rows, measure_log, measure_server


@pytest.mark.parametrize("kind", ["http", "flight"])
def test_pushes_to_a_server_of_its_own_are_measured(kind: str) -> None:
    size = len(as_ndjson(make_rows(10))) / 1_000_000
    measured = measure_server(kind, 10, size * CLIENTS * 2)
    assert measured.megabytes == pytest.approx(size * CLIENTS * 2)
    assert 0 < measured.cpu < 10 * measured.seconds


def test_the_log_is_measured() -> None:
    assert measure_log(10_000, 1).seconds > 0
