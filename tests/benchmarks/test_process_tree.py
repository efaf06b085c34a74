from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.process_tree import (
    ProcessTimes,
    parse_stat,
    peak_resident_bytes,
    tree_cpu_seconds,
    tree_members,
)

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_a_stat_line_is_read_whatever_the_command_is_called() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    line = f"7 (a) b (c)) S 3 7 7 0 -1 4194304 0 0 0 0 {ticks} {2 * ticks} {3 * ticks} {4 * ticks} 20 0 1 0"
    assert parse_stat(line) == ProcessTimes(parent=3, seconds=10.0)


def test_a_tree_is_the_root_and_all_below_it() -> None:
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 3, 9: 8}
    processes = {pid: ProcessTimes(parent, 0.0) for pid, parent in parents.items()}
    assert tree_members(processes, 2) == {2, 3, 5}
    assert tree_members(processes, 77) == set()


def test_living_and_reaped_children_are_counted() -> None:
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {BURN!r}])\n"
        f"living = subprocess.Popen([sys.executable, '-c', {BURN + 'time.sleep(60)'!r}])\n"
        "time.sleep(0.1)\nprint('ready', flush=True)\nsys.stdin.read()\nliving.kill()\nliving.wait()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while tree_cpu_seconds(child.pid) < 0.6 and time.monotonic() < deadline:
            time.sleep(0.05)
        seconds, peak = tree_cpu_seconds(child.pid), peak_resident_bytes(child.pid)
        assert child.stdin is not None
        child.stdin.close()
    assert 0.6 <= seconds < 10
    assert peak > 1_000_000
