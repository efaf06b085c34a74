"""Partitions that an ingest worker has split into hash buckets: Apache Hudi reads and writes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format import table_properties as keys
from tests.ingest.split.test_split_partitions import PARTITION, SMALL, model_of, split_all
from tests.ingest.test_table_feed import SCHEMA, TODAY, Fed, event, events
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.line_process import LineProcess
from tests.soak import parameters
from tests.write.crashed_commits import crash

pytestmark = [pytest.mark.oracle]


def options_of(kind: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }


def read(oracle: HudiOracle, fed: Fed) -> dict[int, int]:
    rows = oracle.read(fed.path)
    ids, times = rows["id"].to_pylist(), rows["ts"].to_pylist()
    assert len(ids) == len(set(ids)), sorted({each for each in ids if ids.count(each) > 1})[:20]
    return dict(zip(ids, times, strict=True))


def upsert(oracle: HudiOracle, fed: Fed, kind: str, numbers: range, ts: int, **more: str) -> None:
    rows = [{"id": each, "name": "hudi", "ts": ts, "dt": TODAY} for each in numbers]
    oracle.upsert(pa.Table.from_pylist(rows, SCHEMA), fed.path, {**options_of(kind), **more})


BUCKET_INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
KINDS = parameters([keys.COPY_ON_WRITE, keys.MERGE_ON_READ], in_ci=[keys.MERGE_ON_READ])


def split_table(path: Path, kind: str) -> tuple[Fed, dict[int, int]]:
    """A table that is split and was written to since, keys that only log files have among them."""
    fed = Fed(path, kind, split_limits=SMALL, split="now")
    fed.flush(*events(range(2_000), 1))
    assert split_all(fed) == 1
    fed.flush(*events(range(1_900, 2_100), 2), event(5, 3, _hoodie_is_deleted=True))
    model = {**dict.fromkeys(range(2_000), 1), **dict.fromkeys(range(1_900, 2_100), 2)}
    del model[5]
    return fed, model


@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_split_partitions_and_changes_their_rows(
    tmp_path: Path, kind: str, oracle_015: HudiOracle, oracle_120: HudiOracle
) -> None:
    fed, model = split_table(tmp_path, kind)
    for oracle in (oracle_015, oracle_120):
        assert read(oracle, fed) == model
    # Its bucket index finds keys that only log files have, too.
    upsert(oracle_015, fed, kind, range(2_090, 2_110), 4, **BUCKET_INDEX)
    model.update(dict.fromkeys(range(2_090, 2_110), 4))
    assert read(oracle_015, fed) == model == model_of(fed)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [keys.COPY_ON_WRITE, keys.MERGE_ON_READ])
def test_keys_that_hudi_puts_anywhere_are_found_and_moved(
    tmp_path: Path, kind: str, oracle_015: HudiOracle, oracle_120: HudiOracle
) -> None:
    fed, model = split_table(tmp_path, kind)
    # Its default index finds the keys of base files, and puts new ones into whichever file is small.
    upsert(oracle_015, fed, kind, range(3_000, 3_060), 5)
    upsert(oracle_015, fed, kind, range(10, 20), 5)
    model.update(dict.fromkeys([*range(3_000, 3_060), *range(10, 20)], 5))
    assert read(oracle_015, fed) == model
    fed.flush(*events(range(3_000, 3_100), 6))
    model.update(dict.fromkeys(range(3_000, 3_100), 6))
    assert model_of(fed) == model
    assert split_all(fed) == 1
    assert read(oracle_120, fed) == model
    # Keys that only logs have it takes for new ones: the next split joins the rows of each key.
    fed.flush(*events(range(4_000, 4_020), 7))
    upsert(oracle_015, fed, kind, range(4_000, 4_020), 8)
    fed.flush(*events(range(100), 9))
    split_all(fed)
    model.update({**dict.fromkeys(range(4_000, 4_020), 8), **dict.fromkeys(range(100), 9)})
    assert model_of(fed) == model
    assert read(oracle_015, fed) == model


@pytest.mark.soak
def test_hudi_reads_the_table_as_before_while_a_split_is_pending(
    tmp_path: Path, committer: LineProcess, oracle_015: HudiOracle, oracle_120: HudiOracle
) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=SMALL)
    fed.flush(*events(range(1_000), 1))
    fed.flush(*events(range(900, 1_100), 2))
    model = model_of(fed)
    told = {"action": "split", "partition": PARTITION, "bucket_bytes": SMALL.bucket_bytes}
    assert crash(committer, fed.path, 10, **told)
    assert open_at(fed.path).timeline.pending
    for oracle in (oracle_015, oracle_120):
        assert read(oracle, fed) == model
