"""Processes that write to one table at the same time, and are killed and stopped as they do; without Spark.

Each commit inserts a row of its own and adds one to the counter of its partition, so that a commit that was
lost, made twice or built on an outdated state shows in the rows. Clean, archiving and, on merge-on-read
tables, compaction run after commits as they do after statements. Run as a program, it is one writer.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.config.config_key import HudiConfig
from hudisql.errors import HudisqlError, WriteConflictError
from hudisql.format import table_properties as keys
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.options.writer_settings import write_options_by
from hudisql.services.schedule.automatic import AutomaticServices
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.new_table import NewTable, publish_new_table
from hudisql.write.execution.commit_files import commit_files
from hudisql.write.execution.driver_upsert import upsert_on_driver, with_keys
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit
from tests.fault_injection import ROOT
from tests.opened import open_at
from tests.oracle.comparison import our_rows
from tests.oracle.line_process import LineProcess, start_line_process

SCHEMA = pa.schema([("id", pa.string()), ("count", pa.int64()), ("dt", pa.string())])
COUNTER = "counter"
PARTITIONS = ("a", "b")
SERVICES = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
}
"""As often as they can be."""


def make_table(path: Path, table_type: str, version: int) -> None:
    """A table whose rows are the counters, since two optimistic writers may both insert a key."""
    others = {keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, "t")}
    new = NewTable("t", "d", table_type, ("id",), ("dt",), others=others, version=version)
    publish_new_table(Storage(), str(path), new, datetime.now(UTC))
    rows = [{"id": COUNTER, "count": 0, "dt": partition} for partition in PARTITIONS]
    write_rows(open_at(path), rows, WriteOptions())


def write_rows(
    table: HudiTable,
    rows: Sequence[Mapping[str, object]],
    options: WriteOptions,
    changed: Collection[FileGroup] = (),
) -> None:
    """Upsert the rows in one commit; `changed` are the file groups of which rows were read for it."""
    paths = PartitionPaths(table)
    batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], SCHEMA)
    keyed = pa.Table.from_batches([with_keys(batch, table, options, paths)[0]])

    def write(commit: OpenCommit) -> list[WrittenFile]:
        return upsert_on_driver(commit, options, paths, keyed)

    commit_files(table, "UPSERT", table.schema, write, concurrency=options.concurrency, changed=changed)


def add_one(path: str, row_id: str, partition: str, settings: Mapping[str, str]) -> None:
    """One statement: a new row, and the partition's counter as it was read plus one; then what is due."""
    config = HudiConfig(lambda name, default: settings.get(name, default))
    table = open_at(path)
    counters = our_rows(table).filter((pc.field("id") == COUNTER) & (pc.field("dt") == partition))
    (counter,) = counters.to_pylist()
    rows = [
        {"id": row_id, "count": 0, "dt": partition},
        {"id": COUNTER, "count": counter["count"] + 1, "dt": partition},
    ]
    group = counter["_hoodie_partition_path"], counter["_hoodie_file_name"].split("_")[0]
    write_rows(table, rows, write_options_by(config, table), [group])


