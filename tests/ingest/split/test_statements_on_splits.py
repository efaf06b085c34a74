"""SQL statements and table services on partitions that are split: a key is never in two file groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.sync import sync_table
from hudisql.format import table_properties as keys
from tests.ingest.split.test_split_partitions import SMALL, model_of, split_all, split_of
from tests.ingest.test_table_feed import TODAY, Fed, event, events
from tests.opened import open_at

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_statements_and_services_leave_the_buckets_as_they_are(session: Any, tmp_path: Path) -> None:
    fed = Fed(tmp_path / "t", keys.MERGE_ON_READ, split_limits=SMALL, split="now")
    session.sql("CREATE DATABASE IF NOT EXISTS split_db")
    sync_table(session.context.metastore, open_at(fed.path), "split_db", "t")
    fed.flush(*events(range(1_000), 1))
    assert split_all(fed) == 1
    split = split_of(fed)
    assert split is not None
    # 1,000 to 1,099 are keys that logs alone have.
    fed.flush(*events(range(900, 1_100), 2))
    model = {**dict.fromkeys(range(1_000), 1), **dict.fromkeys(range(900, 1_100), 2)}
    session.sql(
        "MERGE INTO split_db.t t USING (SELECT explode(sequence(1050, 1149)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET ts = 3 WHEN NOT MATCHED THEN INSERT (id, name, ts, dt) "
        f"VALUES (s.id, 'm', 3, '{TODAY}')"
    )
    session.sql("DELETE FROM split_db.t WHERE id IN (3, 1007)")
    model.update(dict.fromkeys(range(1_050, 1_150), 3))
    del model[3], model[1_007]
    assert model_of(fed) == model
    # The rows that MERGE inserted are in a file group of its own, and found there.
    fed.flush(*events(range(1_100, 1_160), 4), event(1_101, 5, _hoodie_is_deleted=True), event(3, 4))
    model.update({**dict.fromkeys(range(1_100, 1_160), 4), 3: 4})
    del model[1_101]
    assert model_of(fed) == model
    for call in (
        "CALL run_compaction(op => 'schedule', table => 'split_db.t', options => "
        "'hoodie.compact.inline.max.delta.commits=1')",
        "CALL run_compaction(op => 'run', table => 'split_db.t')",
        "CALL run_clustering(table => 'split_db.t')",
    ):
        session.sql(call)
    assert model_of(fed) == model
    after = split_of(fed)
    assert after is not None
    assert after.file_ids == split.file_ids
    shown = session.sql("CALL show_ingest_partitions(table => 'split_db.t')").rows
    assert [tuple(row)[:3] for row in shown] == [(f"dt={TODAY}", split.instant_time, split.buckets)]
    fed.flush(*events(range(0, 1_200, 10), 6))
    model.update(dict.fromkeys(range(0, 1_200, 10), 6))
    assert model_of(fed) == model
