"""`mode => 'full_record'`, `full_record_where`, `on_unsafe_type` and Hudi's selectors, end to end by SQL."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    StorageError,
    VerificationFailedError,
)
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SELECTORS = "org.apache.hudi.client.bootstrap.selector"
WHERE = "dt = '2024-03-02'"


def _files(table, instant):
    return sorted(path.parent.name for path in table.rglob(f"*_0000000000000{instant}.parquet"))


@pytest.fixture
def bootstrap(call, daily_orders, tmp_path, name):
    """Bootstraps the daily orders into `tmp_path / "t"`, the second day rewritten unless told otherwise."""

    def run(**changes):
        given = {
            "table": name,
            "source": daily_orders,
            "record_key": "id",
            "target_path": tmp_path / "t",
            "full_record_where": WHERE,
            **changes,
        }
        return call("bootstrap_table", **{key: value for key, value in given.items() if value is not None})

    return run


def test_the_rows_of_plan_and_result_tell_each_partitions_mode(
    bootstrap, session, daily_orders, tmp_path, name
):
    before = fingerprint(daily_orders)
    planned = {row["partition"]: row for row in bootstrap(dry_run=True)}
    assert not (tmp_path / "t").exists()
    modes = {"dt=2024-03-01": "metadata_only", "dt=2024-03-02": "full_record", "TOTAL": "mixed"}
    assert {partition: planned[partition]["mode"] for partition in modes} == modes
    source_bytes = planned["dt=2024-03-02"]["source_bytes"]
    assert planned["dt=2024-03-02"]["written_bytes"] > source_bytes
    assert planned["TOTAL"]["seconds"] > 0
    assert "for 4 files with 80 rows on 2 cores, from a sample of 4 files" in planned["TOTAL"]["warnings"]

    done = {row["partition"]: row for row in bootstrap()}
    assert {partition: done[partition]["mode"] for partition in modes} == modes
    assert [done[partition]["rows"] for partition in modes] == [40, 40, 80]
    assert [done[partition]["files"] for partition in modes] == [2, 2, 4]
    assert _files(tmp_path / "t", 1) == ["dt=2024-03-01"] * 2
    assert _files(tmp_path / "t", 2) == ["dt=2024-03-02"]
    assert fingerprint(daily_orders) == before
    counted = session.sql(
        f"SELECT dt, _hoodie_commit_time, count(*) FROM {name} GROUP BY 1, 2 ORDER BY 1"
    ).rows
    assert [tuple(row) for row in counted] == [
        ("2024-03-01", "00000000000001", 40),
        ("2024-03-02", "00000000000002", 40),
    ]
    expected = sum(sum(pq.read_table(path)["seq"].to_pylist()) for path in daily_orders.rglob("*.parquet"))
    assert session.sql(f"SELECT sum(seq) FROM {name}").rows[0][0] == expected


def test_a_table_that_is_rewritten_whole_does_not_need_its_source(
    bootstrap, session, daily_orders, call, name
):
    bootstrap(mode="full_record", full_record_where=None)
    for path in daily_orders.rglob("*.parquet"):
        path.unlink()
    assert session.sql(f"SELECT count(*), sum(amount) FROM {name}").rows[0][0] == 80
    assert call("show_bootstrap_mapping", table=name) == []
    assert call("show_bootstrap_partitions", table=name) == []


def test_show_procedures_tell_the_skeletons_and_both_commits(bootstrap, call, name):
    bootstrap()
    assert {row["partition"] for row in call("show_bootstrap_mapping", table=name)} == {"dt=2024-03-01"}
    assert call("show_bootstrap_partitions", table=name) == [{"indexed_partitions": "dt=2024-03-01"}]
    commits = {row["commit_time"]: row for row in call("show_commits", table=name)}
    assert {time: row["total_records_written"] for time, row in commits.items()} == {
        "00000000000001": 40,
        "00000000000002": 40,
    }


@pytest.mark.parametrize("level", ["counts", "sample", "full"])
def test_verify_looks_at_rewritten_partitions_too(bootstrap, call, daily_orders, name, level):
    bootstrap()
    (summary,) = call("verify_bootstrap", table=name, level=level)
    assert summary["severity"] == "ok"
    assert "3 files with 80 rows" in summary["detail"]
    if level != "counts":
        assert "80 rows of 3 files compared" in summary["detail"]
    # The rewritten partition lives without its source; the other does not.
    for path in (daily_orders / "dt=2024-03-02").glob("*.parquet"):
        path.unlink()
    found = call("verify_bootstrap", table=name, level=level)
    assert [(row["finding"], row["severity"]) for row in found] == [
        ("source changed after it was rewritten", "notice"),
        ("source changed after it was rewritten", "notice"),
        ("SUMMARY", "ok"),
    ]


def test_verify_finds_rewritten_files_that_are_gone_or_changed(bootstrap, call, tmp_path, name):
    bootstrap()
    (path,) = (tmp_path / "t" / "dt=2024-03-02").glob("*.parquet")
    whole = path.read_bytes()
    table = pq.read_table(path, partitioning=None)
    footer = dict(pq.read_metadata(path).metadata)

    path.unlink()
    assert {row["finding"] for row in call("verify_bootstrap", table=name)} == {
        "base file missing",
        "SUMMARY",
    }

    for change, level, finding in (
        (table.slice(1), "counts", "base file changed"),
        (table.set_column(2, "_hoodie_record_key", pa.array(["x"] * 40)), "sample", "meta columns differ"),
    ):
        pq.write_table(change.replace_schema_metadata(footer), path)
        found = {row["finding"] for row in call("verify_bootstrap", table=name, level=level)}
        assert finding in found
    path.write_bytes(whole[:-10])
    assert "base file unreadable" in {row["finding"] for row in call("verify_bootstrap", table=name)}
    path.write_bytes(whole)
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"


def test_full_verification_compares_every_value_with_the_source(bootstrap, call, tmp_path, name):
    bootstrap()
    (path,) = (tmp_path / "t" / "dt=2024-03-02").glob("*.parquet")
    parquet = pq.ParquetFile(path)
    table = parquet.read()
    position = table.column_names.index("amount")
    changed = table.set_column(position, "amount", pa.array([0.5, *table["amount"].to_pylist()[1:]]))
    size = path.stat().st_size
    with pq.ParquetWriter(path, changed.schema, compression="gzip", store_schema=False) as writer:
        writer.write_table(changed)
    found = call("verify_bootstrap", table=name, level="full")
    assert "base file changed" in {row["finding"] for row in found} or path.stat().st_size == size
    # Were the size right, the values would still tell.
    stat_file = tmp_path / "t/.hoodie/00000000000002.commit"
    stat_file.write_text(stat_file.read_text().replace(f" : {size},", f" : {path.stat().st_size},"))
    found = call("verify_bootstrap", table=name, level="full")
    assert [(row["finding"], row["partition"]) for row in found[:-1]] == [("data differ", "dt=2024-03-02")]


def test_new_files_in_the_source_of_a_rewritten_partition_are_told(bootstrap, call, daily_orders, name):
    bootstrap()
    new = write_parquet(daily_orders / "dt=2024-03-02" / "late.parquet", orders(500))
    found = call("verify_bootstrap", table=name)
    assert [(row["finding"], row["path"]) for row in found[:-1]] == [("source new", str(new))]


def test_rollback_takes_both_kinds_of_partitions(bootstrap, call, daily_orders, tmp_path, name):
    before = fingerprint(daily_orders)
    bootstrap()
    call("rollback_bootstrap", table=name)
    assert not (tmp_path / "t").exists()
    assert fingerprint(daily_orders) == before
    bootstrap(mode="full_record", full_record_where=None)
    call("rollback_bootstrap", table=name)
    assert not (tmp_path / "t").exists()


def test_a_second_call_says_that_the_table_stands(bootstrap):
    bootstrap()
    assert "nothing was done" in bootstrap()[0]["warnings"]


def test_a_second_call_with_a_wider_filter_says_what_the_table_lacks(bootstrap, daily_orders, name):
    write_parquet(daily_orders / "dt=__HIVE_DEFAULT_PARTITION__" / "part-9.parquet", orders(900))
    told = bootstrap(full_record_where=None, partition_filter="dt NOT IN ('2024-03-02')")
    assert "leaves out 1 partition where dt is NULL (dt=__HIVE_DEFAULT_PARTITION__)" in told[-1]["warnings"]
    assert "add OR `dt` IS NULL" in told[-1]["warnings"]
    (row,) = bootstrap(full_record_where=None, partition_filter="dt >= '2024-03-01'")
    assert "nothing was done; partition_filter also takes 1 partition: dt=2024-03-02" in row["warnings"]
    assert f"CALL resync_bootstrap(table => '{name}', partition_filter => …)" in row["warnings"]
    (row,) = bootstrap(full_record_where=None, partition_filter="dt = '2024-03-01'")
    assert row["warnings"].endswith("nothing was done")


@pytest.fixture
def unsafe_orders(tmp_path):
    """Orders of two days; the first has its prices as INT64 decimals."""
    prices = pa.array([Decimal(n) / 4 for n in range(20)], pa.decimal128(12, 2))
    for day in (1, 2):
        path = tmp_path / "unsafe" / f"dt=2024-03-0{day}" / "part-0.parquet"
        write_parquet(path, orders(day * 100, price=prices), store_decimal_as_integer=day == 1)
    return tmp_path / "unsafe"


def test_unsafe_types_stop_unless_told_otherwise(bootstrap, unsafe_orders, tmp_path):
    with pytest.raises(
        BootstrapBlockedError, match=r"column price .*decimal stored as INT32/INT64"
    ) as raised:
        bootstrap(source=unsafe_orders, full_record_where=None)
    (text,) = raised.value.blockers
    assert str(unsafe_orders / "dt=2024-03-01" / "part-0.parquet") in text
    assert "Hudi 0.15 and 1.2 multiply" in text
    assert "on_unsafe_type => 'full_record'" in text
    assert "on_unsafe_type => 'warn'" in text
    assert not (tmp_path / "t").exists()


def test_unsafe_types_taken_as_they_are_stay_on_show(bootstrap, call, unsafe_orders, name):
    done = bootstrap(source=unsafe_orders, full_record_where=None, on_unsafe_type="warn")
    assert {row["mode"] for row in done} == {"metadata_only"}
    shown = call("show_table_properties", table=name)
    assert shown[0]["key"] == "unsafe type of column price"
    assert shown[0]["value"].startswith("decimal stored as INT32/INT64: Hudi 0.15 and 1.2 multiply")


def test_unsafe_types_are_rewritten_in_just_their_partitions(
    bootstrap, call, session, unsafe_orders, tmp_path, name
):
    done = bootstrap(source=unsafe_orders, full_record_where=None, on_unsafe_type="full_record")
    modes = {row["partition"]: row["mode"] for row in done}
    assert modes == {"dt=2024-03-01": "full_record", "dt=2024-03-02": "metadata_only", "TOTAL": "mixed"}
    assert _files(tmp_path / "t", 2) == ["dt=2024-03-01"]
    assert session.sql(f"SELECT sum(price) FROM {name}").rows[0][0] == Decimal("95.00")
    assert "unsafe" not in call("show_table_properties", table=name)[0]["key"]


@pytest.mark.parametrize(
    ("selector", "options", "full"),
    [
        ("FullRecordBootstrapModeSelector", {}, ["dt=2024-03-01", "dt=2024-03-02"]),
        ("MetadataOnlyBootstrapModeSelector", {}, []),
        (
            "BootstrapRegexModeSelector",
            {"hoodie.bootstrap.mode.selector.regex": "dt=2024-03-0[2-9]"},
            ["dt=2024-03-01"],
        ),
        (
            "BootstrapRegexModeSelector",
            {
                "hoodie.bootstrap.mode.selector.regex": "dt=2024-03-0[2-9]",
                "hoodie.bootstrap.mode.selector.regex.mode": "FULL_RECORD",
            },
            ["dt=2024-03-02"],
        ),
    ],
)
def test_run_bootstrap_takes_hudis_selectors(run_bootstrap, tmp_path, selector, options, full):
    rows = run_bootstrap(
        selector_class=f"{SELECTORS}.{selector}",
        options=options,
    )
    assert rows == [{"status": 0}]
    assert _files(tmp_path / "t", 2) == full
    assert sorted({*_files(tmp_path / "t", 1), *full}) == ["dt=2024-03-01", "dt=2024-03-02"]


def test_the_check_after_the_commit_looks_at_rewritten_rows(bootstrap, monkeypatch, tmp_path):
    from hudisql.bootstrap.run import plan_execution as run

    publish = run.publish_table

    def damage_and_publish(*arguments):
        (path,) = (tmp_path / "t" / "dt=2024-03-02").glob("*.parquet")
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.slice(3), path)
        return publish(*arguments)

    monkeypatch.setattr(run, "publish_table", damage_and_publish)
    with pytest.raises(VerificationFailedError, match="its source files had 40 rows, the partition has 37"):
        bootstrap()


def test_a_failed_run_with_rewritten_partitions_is_resumed(bootstrap, session, tmp_path, name, monkeypatch):
    from hudisql.bootstrap.run import plan_execution as run

    def die(*_arguments):
        raise StorageError("injected fault")

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_table_files", die)
        with pytest.raises(StorageError, match="injected fault"):
            bootstrap(resume=True)
    assert _files(tmp_path / "t", 1) == ["dt=2024-03-01"] * 2
    assert not (tmp_path / "t/.hoodie/hoodie.properties").exists()
    with pytest.raises(InvalidArgumentError, match="mode was 'full_record where dt = '2024-03-02''"):
        bootstrap(resume=True, full_record_where=None)
    done = {row["partition"]: row for row in bootstrap(resume=True)}
    assert done["TOTAL"]["rows"] == 80
    # Skeletons are kept, rewritten partitions done again: nothing of the first run stays beside them.
    assert "2 of the files were finished by an earlier run" in done["TOTAL"]["warnings"]
    assert _files(tmp_path / "t", 2) == ["dt=2024-03-02"]
    assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == 80