def run_services(path: str, settings: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """What is due after a commit."""
    config = HudiConfig(lambda name, default: settings.get(name, default))
    table = open_at(path)
    options = partial(write_options_by, config, table)
    AutomaticServices(table, config, options, warn, "t").run(None)  # type: ignore[arg-type]


def _write(path: str, log: str, name: str, settings: Mapping[str, str], commits: int) -> None:
    """Commit until so many commits were acknowledged; each line of the log is an event and the row's id."""
    done, launcher = 0, os.getppid()
    with Path(log).open("a", buffering=1) as events:

        def warn(text: str) -> None:
            events.write(f"warned {text.splitlines()[0]}\n")

        for number in range(sys.maxsize):
            if os.getppid() != launcher:
                return
            row_id = f"{name}-{os.getpid()}-{number}"
            try:
                add_one(path, row_id, random.choice(PARTITIONS), settings)
            except WriteConflictError:
                events.write(f"refused {row_id}\n")
                time.sleep(random.uniform(0, 0.1))
                continue
            except HudisqlError as error:
                # Such as a file that a clean has deleted while this writer was stopped.
                events.write(f"failed {row_id}\n")
                events.write(f"error {type(error).__name__} {error.message.splitlines()[0]}\n")
                continue
            events.write(f"acknowledged {row_id}\n")
            run_services(path, settings, warn)
            done += 1
            if done >= commits:
                return


@dataclass
class Writers:
    """The processes of one table; `log` tells what they have done, `launcher` is that of `start_launcher`."""

    launcher: LineProcess
    path: Path
    log: Path
    settings: Mapping[str, str] = field(default_factory=lambda: SERVICES)
    commits: int = sys.maxsize
    running: dict[int, int] = field(default_factory=dict)
    kills: int = 0
    stops: int = 0

    def start(self, number: int) -> None:
        """Start a writer, or start it again."""
        told = [str(self.path), str(self.log), f"w{number}", dict(self.settings), self.commits]
        self.running[number] = self.launcher.request({"start": told}, seconds=300)["process"]

    def disturb(self, chance: random.Random) -> None:
        """Kill a writer, or stop it for a while."""
        number = chance.choice(list(self.running))
        process = self.running[number]
        if chance.random() < 0.5:
            self.kills += 1
            os.kill(process, signal.SIGKILL)
            # It stays a zombie until then.
            time.sleep(chance.uniform(0, 0.3))
            self._code(process)
            self.start(number)
            return
        self.stops += 1
        os.kill(process, signal.SIGSTOP)
        time.sleep(chance.uniform(0.01, 1.5))
        os.kill(process, signal.SIGCONT)

    def wait(self) -> None:
        """Until all have ended by themselves."""
        processes = list(self.running.values())
        self.running.clear()
        assert [self._code(process) for process in processes] == [0] * len(processes)

    def end(self) -> None:
        """Kill all of them."""
        for process in self.running.values():
            os.kill(process, signal.SIGKILL)
            self._code(process)

    def _code(self, process: int) -> int:
        return int(self.launcher.request({"wait": process}, seconds=600)["code"])

    def check(self) -> Counter[str]:
        """Every acknowledged commit is there exactly once, no refused one is; gives the counts of events."""
        lines = [line.partition(" ")[::2] for line in self.log.read_text().splitlines()]
        acknowledged = {row_id for event, row_id in lines if event == "acknowledged"}
        refused = {row_id for event, row_id in lines if event == "refused"}
        rows = our_rows(open_at(self.path))
        ids = Counter(zip(rows["id"].to_pylist(), rows["dt"].to_pylist(), strict=True))
        assert [each for each, count in ids.items() if count > 1] == []
        present = {row_id for row_id, _ in ids if row_id != COUNTER}
        assert acknowledged - present == set()
        assert refused & present == set()
        for row in rows.filter(pc.field("id") == COUNTER).to_pylist():
            assert row["count"] == sum(dt == row["dt"] for row_id, dt in ids if row_id != COUNTER)
        counts = Counter(event for event, _ in lines)
        counts.update(unknown=len(present - acknowledged), kills=self.kills, stops=self.stops)
        return counts


def start_launcher(directory: Path) -> LineProcess:
    """A process that has imported all that writers need, and forks them: a start costs milliseconds."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return start_line_process("launcher", [sys.executable, "-m", __name__], directory, environment)


def _answer(start: list[Any] | None = None, wait: int = 0) -> dict[str, int]:
    if start is None:
        return {"code": os.waitstatus_to_exitcode(os.waitpid(wait, 0)[1])}
    child = os.fork()
    if not child:
        code = 1
        try:
            _write(*start)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return {"process": child}


def _import_what_commits_import(directory: Path) -> None:
    """By a child, so that this process has no thread when it forks."""
    child = os.fork()
    names = directory / "modules"
    if not child:
        for version in (6, 9):
            path = directory / f"imports{version}"
            make_table(path, keys.MERGE_ON_READ, version)
            for number in range(8):
                add_one(str(path), str(number), "a", SERVICES)
                run_services(str(path), SERVICES, lambda _: None)
        names.write_text("\n".join(sorted(sys.modules)))
        os._exit(0)
    os.waitpid(child, 0)
    for name in names.read_text().splitlines():
        with suppress(Exception):
            import_module(name)


if __name__ == "__main__":
    _import_what_commits_import(Path.cwd())
    for line in sys.stdin:
        print(json.dumps({"ok": True, **_answer(**json.loads(line))}), flush=True)
