"""A process beside a worker compacts its tables while the worker goes on writing them."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hudisql.cli.compaction_process import CompactionProcess
from hudisql.config.settings import Settings
from hudisql.console import PlainConsole
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError
from hudisql.format.timeline.instant import COMMIT
from hudisql.service_process.ingest.run_ingest import WorkerOptions, run_worker
from hudisql.table.files.snapshot import load_file_slices
from tests.ingest.fed_tables import STORAGE, FedTable, FedTables
from tests.processes import wait_for

pytestmark = [pytest.mark.hms, pytest.mark.kafka]


def compactions(table: FedTable) -> list[str]:
    return [each.timestamp for each in table.table.timeline.completed if each.action == COMMIT]


@pytest.mark.soak
def test_tables_are_compacted_beside_the_worker(
    tables: FedTables, metastore_uri: str, tmp_path: Path
) -> None:
    table = tables.make("compacted", partitions=1, flush_seconds=0.1, compaction="worker")
    other = tables.make("not_compacted", partitions=1, flush_seconds=0.1)
    stream, stop = io.StringIO(), threading.Event()
    console = PlainConsole(stream)
    context = Context(None, table.client, STORAGE, console=console)  # type: ignore[arg-type]
    settings = Settings(metastore=metastore_uri, warehouse=str(tmp_path / "warehouse"))
    process = CompactionProcess(settings, console, share=1.0)
    with ThreadPoolExecutor(1) as pool, closing(process):
        options = WorkerOptions(group="compacting", compact=process.request, refresh_seconds=0.2)
        worker = pool.submit(run_worker, context, stop, options)
        try:
            rounds, began = 0, time.monotonic()
            while not (rounds > 6 and compactions(table)) and time.monotonic() - began < 120:
                for each in (table, other):
                    each.produce(range(rounds, rounds + 20), deleted=range(rounds - 1, rounds))
                wait_for(lambda: table.offsets().offsets == table.ends(), stream.getvalue())
                rounds += 1
        finally:
            stop.set()
        assert worker.result(60), stream.getvalue()
    assert compactions(table), stream.getvalue()
    assert "WARNING" not in stream.getvalue()
    assert not compactions(other)
    for each in (table, other):
        each.check()
    instants = {each.base_file.instant_time for each in load_file_slices(table.table) if each.base_file}
    assert instants & set(compactions(table))


@pytest.mark.parametrize("share", [0, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidArgumentError, match="share of a core"):
        CompactionProcess(Settings(), PlainConsole(), share)
