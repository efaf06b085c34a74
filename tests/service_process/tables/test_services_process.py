"""`hudisql services run` as a process that a signal ends, and what the next run makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hudisql.service_process.tables.run_services import ServedTables, run_services
from tests.fault_injection import ROOT, wait_for_late_tasks
from tests.processes import wait_for
from tests.soak import parameters
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

# The command on the suite's warm JVM; a task that begins a file waits until a second one does.
_PROGRAM = """
import os, sys
from pyspark import cloudpickle
from tests import fault_injection
cloudpickle.register_pickle_by_value(fault_injection)
fault_injection._attach()
from hudisql.service_process.tables import run_services
target, barrier = sys.argv[1:3]
run_services.storage_without_spark = lambda _: fault_injection.FaultyStorage(
    target=target, process="task", fault="barrier", barrier=barrier)
from hudisql.cli.main import app
try:
    app(sys.argv[3:])
except SystemExit as end:
    sys.stderr.flush()
    os._exit(end.code or 0)
"""


@pytest.mark.parametrize("number", parameters([signal.SIGTERM, signal.SIGKILL], in_ci=["SIGKILL"]))
def test_a_compaction_that_a_signal_ends_is_completed_by_the_next_run(
    session: Any, merge_on_read_table: ChangedTable, tmp_path: Path, number: signal.Signals
) -> None:
    table = merge_on_read_table
    table.run("DELETE FROM {t} WHERE id = 'k00'")
    session.sql(
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('hoodie.compact.inline.max.delta.commits' = '1')"
    )
    rows = table.rows()
    barrier = tmp_path / "barrier"
    barrier.mkdir()
    heartbeats = Path(table.path, ".hoodie", ".heartbeat")
    with _process(session.spark, table, barrier) as process:
        wait_for(lambda: process.poll() is not None or any(barrier.iterdir()), seconds=90)
        assert process.poll() is None, process.communicate()
        (worker,) = [each.name for each in barrier.iterdir()]
        (plan,) = session.sql(f"CALL show_compaction('{table.name}')").rows
        assert plan.state == "INFLIGHT"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    if number is signal.SIGTERM:
        assert process.returncode == 130, said
        assert "SIGTERM: stopping" in said
        assert f"{table.name}: the compaction was stopped; the next run repeats it" in said
        (plan,) = session.sql(f"CALL show_compaction('{table.name}')").rows
        assert plan.state == "REQUESTED"
        assert table.orphans() == []
        assert not any(heartbeats.glob("*"))
        # Spark kills the worker of a cancelled task after two seconds.
        wait_for(lambda: not Path("/proc", worker).exists(), seconds=90)
    else:
        assert process.returncode == -signal.SIGKILL
        for beat in heartbeats.iterdir():
            os.utime(beat, (0, 0))
    (barrier / "released").touch()
    wait_for_late_tasks(session.spark)
    assert table.rows() == rows
    assert run_services(session.context, ServedTables((table.name,)), threading.Event(), once=True)
    assert [row.state for row in session.sql(f"CALL show_compaction('{table.name}')").rows] == ["COMPLETED"]
    assert table.orphans() == []
    assert table.rows() == rows


@contextmanager
def _process(spark: Any, table: ChangedTable, barrier: Path) -> Iterator[subprocess.Popen[str]]:
    gateway = spark.sparkContext._gateway.gateway_parameters
    environment = {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
        "PYTHONPATH": str(ROOT),
    }
    arguments = [table.path, str(barrier), "services", "run", "--once", "--table", table.name]
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env=environment,
        cwd=barrier.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
