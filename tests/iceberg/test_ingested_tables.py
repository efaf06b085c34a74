"""Commits of an ingest worker are published, by its background syncs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.iceberg.readers import check_history, check_shown, duckdb_rows, metadata_of, shown_file
from tests.ingest.broker import KafkaBroker
from tests.processes import wait_for
from tests.service_process.ingest.test_run_ingest import (
    committed,
    declare,
    events,
    keys,
    make_table,
    running_worker,
)

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kafka, pytest.mark.soak]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_worker_publishes_its_commits_and_the_entry_follows(
    session: Any, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(type(session.context.console), "warning", lambda _, text: warnings.append(text))
    session.sql("CREATE DATABASE IF NOT EXISTS ingest_db")
    topic, table = f"published_{kind}", f"ingest_db.published_{kind}"
    make_table(session, table, kind)
    session.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('hudisql.iceberg.sync' = 'true', "
        "'hoodie.cleaner.commits.retained' = '1', 'hoodie.keep.min.commits' = '2', "
        "'hoodie.keep.max.commits' = '4')"
    )
    session.sql(f"CALL sync_iceberg(table => '{table}', register => true)")
    broker.create_topic(topic, 2)
    declare(session, table, topic, broker, "flush_seconds => 0.2, compaction => 'worker'")
    entry = session.context.metastore.get_table("ingest_db", topic)
    path = str(entry.location.removeprefix("file:"))
    with running_worker(session):
        for number in range(6):
            ids = range(number * 5, number * 5 + 30)
            broker.produce(topic, events(ids, number), keys(ids))
            wait_for(lambda: sum(committed(session, table).values()) == 30 * (number + 1))  # noqa: B023
    assert warnings == []
    check_shown(session, table, path)
    snapshots = [snapshot["snapshot-id"] for snapshot in metadata_of(path)["snapshots"]]
    assert snapshots == check_history(
        path, {each: duckdb_rows(shown_file(path), snapshot=each) for each in snapshots}
    )
    entry = session.context.metastore.get_table("ingest_db", f"{topic}_iceberg")
    assert entry.parameters["metadata_location"] == shown_file(path)
    session.sql(f"CALL drop_ingest(table => '{table}')")
    session.sql("DROP DATABASE ingest_db CASCADE")
