"""The order in which tables are served, what a failing one costs the others, and how the loop ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hudisql.console import SilentConsole
from hudisql.errors import StorageError
from hudisql.services.schedule.due_services import Service, ServiceState
from hudisql.services.schedule.service_loop import MaintainedTable, ServiceLoop, TableLook


class Lines(SilentConsole):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.infos: list[str] = []
        self.warnings: list[str] = []

    def info(self, text: str) -> None:
        self.infos.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


@dataclass
class Table:
    """A table with services that are due until they have run."""

    name: str
    due: list[Service]
    log: list[str]
    run_one: Callable[[Service], str | None] = lambda _: "done"
    has_effect: bool = True
    looks: int = 0
    broken: bool = False
    running: list[int] = field(default_factory=lambda: [0, 0])

    def look(self) -> TableLook:
        self.looks += 1
        if self.broken:
            raise StorageError("the disk is broken", hint="mend it")
        states = tuple(ServiceState(each, each in self.due, f"{each} needed") for each in Service)
        return TableLook(len(self.due) + 1, states)

    def run(self, service: Service) -> str | None:
        self.log.append(f"{self.name} {service}")
        done = self.run_one(service)
        if self.has_effect:
            self.due.remove(service)
        return done


def _loop(*tables: MaintainedTable, **settings: Any) -> tuple[ServiceLoop, Lines]:
    console = Lines()
    stop = settings.pop("stop", threading.Event())
    given = {"cancel": lambda: None, "parallelism": 1, **settings}
    return ServiceLoop(lambda: tables, console, stop, **given), console


def test_the_most_urgent_service_of_all_tables_runs_first() -> None:
    log: list[str] = []
    one = Table("a", [Service.CLUSTERING, Service.CLEAN], log)
    two = Table("b", [Service.ARCHIVE, Service.ROLLBACK, Service.COMPACTION], log)
    loop, console = _loop(one, two)
    assert loop.run_once()
    assert log == ["b rollback", "b compaction", "a clean", "b archive", "a clustering"]
    assert console.infos[0].startswith("b: rollback (rollback needed): done, in ")
    assert console.warnings == []


def test_a_table_has_one_service_at_a_time_and_so_many_tables_are_served_at_once() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    both = threading.Barrier(2, timeout=10)
    at_work: set[str] = set()

    def serve(name: str) -> Callable[[Service], str]:
        def run(service: Service) -> str:
            with lock:
                assert name not in at_work
                at_work.add(name)
                now[0] += 1
                most[0] = max(most[0], now[0])
            if service is Service.ROLLBACK and name in ("a", "b"):
                both.wait()
            with lock:
                at_work.remove(name)
                now[0] -= 1
            return "done"

        return run

    log: list[str] = []
    tables = [Table(name, list(Service), log, serve(name)) for name in "abcd"]
    loop, _ = _loop(*tables, parallelism=2)
    assert loop.run_once()
    assert (most[0], len(log)) == (2, 4 * len(Service))


def test_a_failure_is_told_and_the_others_go_on() -> None:
    def fail(service: Service) -> str:
        if service is Service.COMPACTION:
            raise StorageError("a log file is gone", hint="restore it")
        return "done"

    log: list[str] = []
    broken = Table("a", [Service.COMPACTION, Service.CLEAN], log, fail)
    absent = Table("b", [Service.CLEAN], log, broken=True)
    whole = Table("c", [Service.ARCHIVE], log)
    loop, console = _loop(broken, absent, whole)
    assert not loop.run_once()
    assert log == ["a compaction", "a clean", "c archive"]
    assert sorted(console.warnings) == [
        "a: compaction failed: a log file is gone (restore it)",
        "b: look failed: the disk is broken (mend it)",
    ]


def test_a_service_that_failed_is_tried_again_after_a_time_that_doubles() -> None:
    now, stop, attempts = [0.0], threading.Event(), list[float]()

    def fail(_: Service) -> str:
        attempts.append(now[0])
        raise ValueError("no")

    class Waiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0
            if now[0] > 1000:
                self.set()
            return self.is_set()

    stop = Waiting()
    table = Table("a", [Service.CLEAN], [], fail)
    loop, console = _loop(table, stop=stop, clock=lambda: now[0], interval=10.0)
    loop.run()
    assert attempts == [0, 10, 30, 70, 150, 310, 630]
    assert console.warnings[2] == "a: clean failed: ValueError: no; the next attempt is in 40 s"


def test_what_had_no_effect_is_not_repeated_until_the_table_changes() -> None:
    table = Table("a", [Service.CLEAN], [], lambda _: None, has_effect=False)
    loop, console = _loop(table)
    assert loop.run_once()
    assert loop.run_once()
    assert (table.log, console.infos) == (["a clean"], [])
    table.due.append(Service.ARCHIVE)
    loop.run_once()
    assert table.log == ["a clean", "a clean", "a archive"]


def test_after_a_stop_nothing_begins_and_what_runs_is_cancelled() -> None:
    stop, cancelled = threading.Event(), threading.Event()

    def wait_for_the_end(_: Service) -> str:
        stop.set()
        assert cancelled.wait(10)
        raise RuntimeError("the job was cancelled")

    log: list[str] = []
    tables = [Table(name, [Service.COMPACTION, Service.CLEAN], log, wait_for_the_end) for name in "ab"]
    loop, console = _loop(*tables, stop=stop, cancel=cancelled.set)
    loop.run()
    assert log == ["a compaction"]
    assert console.infos == ["a: the compaction was stopped; the next run repeats it"]
    assert console.warnings == []


def test_a_long_service_holds_up_no_other_table() -> None:
    stop, other_ran, log = threading.Event(), threading.Event(), list[str]()

    def end_the_other(_: Service) -> str:
        other_ran.set()
        return "done"

    other = Table("b", [], log, end_the_other)

    def take_long(_: Service) -> str:
        other.due.append(Service.CLEAN)
        assert other_ran.wait(10)
        stop.set()
        return "done"

    loop, _ = _loop(
        Table("a", [Service.COMPACTION], log, take_long), other, stop=stop, interval=0.01, parallelism=2
    )
    loop.run()
    assert log == ["a compaction", "b clean"]
