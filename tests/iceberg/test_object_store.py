"""A table on S3 is published with `s3://` paths, and one of several publishers wins."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.run.plan_execution import run_bootstrap
from hudisql.context import Context
from hudisql.iceberg import metadata_files, publication
from hudisql.iceberg.publication import publish
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from tests.iceberg.readers import sorted_rows
from tests.requests.s3a_session import start_s3a_session
from tests.storage.servers import BUCKET

ROOT = f"s3a://{BUCKET}/lake"
ROWS = [
    {"id": number, "note": "x" * number, "city": city}
    for number, city in enumerate(("a b", None, "ü=1", "a b", None, "c"))
]


def _write_source(storage: Storage, name: str) -> str:
    directories = {"a b": "a b", "ü=1": "ü%3D1", None: "__HIVE_DEFAULT_PARTITION__", "c": "c"}
    for city, directory in directories.items():
        rows = [{"id": row["id"], "note": row["note"]} for row in ROWS if row["city"] == city]
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), content)
        storage.write(f"{ROOT}/{name}_source/city={directory}/part-0.parquet", content.getvalue())
    return f"{ROOT}/{name}_source"


def _pyiceberg_rows(storage: Storage, metadata_file: str, **scan: Any) -> list[str]:
    settings = storage.hadoop_configuration
    properties = {
        "s3.endpoint": settings["fs.s3a.endpoint"],
        "s3.access-key-id": settings["fs.s3a.access.key"],
        "s3.secret-access-key": settings["fs.s3a.secret.key"],
        "s3.region": "us-east-1",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }
    table = StaticTable.from_metadata(metadata_file, properties)
    return sorted_rows(table.scan(**scan).to_arrow().to_pylist())


@pytest.mark.spark
def test_one_of_two_publishers_wins_and_the_other_takes_its_snapshot(
    spark: Any, s3_storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore: Any = None
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path=_write_source(s3_storage, "t"),
        target_path=f"{ROOT}/t",
        sync=False,
    )
    context = Context(spark, metastore, s3_storage)
    run_bootstrap(context, plan_bootstrap(context, request))
    table, barrier, waits = open_table(s3_storage, f"{ROOT}/t"), Barrier(2), [True, True]
    latest = metadata_files.latest_metadata

    def latest_for_both(*arguments: Any) -> Any:
        found = latest(*arguments)
        if waits:
            waits.pop()
            barrier.wait(60)
        return found

    monkeypatch.setattr(publication, "latest_metadata", latest_for_both)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(publish, [table, table]))
    assert sorted(result.is_new for result in results) == [False, True]
    [file] = {result.metadata_path for result in results}
    assert file == f"s3://{BUCKET}/lake/t/.hoodie/iceberg/metadata/v1.metadata.json"
    metadata = json.loads(s3_storage.read(file))
    assert metadata["location"] == f"s3://{BUCKET}/lake/t/.hoodie/iceberg"
    assert _pyiceberg_rows(s3_storage, file) == sorted_rows(ROWS)
    assert _pyiceberg_rows(s3_storage, file, row_filter="city = 'ü=1'") == sorted_rows([ROWS[2]])


@pytest.mark.soak
@pytest.mark.oracle
@pytest.mark.hms
def test_commits_on_s3_are_published(s3_storage: Storage, metastore_uri: str, tmp_path: Path) -> None:
    source, name = _write_source(s3_storage, "follows"), f"hudi.`{ROOT}/follows`"
    session, counts = start_s3a_session(tmp_path, metastore_uri, s3_storage.hadoop_configuration), []
    try:
        for text in (
            f"CALL bootstrap_table(table => 'follows', source => '{source}', record_key => 'id', "
            f"target_path => '{ROOT}/follows', sync => false)",
            f"CALL run_clustering(path => '{ROOT}/follows')",
        ):
            session.request({"sql": text}, seconds=600)
            call = f"CALL sync_iceberg(path => '{ROOT}/follows')"
            [published] = session.request({"sql": call}, seconds=600)["rows"]
            rows = session.request({"sql": f"SELECT id, note, city FROM {name}"}, seconds=600)["rows"]
            assert published[0] == "published"
            assert sorted_rows([dict(zip(("id", "note", "city"), row, strict=True)) for row in rows]) == (
                _pyiceberg_rows(s3_storage, published[1])
            )
            counts.append(published[3:5])
        assert counts == [[4, 0], [0, 4]]
    finally:
        session.close()
