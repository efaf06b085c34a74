"""`CALL bootstrap_table` and `run_bootstrap` end to end: a real Spark, a real metastore, real files."""

from __future__ import annotations

import re
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.run import time_estimate
from hudisql.errors import (
    BootstrapBlockedError,
)
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from tests.file_slices import base_file_path, external_file_path
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _skeleton_rows(target: Path) -> list[dict[str, str]]:
    table = open_table(Storage(), str(target))
    return [
        row
        for each in load_file_slices(table)
        for row in pq.read_table(base_file_path(each), partitioning=None).to_pylist()
    ]


def _read_back(target: Path) -> list[dict[str, object]]:
    """Skeletons and their external files, zipped row by row: what any Hudi reader must see."""
    found = []
    for each in load_file_slices(open_table(Storage(), str(target))):
        meta = pq.read_table(base_file_path(each), partitioning=None).to_pylist()
        data = pq.read_table(external_file_path(each), partitioning=None).to_pylist()
        assert len(meta) == len(data)
        found += [left | right for left, right in zip(meta, data, strict=True)]
    return found


def test_a_partitioned_directory_becomes_a_synced_table_with_a_row_per_partition(
    call, session, daily_orders, tmp_path, name
):
    rows = call(
        "bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t"
    )
    assert [(row["partition"], row["mode"], row["files"], row["rows"]) for row in rows] == [
        ("dt=2024-03-01", "metadata_only", 2, 40),
        ("dt=2024-03-02", "metadata_only", 2, 40),
        ("TOTAL", "metadata_only", 4, 80),
    ]
    source_bytes = sum(path.stat().st_size for path in daily_orders.rglob("*.parquet"))
    assert rows[-1]["source_bytes"] == source_bytes
    written = sum(path.stat().st_size for path in (tmp_path / "t").rglob("*") if path.is_file())
    assert rows[-1]["written_bytes"] == written
    assert all(row["seconds"] >= 0 for row in rows)
    assert [row["warnings"] for row in rows] == [None, None, None]
    keys = [row["_hoodie_record_key"] for row in _read_back(tmp_path / "t")]
    assert sorted(keys) == sorted(
        f"k{first + number:05d}" for first in (0, 100, 200, 300) for number in range(20)
    )
    entry = session.context.metastore.get_table(*name.split("."))
    assert entry is not None
    assert [column.name for column in entry.partition_columns] == ["dt"]
    assert len(session.context.metastore.list_partitions(*name.split("."))) == 2


def test_every_row_carries_its_own_five_meta_columns(call, daily_orders, tmp_path, name):
    call(
        "bootstrap_table",
        table=name,
        source=daily_orders,
        record_key="id,seq",
        target_path=tmp_path / "t",
        sync=False,
    )
    rows = _read_back(tmp_path / "t")
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == 80
    for row in rows:
        assert row["_hoodie_commit_time"] == "00000000000001"
        assert row["_hoodie_record_key"] == f"id:{row['id']},seq:{row['seq']}"
        assert row["_hoodie_partition_path"].startswith("dt=2024-03-0")
        assert (tmp_path / "t" / row["_hoodie_partition_path"] / row["_hoodie_file_name"]).exists()


def test_what_lies_on_disk_is_what_hudi_expects_and_no_more(call, daily_orders, tmp_path, name):
    target = tmp_path / "t"
    call(
        "bootstrap_table",
        table=name,
        source=daily_orders,
        record_key="ID",
        precombine="SEQ",
        target_path=target,
        sync=False,
    )
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    index = "00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
    small = {name for name in files if not name.endswith(".parquet")}
    assert small == {
        ".hoodie/hoodie.properties",
        ".hoodie/00000000000001.commit.requested",
        ".hoodie/00000000000001.inflight",
        ".hoodie/00000000000001.commit",
        f".hoodie/.aux/.bootstrap/.partitions/{index}",
        f".hoodie/.aux/.bootstrap/.fileids/{index}",
        "dt=2024-03-01/.hoodie_partition_metadata",
        "dt=2024-03-02/.hoodie_partition_metadata",
    }
    assert (target / ".hoodie/00000000000001.inflight").read_bytes() == b""
    assert len(files) == len(small) + 4
    properties = open_table(Storage(), str(target)).properties
    assert properties.values == {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.bootstrap.base.path": str(daily_orders),
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.table.precombine.field": "seq",
        "hoodie.table.partition.fields": "dt",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.archivelog.folder": "archived",
        "hoodie.timeline.layout.version": "1",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.name": name.split(".")[1],
        "hoodie.database.name": "store",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.populate.meta.fields": "true",
        "hoodie.bootstrap.index.class": "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.table.version": "6",
        "hoodie.table.checksum": properties.values["hoodie.table.checksum"],
    }
    mapped = read_bootstrap_index(Storage(), str(target))
    assert {file.path for file in mapped.values()} == {str(path) for path in daily_orders.rglob("*.parquet")}


