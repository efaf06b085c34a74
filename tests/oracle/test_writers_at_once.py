"""Two writers of one version-9 table at once, under Hudi's file-system lock: no row is lost or there twice.

Both insert rows into the same partitions, update rows of the same file groups and delete some: hudisql in two
processes, and hudisql beside Apache Hudi 1.2 with its metadata table. A writer that loses tries again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.metadata_table.metadata_table import find_metadata_table
from tests.oracle.client import BY_METADATA, HudiOracle, OracleError
from tests.oracle.newer_tables import NewerTable, new_table
from tests.oracle.shapes import SHAPES, Shape, noted_rows
from tests.oracle.test_several_writers import SHARED, WAIT_SECONDS

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 6
ROWS = 5
RETRIES = 30
AGAIN = {"hoodie.write.num.retries.on.conflict.failures": str(RETRIES)}
LOST = re.compile("HoodieWriteConflictException|HoodieLockException|Unable to acquire lock")
CHOSEN = [each for each in SHAPES if each.name in ("partitioned", "merge_on_read")]
_PROGRAM = """
import sys
import hudisql
from hudisql.console import SilentConsole
uri, texts = sys.argv[1], sys.argv[2:]
conf = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
with hudisql.connect(metastore=uri, conf=conf, console=SilentConsole()) as session:
    print("begun", flush=True)
    sys.stdin.readline()
    for text in texts:
        session.sql(text)
"""


def _new(first: int, number: int) -> range:
    """The seqs of the rows that a writer, whose are `first` and so on, inserts in a round."""
    return range(first + number * ROWS, first + (number + 1) * ROWS)


def _own(first: int) -> list[int]:
    """The seqs of the rows of the beginning that a writer changes: the other one changes their neighbours."""
    return [seq for seq in range(60) if seq % 2 == (first // 1000) % 2]


def _statements(made: NewerTable, new_rows: Path, first: int, note: str) -> list[str]:
    """What a writer in hudisql does; `new_rows` is a file that has the rows that it inserts."""
    columns = ", ".join(noted_rows(made.shape, 0, 1).column_names)
    texts = []
    for number in range(ROUNDS):
        values = ", ".join(str(seq) for seq in _new(first, number))
        texts += [
            f"INSERT INTO {made.name} ({columns}) SELECT {columns} FROM parquet.`{new_rows}` "
            f"WHERE seq IN ({values})",
            f"UPDATE {made.name} SET note = '{note} {number}' WHERE seq < 50 AND seq IN "
            f"({', '.join(map(str, _own(first)))})",
        ]
    gone = ", ".join(str(seq) for seq in _own(first) if seq >= 50)
    return [*texts, f"DELETE FROM {made.name} WHERE seq IN ({gone})"]


def _expected(first: int, note: str) -> dict[int, str | None]:
    """The notes of the rows that a writer inserts and of those that it changes, but for what it deletes."""
    new: dict[int, str | None] = dict.fromkeys(range(first, first + ROUNDS * ROWS), "new")
    return new | dict.fromkeys((seq for seq in _own(first) if seq < 50), f"{note} {ROUNDS - 1}")


def _by_hudi(made: NewerTable, first: int, note: str) -> None:
    """The same changes by Apache Hudi 1.2, but for the deletes."""
    for number in range(ROUNDS):
        _upsert(made, _new(first, number), "new")
        _upsert(made, [seq for seq in _own(first) if seq < 50], f"{note} {number}")


def _upsert(made: NewerTable, seqs: Collection[int], note: str) -> None:
    rows = noted_rows(made.shape, min(seqs), max(seqs) + 1, note)
    rows = rows.filter(pc.is_in(rows["seq"], pa.array(seqs, rows["seq"].type)))
    for _ in range(RETRIES):
        try:
            return made.oracle.upsert(rows, made.path, made.options(SHARED))
        except OracleError as error:
            if not LOST.search(str(error)):
                raise
    raise AssertionError(f"Apache Hudi lost {RETRIES} times")


def _write_new_rows(made: NewerTable, directory: Path) -> Path:
    """A file with all rows that writers in hudisql insert."""
    ranges = [range(first, first + ROUNDS * ROWS) for first in (1000, 2000)]
    rows = [noted_rows(made.shape, each.start, each.stop, "new") for each in ranges]
    path = directory / "new.parquet"
    pq.write_table(pa.concat_tables(rows), path, coerce_timestamps="us")
    return path


def _process(metastore_uri: str, texts: Sequence[str], log: Path) -> subprocess.Popen[str]:
    """Another hudisql with its session ready, which runs the statements when it is told to."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, metastore_uri, *texts],
            cwd=log.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", log.read_text()[-4000:]
    return process


@pytest.mark.soak
@pytest.mark.parametrize("shape", CHOSEN, ids=lambda shape: shape.name)
@pytest.mark.parametrize("other", ["hudisql", "hudi"])
def test_no_row_is_lost_or_there_twice(
    oracle_120: HudiOracle,
    session: Any,
    metastore_uri: str,
    background: ThreadPoolExecutor,
    tmp_path: Path,
    shape: Shape,
    other: str,
) -> None:
    made = new_table(oracle_120, session, tmp_path, shape, f"at_once_{other}_{shape.name}")
    new_rows = _write_new_rows(made, tmp_path)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in (SHARED | AGAIN).items())
    session.sql(f"ALTER TABLE {made.name} SET TBLPROPERTIES ({listed})")
    first, second = (1000, "ours"), (2000, "theirs")
    if other == "hudi":
        beside: Future[Any] = background.submit(_by_hudi, made, *second)
        expected = {seq: "first" for seq in _own(second[0]) if seq >= 50}
    else:
        process = _process(metastore_uri, _statements(made, new_rows, *second), tmp_path / "log")
        beside = background.submit(process.communicate, "\n", timeout=WAIT_SECONDS)
        expected = {}
    for text in _statements(made, new_rows, *first):
        session.sql(text)
    beside.result(timeout=WAIT_SECONDS)
    if other == "hudisql":
        assert process.returncode == 0, (tmp_path / "log").read_text()[-4000:]
    made.notes = expected | _expected(*first) | _expected(*second)
    made.check()
    assert not made.pending()
    _check_metadata_table(made)
    made.theirs(0, 2, "after")
    made.ours("after", range(2, 4))
    made.check()
    _check_metadata_table(made)


def _check_metadata_table(made: NewerTable) -> None:
    """It lists what the storage has, and Apache Hudi loses no row by it."""
    metadata = find_metadata_table(made.opened())
    assert metadata.is_current
    assert [found for found in compare_listings(metadata) if found.differs] == []
    for note in {*made.notes.values()}:
        found = made.oracle.read(made.path, options=BY_METADATA, where=f"note = '{note}' AND seq >= 0")
        assert sorted(found["seq"].to_pylist()) == sorted(
            seq for seq, each in made.notes.items() if each == note
        )
    whole = made.oracle.read(made.path, options=BY_METADATA)
    assert sorted(whole["seq"].to_pylist()) == sorted(made.notes)
