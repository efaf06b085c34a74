"""Hive's lock on a table, in a real metastore that has the tables for locks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore
from hudisql.catalog.metastore_lock import MetastoreLock
from hudisql.errors import MetastoreError, TableLockedError, WriteConflictError
from hudisql.ingest.push.leases import LeaseOwnership
from hudisql.write.transaction.lock import LockRetryPolicy, hold_lock

pytestmark = pytest.mark.hms

BRIEFLY = LockRetryPolicy(retries=1, wait_ms=50)


@pytest.fixture(scope="module")
def uri_without_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A metastore without the tables of Hive's transactions, as one that creates its own schema."""
    options = ["-Dderby.system.durability=test", "-Dhudisql.without.locks=true"]
    with acquire_embedded_metastore(tmp_path_factory.mktemp("locks"), java_options=options) as metastore:
        yield metastore.uri


def test_one_client_at_a_time_has_the_lock_on_a_table(metastore_uri: str) -> None:
    with MetastoreClient(metastore_uri) as one, MetastoreClient(metastore_uri) as other:
        mine, theirs = MetastoreLock(one, "db", "t"), MetastoreLock(other, "DB", "T")
        with hold_lock(mine, BRIEFLY) as held:
            held.check()
            with pytest.raises(TableLockedError, match=r"DB\.T"), hold_lock(theirs, BRIEFLY):
                pass
            with hold_lock(MetastoreLock(other, "db", "u"), BRIEFLY):
                pass
        with hold_lock(theirs, BRIEFLY) as held:
            held.check()
            assert not mine.is_held()


def test_a_lock_that_the_metastore_dropped_is_noticed(metastore_uri: str) -> None:
    with MetastoreClient(metastore_uri) as client:
        lock = MetastoreLock(client, "db", "dropped")
        with hold_lock(lock, BRIEFLY) as held:
            assert lock._id is not None
            client.unlock(lock._id)
            client.unlock(lock._id)
            with pytest.raises(WriteConflictError, match=r"db\.dropped"):
                held.check()


def test_a_metastore_without_tables_for_locks_says_what_to_do(uri_without_locks: str) -> None:
    with MetastoreClient(uri_without_locks) as client:
        with pytest.raises(MetastoreError, match="FileSystemBasedLockProvider") as raised:
            MetastoreLock(client, "db", "t").try_lock(0)
        assert "schematool" in str(raised.value)
        leases = LeaseOwnership(client, "a", {}, lambda: (), print)
        with pytest.raises(MetastoreError, match="--sole-worker"):
            leases.owned({})