@pytest.mark.parametrize(
    ("columns", "record_key", "generator"),
    [
        ((), "id", "NonpartitionedKeyGenerator"),
        ((), "id,seq", "NonpartitionedKeyGenerator"),
        (("dt=1",), "id", "SimpleKeyGenerator"),
        (("dt=1",), "id,seq", "ComplexKeyGenerator"),
        (("region=eu", "dt=1"), "id", "ComplexKeyGenerator"),
    ],
)
def test_the_key_generator_goes_by_the_number_of_key_and_partition_columns(
    call, tmp_path, name, columns, record_key, generator
):
    write_parquet(tmp_path.joinpath("s", *columns, "a.parquet"), orders(rows=3))
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key=record_key,
        target_path=tmp_path / "t",
        sync=False,
    )
    table = open_table(Storage(), str(tmp_path / "t"))
    assert table.properties.key_generator_class == f"org.apache.hudi.keygen.{generator}"
    keys = [row["_hoodie_record_key"] for row in _skeleton_rows(tmp_path / "t")]
    assert keys[0] == ("id:k00000,seq:0" if "," in record_key else "k00000")


def test_merge_on_read_tables_have_delta_commits_and_a_payload(call, session, daily_orders, tmp_path, name):
    call(
        "bootstrap_table",
        table=name,
        source=daily_orders,
        record_key="id",
        table_type="mor",
        precombine="seq",
        target_path=tmp_path / "t",
    )
    names = {path.name for path in (tmp_path / "t" / ".hoodie").iterdir() if path.is_file()}
    assert names == {
        "hoodie.properties",
        "00000000000001.deltacommit.requested",
        "00000000000001.deltacommit.inflight",
        "00000000000001.deltacommit",
    }
    properties = open_table(Storage(), str(tmp_path / "t")).properties
    assert properties.table_type == "MERGE_ON_READ"
    assert properties.payload_class == "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    database, table = name.split(".")
    for suffix in ("_ro", "_rt"):
        assert session.context.metastore.get_table(database, table + suffix) is not None


def test_the_default_target_is_the_databases_directory(call, session, daily_orders, name):
    call("bootstrap_table", table=name, source=daily_orders, record_key="id")
    database, table = name.split(".")
    location = session.context.metastore.get_database(database).location
    base_path = Storage().qualify(location) + "/" + table
    assert open_table(Storage(), base_path).name == table


def test_typed_partition_columns_stand_in_the_tables_schema(call, tmp_path, name):
    write_parquet(tmp_path / "s" / "year=2024" / "dt=2024-03-01" / "a.parquet", orders())
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="id",
        partition_by="year int, dt date",
        target_path=tmp_path / "t",
        sync=False,
    )
    table = open_table(Storage(), str(tmp_path / "t"))
    assert [(field.name, field.type) for field in table.partition_columns] == [
        ("year", pa.int32()),
        ("dt", pa.date32()),
    ]
    assert table.schema.names == ["id", "seq", "amount", "year", "dt"]


def test_bare_directories_are_named_by_partition_by_and_keep_their_form(call, tmp_path, name):
    for day in ("01", "02"):
        write_parquet(tmp_path / "s" / "2024" / "03" / day / "a.parquet", orders(int(day) * 100))
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="id",
        partition_by="year, month, day",
        target_path=tmp_path / "t",
        sync=False,
    )
    table = open_table(Storage(), str(tmp_path / "t"))
    assert not table.properties.hive_style_partitioning
    assert {row["_hoodie_partition_path"] for row in _skeleton_rows(tmp_path / "t")} == {
        "2024/03/01",
        "2024/03/02",
    }


