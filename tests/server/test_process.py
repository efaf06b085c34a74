"""`hudisql serve` as a process: it starts, serves, and ends by a signal when its statements have ended."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]
START_SECONDS = 240


def serve_command(directory: Path, metastore_uri: str, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "hudisql", "--metastore", metastore_uri, "--master", "local[1]"),
        *("--warehouse", str(directory), "serve", "--port", str(port), "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    ]


def catches(pid: int, number: signal.Signals) -> bool:
    """True if a process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.findall(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_a_signal_while_spark_starts_ends_the_server_before_it_takes_clients(
    tmp_path: Path, metastore_uri: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = serve_command(tmp_path, metastore_uri, port)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.1)
    while time.monotonic() < deadline and not catches(process.pid, signal.SIGTERM):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, said
    assert "SIGTERM: stopping" in said
    assert "hudisql serves on" not in said


@contextmanager
def running_server(directory: Path, metastore_uri: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server as a process of its own, and its port."""
    command = serve_command(directory, metastore_uri, 0)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=directory)
    killer = threading.Timer(START_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stderr is not None
        listening = next(line for line in process.stderr if "hudisql serves on" in line)
        yield process, int(re.findall(r":(\d+)$", listening.strip())[0])
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_running_statement_end(
    tmp_path: Path, metastore_uri: str, number: signal.Signals
) -> None:
    from pyhive import hive

    with running_server(tmp_path, metastore_uri) as (process, port):
        with closing(hive.connect("127.0.0.1", port)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(
                "SELECT id, java_method('java.lang.Thread', 'sleep', 1500L) FROM range(1)", async_=True
            )
            process.send_signal(number)
            assert cursor.fetchall() == [(0, "null")]
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert f"{number.name}: stopping" in process.stderr.read()
