"""The requests that a bootstrap on S3 sends for each source file, by its driver and its tasks."""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.storage import Storage, join
from tests.storage.servers import BUCKET, S3Request, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.hms]
PARTITIONS, ROWS = 4, 50
# Both tables are bootstrapped by as many tasks, so that the difference is what a file costs.
TASKS, FEWER, MORE = 8, 40, 120
# Longer than the end of a file that is read for its footer: the key column is another request.
PAYLOAD_BYTES = 4_000


@pytest.fixture(scope="module")
def requests() -> list[S3Request]:
    return []


@pytest.fixture(scope="module")
def storage(requests: list[S3Request]) -> Iterator[Storage]:
    with s3_server(requests) as settings:
        yield Storage(settings)


@pytest.fixture
def context(spark: Any, metastore_uri: str, storage: Storage) -> Iterator[Context]:
    with MetastoreClient(metastore_uri) as metastore:
        yield Context(spark, metastore, storage)


def write_source(storage: Storage, files: int) -> str:
    """A fresh directory whose `source` has the files, each with its own range of keys."""
    root = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    payload = [np.random.default_rng(row).bytes(PAYLOAD_BYTES) for row in range(ROWS)]
    for number in range(files):
        content = io.BytesIO()
        ids = pa.array(range(number * ROWS, number * ROWS + ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids, "payload": payload}), content)
        partition = number * PARTITIONS // files
        path = join(root, "source", f"dt=2024-03-0{partition + 1}", f"part-{number}.parquet")
        storage.write(path, content.getvalue())
    return root


def requests_of_bootstrap(context: Context, requests: list[S3Request], files: int) -> Counter[str]:
    """The requests of a bootstrap of so many files, by kind."""
    root = write_source(context.storage, files)
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path=join(root, "source"),
        target_path=join(root, "t"),
        sync=False,
        parallelism=TASKS,
    )
    requests.clear()
    result = run_bootstrap(context, plan_bootstrap(context, request))
    assert sum(partition.files for partition in result.partitions) == files
    return Counter(sent.kind for sent in requests)


def test_a_file_more_costs_at_most_five_requests(context: Context, requests: list[S3Request]) -> None:
    fewer = requests_of_bootstrap(context, requests, FEWER)
    more = requests_of_bootstrap(context, requests, MORE)
    per_file = {kind: (more[kind] - fewer[kind]) / (MORE - FEWER) for kind in more | fewer}
    assert sum(per_file.values()) <= 5, per_file
