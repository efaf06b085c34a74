"""All requests of a query on S3: those of Python and, through Hadoop's s3a, those of Spark."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.storage import Storage
from tests.oracle.line_process import LineProcess
from tests.requests.counted_requests import A_FEW
from tests.requests.s3a_session import start_s3a_session
from tests.requests.wide_tables import day
from tests.storage.servers import BUCKET, S3Request, s3_server

pytestmark = [pytest.mark.hms, pytest.mark.slow, pytest.mark.oracle]
FEW, MANY = 20, 60
FILES, ROWS = 4, 10
# A task looks at a file, and reads its end and its columns.
MOST_A_FILE = 3
SECONDS = 300


@pytest.fixture(scope="module")
def requests() -> list[S3Request]:
    return []


@pytest.fixture(scope="module")
def session(
    requests: list[S3Request], metastore_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LineProcess]:
    with s3_server(requests) as settings:
        child = start_s3a_session(tmp_path_factory.mktemp("s3a"), metastore_uri, settings)
        try:
            for partitions in (FEW, MANY):
                _bootstrap(child, Storage(settings), partitions)
            yield child
        finally:
            child.close()


def _bootstrap(child: LineProcess, storage: Storage, partitions: int) -> None:
    root = f"s3a://{BUCKET}/{partitions}"

    def write(number: int) -> None:
        content = io.BytesIO()
        ids = pa.array(range(number * ROWS, number * ROWS + ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids, "v": pa.array([1.5] * ROWS)}), content)
        directory = f"{root}/source/dt={day(number // FILES)}"
        storage.write(f"{directory}/part-{number % FILES}.parquet", content.getvalue())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(partitions * FILES)))
    child.request(
        {
            "sql": f"CALL bootstrap_table(table => 't', source => '{root}/source', record_key => 'id',"
            f" target_path => '{root}/t', sync => false)"
        },
        seconds=SECONDS,
    )


def _table(partitions: int) -> str:
    return f"hudi.`s3a://{BUCKET}/{partitions}/t`"


def _counted(
    session: LineProcess, requests: list[S3Request], text: str
) -> tuple[Counter[str], list[list[object]]]:
    requests.clear()
    rows = session.request({"sql": text}, seconds=SECONDS)["rows"]
    return Counter(sent.kind for sent in requests), rows


@pytest.mark.parametrize("columns", ["count(*), sum(v)", "count(*), max(_hoodie_record_key)"])
def test_a_query_of_one_partition_is_the_same_for_every_number_of_partitions(
    session: LineProcess, requests: list[S3Request], columns: str
) -> None:
    counts = []
    for partitions in (FEW, MANY):
        text = f"SELECT {columns} FROM {_table(partitions)} WHERE dt = '{day(3)}'"
        count, rows = _counted(session, requests, text)
        assert rows[0][0] == FILES * ROWS
        counts.append(count)
    assert abs(counts[0].total() - counts[1].total()) <= A_FEW
    assert sum(counts[1].values()) <= 20 + MOST_A_FILE * FILES


def test_a_query_of_all_lists_pages_and_tasks_open_the_files(
    session: LineProcess, requests: list[S3Request]
) -> None:
    count, rows = _counted(session, requests, f"SELECT count(*), sum(v) FROM {_table(MANY)}")
    files = MANY * FILES
    assert rows[0] == [files * ROWS, files * ROWS * 1.5]
    # 16 ranges of the table's directories and 16 of the source's.
    assert count["LIST"] <= 40
    assert count["GET"] + count["HEAD"] <= 20 + MOST_A_FILE * files
