from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.process_tree import (
    ProcessTimes,
    parse_stat,
    peak_resident_bytes,
    started_clock,
    tree_members,
)

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_a_stat_line_is_read_whatever_the_command_is_called() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    line = (
        f"7 (a) b (c)) S 3 7 7 0 -1 4194304 0 0 0 0 {ticks} {2 * ticks} {3 * ticks} {4 * ticks} 20 0 1 0 44 1"
    )
    assert parse_stat(line) == ProcessTimes(parent=3, seconds=3.0, began=44)


def test_a_tree_is_the_root_and_all_below_it() -> None:
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 3, 9: 8}
    processes = {pid: ProcessTimes(parent, 0.0) for pid, parent in parents.items()}
    assert tree_members(processes, 2) == {2, 3, 5}
    assert tree_members(processes, 77) == set()


@pytest.mark.parametrize("reaped", [True, False])
def test_children_are_counted_when_they_have_ended_too(reaped: bool) -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        f"signal.signal(signal.SIGCHLD, signal.{'SIG_DFL' if reaped else 'SIG_IGN'})\n"
        f"subprocess.call([sys.executable, '-c', {BURN!r}])\n"
        f"code = {BURN + 'print(flush=True)' + chr(10) + 'time.sleep(600)'!r}\n"
        "living = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
        "living.stdout.readline()\n"
        "print('ready', flush=True)\nsys.stdin.read()\nliving.kill()\nliving.wait()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    clock = started_clock(child.pid)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        seconds, peak = clock.seconds(), peak_resident_bytes(child.pid)
        assert child.stdin is not None
        child.stdin.close()
    assert clock.seconds() >= seconds, "time that was counted is gone with its process"
    clock.stop()
    # Each burns 0.3 seconds; the last 50 ms before its end may be unseen.
    assert 0.5 <= seconds < 10
    assert peak > 1_000_000


_LOOKS = """
import os, time
from benchmarks.process_tree import started_clock
clock = started_clock(os.getpid())
counted, used = clock.seconds(), time.process_time()
time.sleep(1)
print(clock.seconds() - counted, time.process_time() - used)
clock.stop()
"""


def test_what_the_looks_take_is_left_out() -> None:
    # A process of its own: threads that other tests have left work beside it.
    ran = subprocess.run([sys.executable, "-c", _LOOKS], capture_output=True, text=True, check=True)
    counted, used = map(float, ran.stdout.split())
    assert counted < used / 2
