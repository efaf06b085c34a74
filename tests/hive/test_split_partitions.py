"""Partitions that an ingest worker has split into hash buckets: what Hive reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.sync import sync_table
from hudisql.format import table_properties as keys
from tests.hive.engines import ask_beeline, assert_rows
from tests.ingest.split.test_split_partitions import SMALL, split_all, split_of
from tests.ingest.test_table_feed import TODAY, Fed, event, events
from tests.opened import open_at

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]


def test_hive_reads_split_partitions_with_keys_that_only_logs_have(
    session: Any, hive_server: Any, tmp_path: Path
) -> None:
    fed = Fed(tmp_path / "t", keys.MERGE_ON_READ, split_limits=SMALL, split="now")
    session.sql("CREATE DATABASE IF NOT EXISTS split_hive")
    fed.flush(*events(range(1_000), 1))
    assert split_all(fed) == 1
    split = split_of(fed)
    assert split is not None
    assert split.buckets > 1
    sync_table(session.context.metastore, open_at(fed.path), "split_hive", "t")
    ask = ask_beeline(hive_server)
    query = "SELECT dt, count(*) AS n, count(DISTINCT id) AS k, sum(ts) AS s FROM split_hive.{} GROUP BY dt"
    assert_rows(ask(query.format("t_ro")), [(TODAY, 1_000, 1_000, 1_000)])
    fed.flush(*events(range(900, 1_100), 2), event(5, 3, _hoodie_is_deleted=True))
    assert_rows(ask(query.format("t_ro")), [(TODAY, 1_000, 1_000, 1_000)])
    assert_rows(ask(query.format("t_rt")), [(TODAY, 1_099, 1_099, 899 + 400)])
