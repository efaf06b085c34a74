from __future__ import annotations

import subprocess
import sys

import pytest

from hudisql.format.paths.external_file import is_same_time, utc_text


@pytest.mark.parametrize(
    ("recorded", "found", "is_same"),
    [
        (1_700_000_000_123, 1_700_000_000_123, True),
        (1_700_000_000_123, 1_700_000_000_124, False),
        (1_700_000_000_123, 1_700_000_000_000, True),  # S3's headers have whole seconds, its listings more
        (1_700_000_000_000, 1_700_000_000_999, True),
        (1_700_000_000_000, 1_700_000_001_000, False),
        (1_700_000_000_999, 1_700_000_001_000, False),
        (0, 1_700_000_000_123, True),  # an index that holds no time
    ],
)
def test_times_are_compared_as_exactly_as_stores_keep_them(recorded: int, found: int, is_same: bool) -> None:
    assert is_same_time(recorded, found) is is_same


def test_a_time_is_shown_in_utc() -> None:
    assert utc_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


def test_tasks_that_know_external_files_alone_load_no_avro_reader() -> None:
    code = "import sys, hudisql.bootstrap.files.skeleton; assert 'fastavro' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