def test_escaped_directories_make_a_url_encoded_table(call, tmp_path, name):
    write_parquet(tmp_path / "s" / "dt=a b%3Ac%2Fd%25e" / "a.parquet", orders())
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="id",
        target_path=tmp_path / "t",
        sync=False,
    )
    table = open_table(Storage(), str(tmp_path / "t"))
    assert table.properties.url_encode_partitioning
    assert {row["_hoodie_partition_path"] for row in _skeleton_rows(tmp_path / "t")} == {"dt=a b%3Ac%2Fd%25e"}


def test_a_partition_filter_takes_only_the_partitions_it_holds_for(call, daily_orders, tmp_path, name):
    rows = call(
        "bootstrap_table",
        table=name,
        source=daily_orders,
        record_key="id",
        partition_by="dt date",
        partition_filter="day(dt) = 2",
        target_path=tmp_path / "t",
        sync=False,
    )
    assert [row["partition"] for row in rows] == ["dt=2024-03-02", "TOTAL"]
    with pytest.raises(BootstrapBlockedError, match="matches no partition"):
        call(
            "bootstrap_table",
            table=name,
            source=daily_orders,
            record_key="id",
            partition_filter="dt = 'x'",
            target_path=tmp_path / "t2",
            sync=False,
        )


def test_a_dry_run_shows_the_plan_with_all_findings_and_writes_nothing(call, tmp_path, name):
    prices = pa.array([Decimal("1.25")] * 20, pa.decimal128(12, 2))
    write_parquet(tmp_path / "s" / "dt=1" / "a.parquet", orders(price=prices), store_decimal_as_integer=True)
    write_parquet(tmp_path / "s" / "dt=2" / "a.parquet", orders(), write_statistics=False)
    rows = call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="idd",
        target_path=tmp_path / "t",
        on_unsafe_type="warn",
        dry_run=True,
    )
    by_partition = {row["partition"]: row for row in rows if row["mode"]}
    assert by_partition["dt=1"]["rows"] == 20
    assert by_partition["TOTAL"]["files"] == 2
    assert by_partition["TOTAL"]["written_bytes"] > 5000
    assert by_partition["TOTAL"]["seconds"] is None
    assert by_partition["dt=1"]["warnings"] == "column price: decimal stored as INT32/INT64 in 1 file"
    assert by_partition["dt=2"]["warnings"] is None
    blockers = [row["blockers"] for row in rows if row["blockers"]]
    assert len(blockers) == 2
    assert any(
        "column price is only in 1 file" in text or "column price is missing in 1 file" in text
        for text in blockers
    )
    assert any("there is no record key column idd (did you mean id?)" in text for text in blockers)
    warnings = [row["warnings"] for row in rows if row["warnings"]]
    assert any(
        "column price (decimal(12,2)): decimal stored as INT32/INT64 in 1 file" in text for text in warnings
    )
    assert not (tmp_path / "t").exists()
    with pytest.raises(BootstrapBlockedError) as raised:
        call(
            "bootstrap_table",
            table=name,
            source=tmp_path / "s",
            record_key="idd",
            target_path=tmp_path / "t",
            on_unsafe_type="warn",
        )
    assert sorted(raised.value.blockers) == sorted(blockers)
    assert not (tmp_path / "t").exists()


def test_the_estimate_of_a_dry_run_is_near_what_is_written(call, tmp_path, name):
    write_parquet(tmp_path / "s" / "a.parquet", orders(rows=50_000))
    arguments = {
        "table": name,
        "source": tmp_path / "s",
        "record_key": "id",
        "target_path": tmp_path / "t",
        "sync": False,
    }
    estimate = call("bootstrap_table", **arguments, dry_run=True)[-1]["written_bytes"]
    written = call("bootstrap_table", **arguments)[0]["written_bytes"]
    assert written / 2 < estimate < written * 2


