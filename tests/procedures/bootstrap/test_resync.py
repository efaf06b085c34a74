"""`CALL resync_bootstrap`: new source files become one commit, and files that changed or went are named."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    RepeatedKeysError,
    RollbackRefusedError,
    SourceError,
    WriteRefusedError,
)
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.soak import parameters
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def resync(call, name, **more):
    """The rows of a call by their status; the total last."""
    return call("resync_bootstrap", table=name, **more)


def total(rows):
    assert rows[-1]["status"] == "TOTAL"
    return rows[-1]


def ids(session, name, where="true"):
    return [row[0] for row in session.sql(f"SELECT id FROM {name} WHERE {where} ORDER BY id").rows]


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
def test_new_files_are_taken_once(call, session, bootstrap, daily_orders, tmp_path, name, kind):
    bootstrap(table_type=kind)
    assert "no new files" in total(resync(call, name))["detail"]
    write_parquet(daily_orders / "dt=2024-03-02" / "late.parquet", orders(900))
    write_parquet(daily_orders / "dt=2024-03-03" / "a.parquet", orders(1000))
    write_parquet(daily_orders / "dt=2024-03-03" / "b.parquet", orders(1100, 5))
    before = fingerprint(daily_orders)

    planned = resync(call, name, dry_run=True)
    assert [(row["partition"], row["status"], row["files"], row["rows"]) for row in planned[:-1]] == [
        ("dt=2024-03-02", "new", 1, 20),
        ("dt=2024-03-03", "new", 2, 25),
    ]
    assert "would be taken" in total(planned)["detail"]
    assert len(ids(session, name)) == 80

    taken = resync(call, name)
    assert total(taken)["detail"] == "3 new files taken: 45 rows inserted, 0 updated; 0 changed, 0 gone"
    assert total(taken)["instant"]
    assert len(ids(session, name)) == 125
    assert len(ids(session, name, "dt = '2024-03-03'")) == 25
    shown = [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows]
    assert shown == ["dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-03"]

    again = resync(call, name)
    assert len(again) == 1
    assert total(again)["detail"] == "no new files: nothing was done; 0 changed, 0 gone"
    assert len(ids(session, name)) == 125
    session.sql(f"UPDATE {name} SET amount = -1 WHERE id IN ('k00900', 'k00001')")
    assert ids(session, name, "amount = -1") == ["k00001", "k00900"]
    assert fingerprint(daily_orders) == before
    verified = call("verify_bootstrap", table=name, level="full")
    assert [row["finding"] for row in verified] == ["SUMMARY"]
    with pytest.raises(RollbackRefusedError, match="45 rows inserted"):
        call("rollback_bootstrap", table=name)
    call("rollback_bootstrap", table=name, force=True)
    assert not (tmp_path / "t").exists()


def nulled(table):
    """The rows with a null key in the first one."""
    keys = pa.array([None, *table["id"].to_pylist()[1:]], pa.string())
    return table.set_column(0, "id", keys)


def refused(call, name, error, match, **more):
    with pytest.raises(error, match=match) as caught:
        resync(call, name, **more)
    return str(caught.value)


def test_files_that_do_not_fit_are_refused_and_nothing_is_written(
    call, session, bootstrap, daily_orders, name, tmp_path
):
    bootstrap()
    new = daily_orders / "dt=2024-03-03" / "new.parquet"
    stored = daily_orders / "dt=2024-03-01" / "again.parquet"
    commits = len(call("show_commits", table=name))

    write_parquet(stored, orders(15, 10))
    told = refused(call, name, WriteRefusedError, "5 record keys of the new files are in the table")
    assert f"'k00015' of {stored} in partition 'dt=2024-03-01'" in told
    assert "and 2 more" in told
    assert "mode => 'upsert'" in told
    stored.rename(daily_orders / "dt=2024-03-01" / "_hidden.parquet")

    write_parquet(new, orders(15, 10))
    write_parquet(new.with_name("other.parquet"), orders(24, 10))
    told = refused(call, name, RepeatedKeysError, "1 record key is in 2 rows of the new files")
    assert f"'k00024' in 2 rows: {new} and {new.with_name('other.parquet')}" in told
    new.with_name("other.parquet").unlink()
    refused(call, name, WriteRefusedError, "5 record keys of the new files", key_check="unique_global")

    table = orders(500)
    for wrong, what in (
        (table.drop_columns(["amount"]), "column amount of the table is missing in 1 file"),
        (table.append_column("later", table["seq"]), "column later bigint of 1 file: .* ADD COLUMNS"),
        (table.set_column(2, "amount", table["id"]), "column amount is string in 1 file: .* and double in"),
        (table.drop_columns(["id"]), "record key column id is in no file"),
        (nulled(table), "record key column id is null in 1 rows"),
    ):
        write_parquet(new, wrong)
        refused(call, name, BootstrapBlockedError, f"(?s)the new files .* cannot be taken.*{what}")
    shown = resync(call, name, dry_run=True, fail_on_error=False)
    assert [row["status"] for row in shown] == ["new", "blocker", "TOTAL"]
    assert (shown[0]["files"], shown[0]["rows"]) == (1, 20)
    assert "blocked: nothing can be taken" in total(shown)["detail"]
    with pytest.raises(BootstrapBlockedError, match="is null in 1 rows"):
        session.sql(f"CALL resync_bootstrap(table => '{name}', dry_run => true)").raise_error()
    new.write_text("no parquet")
    refused(call, name, BootstrapBlockedError, "is not a parquet file")

    write_parquet(new, orders(500).append_column("more", pa.array([None] * 20, pa.int32())))
    new.unlink()
    (daily_orders / "dt=2024-03-03").rmdir()
    refused(call, name, InvalidArgumentError, "mode 'merge' is unknown", mode="merge")
    refused(call, name, InvalidArgumentError, "key_check 'some' is unknown", key_check="some")
    refused(call, name, InvalidArgumentError, "on_schema_drift 'x' is unknown", on_schema_drift="x")
    daily_orders.rename(tmp_path / "moved")
    refused(call, name, SourceError, "the source of the Hudi table at .* cannot be looked at: no such source")
    write_parquet(daily_orders / "dt=2024-03-01" / "x.parquet", orders(700))
    refused(call, name, BootstrapBlockedError, "none of the 4 source files that the table was made of")
    assert len(call("show_commits", table=name)) == commits
    session.sql(f"CREATE TABLE {name}_plain (id STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    refused(call, f"{name}_plain", InvalidArgumentError, "was not bootstrapped")


def test_upserts_widening_and_rows_without_a_key_check(call, session, bootstrap, daily_orders, name):
    bootstrap(precombine="seq")
    write_parquet(daily_orders / "dt=2024-03-01" / "u.parquet", orders(15, 10, amount=pa.array([-1.0] * 10)))
    narrow = orders(30, 5)
    narrow = narrow.set_column(1, "seq", narrow["seq"].cast(pa.int32())).drop_columns(["amount"])
    write_parquet(daily_orders / "dt=2024-03-04" / "n.parquet", narrow)
    refused(call, name, BootstrapBlockedError, "on_schema_drift => 'widen'", mode="upsert")
    taken = resync(call, name, mode="upsert", on_schema_drift="widen")
    assert total(taken)["detail"].startswith("2 new files taken: 10 rows inserted, 5 updated")
    told = [row["detail"] for row in taken if row["status"] == "warning"]
    assert any("column seq is int in 1 file" in each and "widened" in each for each in told)
    assert ids(session, name, "amount = -1") == [f"k{number:05d}" for number in range(15, 25)]
    assert ids(session, name, "amount IS NULL") == [f"k{number:05d}" for number in range(30, 35)]
    assert "no new files" in total(resync(call, name, mode="upsert"))["detail"]
    write_parquet(daily_orders / "dt=2024-03-01" / "d.parquet", orders(0, 1))
    assert total(resync(call, name, key_check="nulls"))["rows"] == 1
    assert len(ids(session, name, "id = 'k00000'")) == 2


def test_files_that_changed_or_went_are_named_with_what_can_be_done(
    call, session, bootstrap, daily_orders, name
):
    bootstrap(full_record_where="dt = '2024-03-02'")
    first, second, third, fourth = sorted(daily_orders.rglob("*.parquet"))
    os.utime(first, (1e9, 1e9))
    second.unlink()
    write_parquet(third, orders(200, 7))
    fourth.unlink()
    write_parquet(first.with_name("new.parquet"), orders(50))
    rows = resync(call, name)
    told = {row["path"]: (row["status"], row["detail"]) for row in rows if row["path"]}
    assert {path: status for path, (status, _) in told.items()} == {
        str(first): "changed",
        str(second): "gone",
        str(third): "changed",
        str(fourth): "gone",
    }
    assert "SET hudisql.read.changed.sources = warn" in told[str(first)][1]
    assert "bring the file back" in told[str(second)][1]
    assert "keeps the rows that it took" in told[str(third)][1]
    assert f"INSERT OVERWRITE {name}" in told[str(third)][1]
    assert told[str(fourth)][1] == "the table keeps the rows that it took, and reads the file no more"
    assert "1 new file taken: 20 rows inserted, 0 updated; 2 changed, 2 gone" in total(rows)["detail"]
    # What the details say: the partition as the source has it now.
    session.sql(
        f"INSERT OVERWRITE {name} PARTITION (dt = '2024-03-01')"
        f" SELECT id, seq, amount FROM parquet.`{daily_orders}/dt=2024-03-01`"
    )
    assert len(ids(session, name, "dt = '2024-03-01'")) == 40
    details = {row["path"]: row["detail"] for row in resync(call, name) if row["path"]}
    assert "reads the file no more" in details[str(first)]


def test_a_metastore_source_gives_its_registered_partitions_by_the_filter_of_the_bootstrap(
    call, session, tmp_path, name
):
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    source = f"{name}_src"
    columns = "id string, seq bigint, amount double"
    session.spark.sql(
        f"CREATE EXTERNAL TABLE {source} ({columns}) PARTITIONED BY (dt string) STORED AS PARQUET"
        f" LOCATION '{tmp_path / 's'}'"
    )

    def add(day, directory, first):
        write_parquet(tmp_path / directory / "a.parquet", orders(first))
        session.spark.sql(
            f"ALTER TABLE {source} ADD PARTITION (dt='{day}') LOCATION '{tmp_path / directory}'"
        )

    add("2024-03-01", "s/dt=2024-03-01", 0)
    add("2023-12-31", "s/dt=2023-12-31", 100)
    call(
        "bootstrap_table",
        table=name,
        source_table=source,
        record_key="id",
        target_path=tmp_path / "t",
        partition_filter="dt >= '2024'",
    )
    add("2024-03-02", "elsewhere", 200)
    add("2023-12-30", "s/dt=2023-12-30", 300)
    write_parquet(tmp_path / "s" / "dt=2024-03-09" / "unregistered.parquet", orders(400))
    rows = resync(call, name)
    assert [(row["partition"], row["status"]) for row in rows if row["status"] == "new"] == [
        ("dt=2024-03-02", "new")
    ]
    assert total(resync(call, name, partition_filter="dt < '2024'"))["rows"] == 40
    assert len(ids(session, name)) == 80
    assert "no new files" in total(resync(call, name, partition_filter="true"))["detail"]
    write_parquet(tmp_path / "o" / "dt=1" / "a.parquet", orders())
    session.spark.sql(
        f"CREATE EXTERNAL TABLE {source}_other ({columns}) PARTITIONED BY (dt string) STORED AS PARQUET"
        f" LOCATION '{tmp_path / 'o'}'"
    )
    refused(call, name, InvalidArgumentError, "was made of .*, not of", source_table=f"{source}_other")


def test_rows_with_generated_keys_and_tables_without_partitions_are_taken(call, session, tmp_path, name):
    source = tmp_path / "flat"
    write_parquet(source / "a.parquet", orders())
    call("bootstrap_table", table=name, source=source, target_path=tmp_path / "t")
    refused(call, name, InvalidArgumentError, "record keys of .* are generated", mode="upsert")
    write_parquet(source / "b.parquet", orders())
    assert total(resync(call, name))["rows"] == 20
    assert len(ids(session, name)) == 40
    keys = session.sql(f"SELECT count(DISTINCT _hoodie_record_key) FROM {name}").rows
    assert keys[0][0] == 40


@pytest.mark.soak
@pytest.mark.parametrize(("process", "steps"), [("driver", range(30)), ("worker", range(4))])
def test_a_killed_resync_loses_and_repeats_no_file(
    call, session, spark, metastore_uri, bootstrap, daily_orders, tmp_path, name, process, steps
):
    bootstrap()
    expected, ends = 80, set()
    for step in steps:
        first = 1000 + 100 * step
        write_parquet(daily_orders / "dt=2024-03-01" / f"old-{step}.parquet", orders(first, 5))
        write_parquet(daily_orders / f"dt=2025-01-{step + 1:02d}" / "new.parquet", orders(first + 50, 5))
        ended = run_with_fault(
            spark,
            metastore_uri,
            statement=f"CALL resync_bootstrap(table => '{name}')",
            target=str(tmp_path / "t"),
            process=process,
            step=step,
        )
        is_killed = ended.returncode != 0
        seen = len(ids(session, name))
        assert seen in (expected, expected + 10)
        ends.add((is_killed, seen > expected))
        resync(call, name)
        expected += 10
        assert len(set(ids(session, name))) == len(ids(session, name)) == expected
        assert "no new files" in total(resync(call, name))["detail"]
        partitions = {row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows}
        assert f"dt=2025-01-{step + 1:02d}" in partitions
        wait_for_late_tasks(spark)
        if not is_killed:
            break
    assert (True, False) in ends
