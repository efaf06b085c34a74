"""`hudisql serve` as a process: it starts, serves, and ends by a signal when its statements have ended."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]
START_SECONDS = 240


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_running_statement_end(
    tmp_path: Path, metastore_uri: str, number: signal.Signals
) -> None:
    from pyhive import hive

    command = [
        *(sys.executable, "-m", "hudisql", "--metastore", metastore_uri, "--master", "local[1]"),
        *("--warehouse", str(tmp_path), "serve", "--port", "0", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    killer = threading.Timer(START_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stderr is not None
        listening = next(line for line in process.stderr if "hudisql serves on" in line)
        port = int(re.findall(r":(\d+)$", listening.strip())[0])
        with closing(hive.connect("127.0.0.1", port)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(
                "SELECT id, java_method('java.lang.Thread', 'sleep', 1500L) FROM range(1)", async_=True
            )
            process.send_signal(number)
            assert cursor.fetchall() == [(0, "null")]
        assert process.wait(60) == 0
        assert f"{number.name}: stopping" in process.stderr.read()
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