def test_a_dry_run_estimates_the_time_from_a_sample_that_leaves_nothing_behind(
    call, tmp_path, name, monkeypatch
):
    for number in range(6):
        write_parquet(tmp_path / "s" / f"{number}.parquet", orders(number * 20_000, 20_000))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    arguments = {
        "table": name,
        "source": tmp_path / "s",
        "record_key": "id",
        "target_path": tmp_path / "t",
        "sync": False,
    }
    before = fingerprint(tmp_path / "s")
    for more, cores in (({}, "2 cores"), ({"parallelism": 1}, "1 core"), ({"parallelism": 50}, "2 cores")):
        total = call("bootstrap_table", **arguments, **more, dry_run=True)[-1]
        basis = rf"about \d+ s for 6 files with 120,000 rows on {cores}, from a sample of 3 files with 60,.*"
        assert re.fullmatch(basis, total["warnings"])
        assert total["seconds"] > 0
        assert not (tmp_path / "t").exists()
    done = call("bootstrap_table", **arguments, parallelism=1)
    # Other work on the machine may slow down either; an estimate that is off by its unit is out of bounds.
    assert total["seconds"] / 20 < done[0]["seconds"] < total["seconds"] * 60
    assert fingerprint(tmp_path / "s") == before
    assert not list((tmp_path / "temporary").iterdir())


def test_files_that_are_too_large_for_a_sample_leave_the_time_open(call, tmp_path, name, monkeypatch):
    write_parquet(tmp_path / "s" / "a.parquet", orders())
    monkeypatch.setattr(time_estimate, "_LARGEST_ROWS", 19)
    (*_, total) = call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="id",
        target_path=tmp_path / "t",
        dry_run=True,
    )
    assert (total["rows"], total["seconds"], total["warnings"]) == (20, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (179, "3 min"), (7200, "2.0 h"), (90000, "25.0 h")]
)
def test_estimated_times_are_round(seconds, text):
    estimate = time_estimate.TimeEstimate(seconds, 1200, 60_000_000, 1, 1, 50_000)
    assert str(estimate) == (
        f"about {text} for 1,200 files with 60,000,000 rows on 1 core,"
        " from a sample of 1 file with 50,000 rows"
    )


def test_filters_encoding_and_codec_of_the_skeletons_follow_the_parameters(call, tmp_path, name):
    write_parquet(tmp_path / "s" / "a.parquet", orders(rows=1000), row_group_size=300)
    sizes = {}
    for form, more in (
        ("gzip", {}),
        ("delta", {"skeleton_encoding": "delta"}),
        ("zstd", {"options": {"hoodie.parquet.compression.codec": "zstd"}}),
        ("large", {"bloom_entries": 60_000}),
        ("loose", {"bloom_fpp": 0.5}),
    ):
        target = tmp_path / form
        rows = call(
            "bootstrap_table",
            table=f"{name}_{form}",
            source=tmp_path / "s",
            record_key="id",
            target_path=target,
            sync=False,
            **more,
        )
        (skeleton,) = target.glob("*.parquet")
        metadata = pq.read_metadata(skeleton)
        assert metadata.num_row_groups == 4
        key = metadata.row_group(0).column(2)
        assert key.compression == ("ZSTD" if form == "zstd" else "GZIP")
        assert ("DELTA_BYTE_ARRAY" in key.encodings) is (form == "delta")
        assert ("Hive 2.3" in (rows[-1]["warnings"] or "")) is (form in ("delta", "zstd"))
        sizes[form] = skeleton.stat().st_size
    assert sizes["delta"] < sizes["gzip"] < sizes["large"]
    assert sizes["loose"] < sizes["gzip"]


def test_options_set_what_hudis_writers_would_take(call, daily_orders, tmp_path, name):
    rows = call(
        "bootstrap_table",
        table=name,
        source=daily_orders,
        record_key="id",
        target_path=tmp_path / "t",
        sync=False,
        options={
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.index.bloom.num_entries": "100",
            "hoodie.cleaner.commits.retained": "3",
        },
    )
    assert open_table(Storage(), str(tmp_path / "t")).properties.precombine_field == "seq"
    assert rows[-1]["warnings"].splitlines()[0] == (
        "option hoodie.cleaner.commits.retained has no effect on a bootstrap"
    )


