"""`CALL resync_bootstrap`: new source files become one commit, and files that changed or went are named."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    RepeatedKeysError,
    SourceError,
    WriteRefusedError,
)
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def resync(call, name, **more):
    """The rows of a call by their status; the total last."""
    return call("resync_bootstrap", table=name, **more)


def total(rows):
    assert rows[-1]["status"] == "TOTAL"
    return rows[-1]


def ids(session, name, where="true"):
    return [row[0] for row in session.sql(f"SELECT id FROM {name} WHERE {where} ORDER BY id").rows]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_new_files_are_taken_once(call, session, bootstrap, daily_orders, name, kind):
    bootstrap(table_type=kind)
    assert "no new files" in total(resync(call, name))["detail"]
    write_parquet(daily_orders / "dt=2024-03-02" / "late.parquet", orders(900))
    write_parquet(daily_orders / "dt=2024-03-03" / "a.parquet", orders(1000))
    write_parquet(daily_orders / "dt=2024-03-03" / "b.parquet", orders(1100, 5))
    before = fingerprint(daily_orders)

    planned = resync(call, name, dry_run=True)
    assert [(row["partition"], row["status"], row["files"], row["rows"]) for row in planned[:-1]] == [
        ("dt=2024-03-02", "new", 1, 20),
        ("dt=2024-03-03", "new", 2, 25),
    ]
    assert "would be taken" in total(planned)["detail"]
    assert len(ids(session, name)) == 80

    taken = resync(call, name)
    assert total(taken)["detail"] == "3 new files taken: 45 rows inserted, 0 updated; 0 changed, 0 gone"
    assert total(taken)["instant"]
    assert len(ids(session, name)) == 125
    assert len(ids(session, name, "dt = '2024-03-03'")) == 25
    shown = [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows]
    assert shown == ["dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-03"]

    again = resync(call, name)
    assert len(again) == 1
    assert total(again)["detail"] == "no new files: nothing was done; 0 changed, 0 gone"
    assert len(ids(session, name)) == 125
    session.sql(f"UPDATE {name} SET amount = -1 WHERE id IN ('k00900', 'k00001')")
    assert ids(session, name, "amount = -1") == ["k00001", "k00900"]
    assert fingerprint(daily_orders) == before
    verified = call("verify_bootstrap", table=name, level="full")
    assert [row["finding"] for row in verified] == ["SUMMARY"]
