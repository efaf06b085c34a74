"""Bootstrap, resume, verification and rollback on every store, and two clients that want the same table."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.lease.target_state import TargetState, read_target_state
from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.rollback.rollback_plan import plan_rollback
from hudisql.bootstrap.rollback.table_removal import run_removal
from hudisql.bootstrap.run import plan_execution as run
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.bootstrap.verify.verification import VerifyLevel, verify_bootstrap
from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.errors import NoSuchTableError, SourceChangedError, StorageError
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.format.timeline.instant import METADATA_BOOTSTRAP_INSTANT_TIME, Instant, InstantState
from hudisql.storage import Storage, join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from tests.fault_injection import run_with_fault
from tests.file_slices import base_file_path
from tests.storage.conftest import Store

STORES = ("local", "s3", pytest.param("hdfs", marks=[pytest.mark.oracle, pytest.mark.soak]))
pytestmark = [
    pytest.mark.spark,
    pytest.mark.hms,
    pytest.mark.parametrize("store", STORES, indirect=True),
]
FILES, ROWS = 4, 20


@pytest.fixture
def context(spark, metastore_uri, store):
    with MetastoreClient(metastore_uri) as metastore:
        yield Context(spark, metastore, store.storage)


@pytest.fixture
def source(store: Store) -> str:
    """Two partitions of two files each."""
    for number in range(FILES):
        content = io.BytesIO()
        ids = range(number * ROWS, number * ROWS + ROWS)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), content)
        path = join(store.root, "source", f"dt=2024-03-0{number // 2 + 1}", f"part-{number}.parquet")
        store.storage.write(path, content.getvalue())
    return join(store.root, "source")


def contents(storage: Storage, directory: str) -> dict[str, tuple[int, bytes]]:
    return {
        file.path: (file.modification_time_ms, storage.read(file.path))
        for file in storage.list_files(directory)
    }


def check_is_whole(storage: Storage, target: str) -> None:
    """The commit names each data file, each stands for its source file, and nothing is left of the run."""
    table = open_table(storage, target)
    instant = Instant(METADATA_BOOTSTRAP_INSTANT_TIME, "commit", InstantState.COMPLETED)
    named = {stat.path for stat in read_commit_metadata(storage, table.instant_path(instant)).write_stats}
    files = [file.path[len(target) + 1 :] for file in storage.list_files(target)]
    assert named == {path for path in files if path.endswith(".parquet")}
    assert not [path for path in files if "hudisql" in path]
    slices = load_file_slices(table)
    assert len(slices) == len(named) == FILES
    keys = []
    for each in slices:
        with storage.open_input(base_file_path(each)) as stream:
            keys += pq.read_table(stream)["_hoodie_record_key"].to_pylist()
        assert each.external_file is not None
        assert storage.exists(each.external_file.path)
    assert sorted(keys, key=int) == [str(number) for number in range(FILES * ROWS)]


def test_a_table_is_made_taken_up_verified_and_rolled_back(context, store, source, monkeypatch):
    storage, target = store.storage, join(store.root, "new", "t")
    before = contents(storage, source)
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path=source,
        target_path=target,
        sync=False,
        resume=True,
    )

    def fail(*_arguments):
        raise StorageError("injected fault")

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_table_files", fail)
        with pytest.raises(StorageError, match="injected fault"):
            run_bootstrap(context, plan_bootstrap(context, request))
    with pytest.raises(NoSuchTableError):
        open_table(storage, target)
    assert read_target_state(storage, target) is TargetState.RUN
    assert run_bootstrap(context, plan_bootstrap(context, request)).resumed_files == FILES
    check_is_whole(storage, target)
    verified = verify_bootstrap(context, open_table(storage, target), VerifyLevel.SAMPLE)
    verified.raise_if_bad("db.t")
    run_removal(context, plan_rollback(context, target, None).removal)
    assert not storage.exists(target)
    assert contents(storage, source) == before


def test_a_failed_run_leaves_nothing(context, store, source, monkeypatch):
    storage, target = store.storage, join(store.root, "new", "t")
    before = {file.path for file in storage.list_files(store.root)}
    request = BootstrapRequest(
        database="db", name="t", record_key=("id",), source_path=source, target_path=target, sync=False
    )

    def fail(*_arguments):
        raise StorageError("injected fault")

    monkeypatch.setattr(run, "publish_table", fail)
    with pytest.raises(StorageError, match="injected fault"):
        run_bootstrap(context, plan_bootstrap(context, request))
    assert {file.path for file in storage.list_files(store.root)} == before
    assert not storage.exists(join(store.root, "new"))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PAR1 more bytes than the file had" * 100, "changed since the source was listed"),
        (b"PAR1", "changed since the source was listed"),
        (None, "was removed since the source was listed"),
    ],
)
def test_a_source_file_that_changes_after_the_plan_ends_the_run(context, store, source, content, what):
    storage, target = store.storage, join(store.root, "new", "t")
    request = BootstrapRequest(
        database="db", name="t", record_key=("id",), source_path=source, target_path=target, sync=False
    )
    plan = plan_bootstrap(context, request)
    changed = plan.partitions[1].files[0].source.path
    if content is None:
        storage.delete_file(changed)
    else:
        storage.write(changed, content)
    with pytest.raises(SourceChangedError, match=f"{re.escape(changed)} {what}"):
        run_bootstrap(context, plan)
    assert not storage.exists(join(store.root, "new"))


def test_of_two_clients_that_want_one_table_exactly_one_makes_it(
    spark, metastore_uri, store, source, tmp_path: Path
):
    target, before = join(store.root, "t"), contents(store.storage, source)
    barrier = tmp_path / "barrier"
    barrier.mkdir()

    def create(_number):
        return run_with_fault(
            spark,
            metastore_uri,
            statement=f"CALL bootstrap_table(table => 'db.t', source => '{source}', record_key => 'id',"
            f" target_path => '{target}', parallelism => 1, sync => false, verify => false)",
            hadoop_configuration=dict(store.storage.hadoop_configuration),
            target=target,
            fault="barrier",  # both have planned, none has claimed the directory
            step=0,
            barrier=str(barrier),
        )

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(create, range(2)))
    assert sorted(each.returncode for each in ended) == [0, 1], [each.stderr for each in ended]
    assert "TableExistsError" in "".join(each.stderr for each in ended)
    check_is_whole(store.storage, target)
    assert contents(store.storage, source) == before
