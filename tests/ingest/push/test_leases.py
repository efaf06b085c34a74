"""Leases in a real metastore: who has a table, and what becomes of it when a worker dies or comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_lock import lock_name
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.ownership import DeclaredName
from hudisql.ingest.push.leases import LeaseOwnership, lease_holders

pytestmark = pytest.mark.hms

NEVER = 1e6


@dataclass
class Table:
    name: str
    declaration: IngestDeclaration = field(default_factory=lambda: IngestDeclaration(source="push"))


@dataclass
class Worker:
    """A worker whose looks are made by the test."""

    leases: LeaseOwnership
    client: MetastoreClient
    names: list[str]
    in_log: set[str]
    given_up: list[tuple[str, bool]] = field(default_factory=list)
    has: set[str] = field(default_factory=set)

    def look(self) -> set[str]:
        """What it owns after one more look."""
        self.leases.look()
        return self.owned()

    def owned(self) -> set[str]:
        tables: dict[str, DeclaredName] = {name: Table(name) for name in self.names}
        self.has = self.leases.owned(tables)
        return self.has

    def hand_over(self, is_left: object, commits: bool) -> None:
        assert callable(is_left)
        self.given_up += [(name, commits) for name in sorted(self.has) if is_left(name)]


@pytest.fixture
def make(metastore_uri: str) -> Iterator[object]:
    with ExitStack() as resources:

        def start(identity: str, names: list[str], *in_log: str, serves: bool = True) -> Worker:
            client = resources.enter_context(MetastoreClient(metastore_uri))
            addresses = {"http": f"http://{identity}:1"} if serves else {}
            held = set(in_log)
            leases = LeaseOwnership(client, identity, addresses, lambda: held, print, NEVER)
            worker = Worker(leases, client, names, held)
            leases.hand_over = worker.hand_over
            resources.callback(leases.close)
            return worker

        yield start


def test_workers_share_tables_and_know_each_others(make: object) -> None:
    assert callable(make)
    names = [f"lease.t{number}" for number in range(5)]
    one, other = make("one", names), make("other", names)
    assert one.owned() == set(names)
    assert other.owned() == set()
    assert other.leases.owner(names[0]) == {"http": "http://one:1"}
    assert one.look() == set(names[:3])
    assert one.given_up == [(names[3], True), (names[4], True)]
    assert other.look() == set(names[3:])
    assert one.look() == set(names[:3])
    everyones = {name: f"http://{'one' if name in names[:3] else 'other'}:1" for name in names}
    assert lease_holders(other.client) == everyones
    one.leases.close()
    assert set(lease_holders(other.client)) == set(names[3:])
    assert other.look() == set(names)
    assert other.leases.owner(names[0]) is None


def test_tables_of_a_worker_that_does_not_look_any_more_go_to_others(make: object) -> None:
    assert callable(make)
    names = ["lease.dead"]
    dead, other = make("dead", names), make("heir", names)
    assert dead.owned() == set(names)
    looks = [other.owned(), *(other.look() for _ in range(5))]
    assert looks == [set(), set(), set(), set(), set(names), set(names)]
    assert dead.look() == set()
    assert dead.given_up == [(names[0], False)]
    assert dead.leases.owner(names[0]) == {"http": "http://heir:1"}
    assert other.look() == set(names)


def test_a_worker_that_starts_again_with_its_log_does_not_wait_for_its_old_leases(make: object) -> None:
    assert callable(make)
    names = ["lease.again"]
    assert make("same", names).owned() == set(names)
    assert make("same", names).owned() == set(names)


def test_a_log_with_rows_of_a_table_gets_it_from_its_owner(make: object) -> None:
    assert callable(make)
    names = ["lease.left"]
    owner = make("owner", names)
    assert owner.owned() == set(names)
    late = make("late", names, names[0], serves=False)
    assert late.owned() == set()
    assert not late.leases.is_settled
    assert owner.look() == set()
    assert owner.given_up == [(names[0], True)]
    late.leases.look()
    assert not late.leases.is_settled
    assert late.owned() == set(names)
    assert late.leases.is_settled
    assert owner.look() == set()
    late.in_log.clear()
    assert late.look() == set()
    assert owner.look() == set(names)


def test_a_name_that_the_metastore_cannot_hold_is_hashed() -> None:
    assert lock_name("Lake.Trips") == "lake.trips"
    assert len(lock_name(f"lake.{'t' * 200}")) == 64
