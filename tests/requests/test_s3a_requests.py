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
from tests.storage.servers import BUCKET, S3Request

pytestmark = [pytest.mark.hms, pytest.mark.oracle, pytest.mark.soak]
FEW, MANY = 20, 60
LARGE = 2_500
FILES, ROWS = 4, 10
# A task looks at a file, and reads its end and its columns.
MOST_A_FILE = 3
SECONDS = 1_800


@pytest.fixture(scope="module")
def session(
    storage: Storage, metastore_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LineProcess]:
    child = start_s3a_session(tmp_path_factory.mktemp("s3a"), metastore_uri, storage.hadoop_configuration)
    try:
        for partitions in (FEW, MANY):
            _write_source(storage, partitions)
            child.request({"sql": _bootstrap(partitions)}, seconds=SECONDS)
        yield child
    finally:
        child.close()


def _write_source(storage: Storage, partitions: int) -> None:
    def write(number: int) -> None:
        content = io.BytesIO()
        ids = pa.array(range(number * ROWS, number * ROWS + ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids, "v": pa.array([1.5] * ROWS)}), content)
        directory = f"{_root(partitions)}/source/dt={day(number // FILES)}"
        storage.write(f"{directory}/part-{number % FILES}.parquet", content.getvalue())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(partitions * FILES)))


def _bootstrap(partitions: int) -> str:
    root = _root(partitions)
    return (
        f"CALL bootstrap_table(table => 't', source => '{root}/source', record_key => 'id',"
        f" target_path => '{root}/t', sync => false)"
    )


def _root(partitions: int) -> str:
    return f"s3a://{BUCKET}/{partitions}"


def _table(partitions: int) -> str:
    return f"hudi.`{_root(partitions)}/t`"


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
    _check_query_of_one(session, requests, columns, (FEW, MANY))


def _check_query_of_one(
    session: LineProcess, requests: list[S3Request], columns: str, sizes: tuple[int, int]
) -> None:
    counts = []
    for partitions in sizes:
        text = f"SELECT {columns} FROM {_table(partitions)} WHERE dt = '{day(3)}'"
        count, rows = _counted(session, requests, text)
        assert rows[0][0] == FILES * ROWS
        counts.append(count.total())
    assert abs(counts[0] - counts[1]) <= A_FEW
    assert counts[1] <= 20 + MOST_A_FILE * FILES


def test_a_query_of_all_lists_pages_and_tasks_open_the_files(
    session: LineProcess, requests: list[S3Request]
) -> None:
    # 16 ranges of the table's directories and 16 of the source's.
    _check_query_of_all(session, requests, MANY, 40)


def _check_query_of_all(
    session: LineProcess, requests: list[S3Request], partitions: int, most_listings: int
) -> None:
    count, rows = _counted(session, requests, f"SELECT count(*), sum(v) FROM {_table(partitions)}")
    files = partitions * FILES
    assert rows[0] == [files * ROWS, files * ROWS * 1.5]
    assert count["LIST"] <= most_listings
    assert count["GET"] + count["HEAD"] <= 20 + MOST_A_FILE * files


@pytest.mark.soak
def test_a_table_of_ten_thousand_files(
    session: LineProcess, storage: Storage, requests: list[S3Request]
) -> None:
    _write_source(storage, LARGE)
    sent, _ = _counted(session, requests, _bootstrap(LARGE))
    files = LARGE * FILES
    # A file's footer twice, its skeleton, and both footers again for the verification; its keys are in the
    # end that is read for the footer. Looks at the lease are listings, and go by time.
    assert sent.total() - sent["LIST"] <= 5 * files + LARGE + 1_000
    _check_query_of_one(session, requests, "count(*), sum(v)", (FEW, LARGE))
    # 16 ranges and 13 pages of the table's directories, 16 and 10 of the source's.
    _check_query_of_all(session, requests, LARGE, 70)