def test_a_composite_key_may_be_null_in_part(call, tmp_path, name):
    write_parquet(tmp_path / "s" / "a.parquet", orders(rows=2, other=pa.array([None, "x"])))
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="id,other",
        target_path=tmp_path / "t",
        sync=False,
    )
    assert [row["_hoodie_record_key"] for row in _skeleton_rows(tmp_path / "t")] == [
        "id:k00000,other:__null__",
        "id:k00001,other:x",
    ]


def test_a_key_may_lie_inside_a_struct(call, tmp_path, name):
    structs = pa.array([{"key": number, "other": "x"} for number in range(20)])
    write_parquet(tmp_path / "s" / "a.parquet", orders(st=structs))
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "s",
        record_key="ST.KEY",
        target_path=tmp_path / "t",
        sync=False,
    )
    assert open_table(Storage(), str(tmp_path / "t")).properties.record_key_fields == ("st.key",)
    assert _skeleton_rows(tmp_path / "t")[7]["_hoodie_record_key"] == "7"


def test_no_statement_ever_changes_a_byte_of_the_source(call, session, daily_orders, tmp_path, name):
    before = fingerprint(daily_orders)
    arguments = {"source": daily_orders, "record_key": "id"}

    def unchanged(step: str) -> None:
        assert fingerprint(daily_orders) == before, step

    call("bootstrap_table", table=name, **arguments, target_path=tmp_path / "t", dry_run=True)
    unchanged("dry run")
    with pytest.raises(BootstrapBlockedError):
        call(
            "bootstrap_table", table=name, source=daily_orders, record_key="none", target_path=tmp_path / "t"
        )
    unchanged("blocked bootstrap")
    call("bootstrap_table", table=name, **arguments, target_path=tmp_path / "t")
    unchanged("bootstrap")
    call(
        "run_bootstrap",
        table=f"{name}_b",
        table_type="MERGE_ON_READ",
        bootstrap_path=daily_orders,
        base_path=tmp_path / "b",
        rowKey_field="id",
        partition_path_field="dt",
    )
    unchanged("run_bootstrap")
    for statement in (
        f"SELECT count(*), count(DISTINCT _hoodie_record_key) FROM {name}",
        f"SELECT * FROM {name} WHERE dt = '2024-03-01'",
        f"CALL show_bootstrap_mapping(table => '{name}')",
        f"CALL show_commits(table => '{name}')",
        f"CALL hive_sync(table => '{name}')",
        f"CREATE VIEW {name}_view AS SELECT id FROM {name}",
        f"CREATE TABLE {name}_copy USING parquet AS SELECT * FROM {name}",
        f"DROP VIEW {name}_view",
        f"DROP TABLE {name}_copy",
        f"DROP TABLE {name}",
    ):
        session.sql(statement).rows  # noqa: B018
        unchanged(statement)


def test_run_bootstrap_takes_hudis_signature_and_gives_its_status(run_bootstrap, tmp_path):
    rows = run_bootstrap(
        key_generator_class="org.apache.hudi.keygen.SimpleKeyGenerator",
        options="hoodie.metadata.enable=false,hoodie.datasource.write.hive_style_partitioning=true",
    )
    assert rows == [{"status": 0}]
    assert open_table(Storage(), str(tmp_path / "t")).properties.record_key_fields == ("id",)


def test_run_bootstrap_takes_the_call_of_hudis_own_documentation(run_bootstrap, tmp_path):
    """With bootstrap_overwrite, where there is nothing yet, and a key generator's short name."""
    run_bootstrap(key_generator_class="SIMPLE", bootstrap_overwrite=True)
    assert open_table(Storage(), str(tmp_path / "t")).properties.partition_fields == ("dt",)


def test_run_bootstrap_reads_a_properties_file(run_bootstrap, tmp_path):
    (tmp_path / "job.properties").write_text("hoodie.datasource.write.precombine.field=seq\n")
    run_bootstrap(table_type="cow", props_file_path=tmp_path / "job.properties")
    assert open_table(Storage(), str(tmp_path / "t")).properties.precombine_field == "seq"
