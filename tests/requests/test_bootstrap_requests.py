"""The requests that a bootstrap on S3 sends for each source file, by its driver and its tasks."""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import open_table
from tests.requests.counted_requests import LISTINGS, counted_requests
from tests.requests.wide_tables import write_wide_source
from tests.storage.servers import BUCKET, S3Request

pytestmark = [pytest.mark.spark, pytest.mark.hms]
PARTITIONS, ROWS = 4, 50
# Both tables are bootstrapped by as many tasks, so that the difference is what a file costs.
TASKS, FEWER, MORE = 8, 40, 120
# Longer than the end of a file that is read for its footer: the key column is another request.
PAYLOAD_BYTES = 4_000


@pytest.fixture
def context(spark: Any, metastore_uri: str, storage: Storage) -> Iterator[Context]:
    with MetastoreClient(metastore_uri) as metastore:
        yield Context(spark, metastore, storage)


def write_source(storage: Storage, root: str, files: int, *, payload_bytes: int, keys_overlap: bool) -> None:
    """The files, each with its own range of keys or all in one range."""
    payload = [np.random.default_rng(row).bytes(payload_bytes) for row in range(ROWS)]
    for number in range(files):
        content = io.BytesIO()
        rows = files * ROWS
        ids = range(number, rows, files) if keys_overlap else range(number * ROWS, number * ROWS + ROWS)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "payload": payload}), content)
        partition = number * PARTITIONS // files
        path = join(root, f"dt=2024-03-0{partition + 1}", f"part-{number}.parquet")
        storage.write(path, content.getvalue())


def requests_per_file(
    context: Context,
    requests: list[S3Request],
    *,
    verify: bool = False,
    payload_bytes: int = PAYLOAD_BYTES,
    keys_overlap: bool = False,
) -> dict[str, float]:
    """What a further file of a bootstrap, or of the verification of one, sends, by kind."""
    counts = []
    for files in (FEWER, MORE):
        root = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
        source, target = join(root, "source"), join(root, "t")
        write_source(context.storage, source, files, payload_bytes=payload_bytes, keys_overlap=keys_overlap)
        request = BootstrapRequest(
            database="db",
            name="t",
            record_key=("id",),
            source_path=source,
            target_path=target,
            sync=False,
            parallelism=TASKS,
        )
        requests.clear()
        result = run_bootstrap(context, plan_bootstrap(context, request))
        assert sum(partition.files for partition in result.partitions) == files
        if verify:
            requests.clear()
            verified = verify_bootstrap(context, open_table(context.storage, target), VerifyLevel.SAMPLE)
            assert (verified.files, verified.is_good) == (files, True)
        counts.append(Counter(sent.kind for sent in requests))
    fewer, more = counts
    return {kind: (more[kind] - fewer[kind]) / (MORE - FEWER) for kind in more | fewer}


def check_requests(per_file: dict[str, float], expected: dict[str, int]) -> None:
    """Looks at the lease are listings and go by time: `test_target_lease` has their number."""
    assert per_file.pop("LIST", 0) <= 1
    assert {kind: round(count) for kind, count in per_file.items() if round(count)} == expected
    assert sum(per_file.values()) == pytest.approx(sum(expected.values()), abs=0.2), per_file


def test_a_file_costs_its_footer_twice_its_keys_and_a_put(
    context: Context, requests: list[S3Request]
) -> None:
    check_requests(requests_per_file(context, requests), {"GET": 3, "PUT": 1})


def test_a_small_file_is_read_whole_for_its_footer(context: Context, requests: list[S3Request]) -> None:
    check_requests(requests_per_file(context, requests, payload_bytes=10), {"GET": 2, "PUT": 1})


@pytest.mark.soak
def test_keys_that_overlap_cost_a_request_more(context: Context, requests: list[S3Request]) -> None:
    check_requests(requests_per_file(context, requests, keys_overlap=True), {"GET": 4, "PUT": 1})


@pytest.mark.soak
def test_a_verified_file_costs_both_footers(context: Context, requests: list[S3Request]) -> None:
    check_requests(requests_per_file(context, requests, verify=True), {"GET": 2})


def test_each_directory_is_listed_once_for_each_look_at_it(session: Any, tmp_path: Path) -> None:
    """The source by the plan, before the commit and by the verification; the table by this and the sync."""
    partitions = 12
    source, target = tmp_path / "source", tmp_path / "t"
    write_wide_source(source, partitions)
    with counted_requests(source, target) as requests:
        session.sql(
            f"CALL bootstrap_table(table => 'listed', source => '{source}', record_key => 'id',"
            f" target_path => '{target}')"
        )
    for directory, listings in ((source, 3), (target, 2)):
        listed = Counter(path for _, path in requests.below(str(directory), *LISTINGS) if "/dt=" in path)
        assert set(listed.values()) == {listings}
        assert len(listed) == partitions
    session.sql("DROP TABLE listed")
