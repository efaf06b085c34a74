"""Syncs beside the commits of a worker."""

from __future__ import annotations

import threading
from functools import partial

from hudisql.catalog.client import MetastoreClient
from hudisql.console import SilentConsole
from hudisql.errors import SyncFailedError
from hudisql.service_process.ingest.background_syncs import BackgroundSyncs

SECONDS = 30


class Warned(SilentConsole):
    """Keeps warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def background_syncs(console: Warned | None = None) -> BackgroundSyncs:
    """No sync here asks the metastore anything."""
    return BackgroundSyncs(MetastoreClient("thrift://127.0.0.1:1"), console or Warned())


def test_commits_before_a_tables_turn_are_synced_once_and_one_at_a_time() -> None:
    syncs, began, go = background_syncs(), threading.Event(), threading.Event()
    done: list[int] = []

    def first(_client: MetastoreClient) -> None:
        began.set()
        assert go.wait(SECONDS)
        done.append(0)

    syncs.submit("s.t", first)
    assert began.wait(SECONDS)

    def append(number: int, _client: MetastoreClient) -> None:
        done.append(number)

    for number in (1, 2, 3):
        syncs.submit("s.t", partial(append, number))
    syncs.submit("s.other", partial(append, 9))
    syncs.settle(["s.other"])
    assert done == [9]
    go.set()
    syncs.settle({"s.t"})
    assert done == [9, 0, 3]
    syncs.close()


def test_a_sync_that_fails_is_a_warning_and_the_next_one_runs() -> None:
    console = Warned()
    syncs, done = background_syncs(console), []

    def fail(error: Exception) -> None:
        raise error

    syncs.submit("s.t", lambda _client: fail(SyncFailedError("the entry could not follow")))
    syncs.settle({"s.t"})
    syncs.submit("s.t", lambda _client: fail(OSError("no route")))
    syncs.settle({"s.t"})
    syncs.submit("s.t", lambda _client: done.append(True))
    syncs.close()
    assert done == [True]
    assert console.warnings == [
        "s.t: the entry could not follow; the next commit syncs again",
        "s.t: the sync with the metastore failed: no route; the next commit syncs again",
    ]


def test_a_console_that_fails_leaves_no_table_busy() -> None:
    class Broken(Warned):
        def warning(self, text: str) -> None:
            raise BrokenPipeError(text)

    syncs = background_syncs(Broken())

    def fail(_client: MetastoreClient) -> None:
        raise OSError("no route")

    syncs.submit("s.t", fail)
    syncs.close()


def test_threads_have_connections_of_their_own() -> None:
    syncs, together = background_syncs(), threading.Barrier(2)
    clients: set[MetastoreClient] = set()

    def sync(client: MetastoreClient) -> None:
        together.wait(SECONDS)
        clients.add(client)

    syncs.submit("s.a", sync)
    syncs.submit("s.b", sync)
    syncs.close()
    assert len(clients) == 2
