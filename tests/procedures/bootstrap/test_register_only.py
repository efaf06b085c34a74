"""`register_only_where`: partitions of plain parquet, read as they lie and lifted by the first write."""

from __future__ import annotations

import os

import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    SourceChangedError,
    UnsupportedStatementError,
    WriteRefusedError,
)
from hudisql.table.partitions.resynced_sources import LISTS_DIRECTORY
from tests.fault_injection import run_with_fault, wait_for_late_tasks
from tests.soak import parameters
from tests.sources import fingerprint, orders, write_parquet
from tests.spark_versions import frame_of_path

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COLD = "dt = '2024-03-01'"
LIFTED = ("2024-03-01", 40, 40)
PLAIN, HOT = ("2024-03-01", 40, 0), ("2024-03-02", 40, 40)


def counts(session, name, where="true", of="dt, count(*), count(_hoodie_record_key)"):
    rows = session.sql(f"SELECT {of} FROM {name} WHERE {where} GROUP BY dt ORDER BY dt").rows
    return [tuple(row) for row in rows]


def files_of(directory):
    """The files with content and time; a directory's own time changes as files come and go."""
    return {name: each for name, each in fingerprint(directory).items() if name.endswith(".parquet")}


def locations(session, name):
    database, table = name.split(".")
    entries = session.context.metastore.list_partitions(database, table)
    return {each.values[0]: (each.location, each.input_format.rpartition(".")[2]) for each in entries}


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
def test_rows_are_read_beside_the_others_and_lifted_by_a_call(
    call, session, bootstrap, daily_orders, tmp_path, name, kind
):
    before = files_of(daily_orders)
    done = {row["partition"]: row for row in bootstrap(register_only_where=COLD, table_type=kind)}
    cold = done["dt=2024-03-01"]
    assert (cold["mode"], cold["rows"], cold["written_bytes"]) == ("register_only", 40, 0)
    assert "Spark with Apache Hudi gives none of them" in done["TOTAL"]["warnings"]
    assert not (tmp_path / "t" / "dt=2024-03-01").exists()
    directory = f"file:{daily_orders}/dt=2024-03-01"
    assert locations(session, name)["2024-03-01"] == (directory, "MapredParquetInputFormat")

    assert counts(session, name) == [PLAIN, HOT]
    assert counts(session, name, COLD) == counts(session, name, "_hoodie_file_name IS NULL") == [PLAIN]
    assert counts(session, name, "id = 'k00001'") == [("2024-03-01", 1, 0)]
    assert counts(session, name, "dt > '2024-03-01' AND concat(dt, '') <> 'x'") == [HOT]
    assert counts(session, name, "concat(dt, '') = '2024-03-01'", of="count(1)") == [(40,)]
    amounts = counts(session, name, of="sum(amount), sum(seq)")
    shown = "\n".join(
        row[0] for row in session.sql(f"EXPLAIN EXTENDED SELECT id FROM {name} WHERE {COLD}").rows
    )
    assert "2 of 4 (0 bootstrapped, 2 register-only)" in shown
    partitions = ["dt=2024-03-01", "dt=2024-03-02"]
    assert [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows] == partitions
    frame_of_path(session, tmp_path / "t").createOrReplaceTempView("by_path")
    assert session.spark.sql("SELECT count(*), count(_hoodie_record_key) FROM by_path").first() == (80, 40)
    assert [row["finding"] for row in call("verify_bootstrap", table=name)] == ["SUMMARY"]
    reads = {row["reader"]: row["reads"] for row in call("check_readers", table=name)}
    assert reads["hudisql"] == "right"
    assert {reads[each] for each in reads if each.startswith(("Spark", "hudi-rs"))} == {"wrong"}
    assert call("resync_bootstrap", table=name)[-1]["detail"].startswith("no new files")
    assert "changed" not in session.sql(f"CALL hive_sync(table => '{name}')").rows[0].asDict()

    planned = call("resync_bootstrap", table=name, lift=COLD, dry_run=True)
    assert [(row["partition"], row["files"], row["rows"]) for row in planned[:-1]] == [
        ("dt=2024-03-01", 2, 40)
    ]
    lifted = call("resync_bootstrap", table=name, lift="true")[-1]
    assert lifted["detail"].startswith("2 new files taken: 40 rows inserted")
    assert counts(session, name) == [LIFTED, HOT]
    assert counts(session, name, of="sum(amount), sum(seq)") == amounts
    assert locations(session, name)["2024-03-01"][0] == f"file:{tmp_path}/t/dt=2024-03-01"
    assert call("resync_bootstrap", table=name, lift="true")[-1]["instant"] is None

    # The state before reads the files that the lift has taken; a rollback makes the partition register-only.
    write_parquet(daily_orders / "dt=2024-03-01" / "later.parquet", orders(700))
    assert counts(session, f"{name} VERSION AS OF '00000000000001'") == [PLAIN, HOT]
    changes = f"SELECT count(*) FROM hudi_table_changes('{name}', 'latest_state', '00000000000001')"
    assert session.sql(changes).rows[0][0] == 40
    (daily_orders / "dt=2024-03-01" / "later.parquet").unlink()
    call("rollback_to_instant", table=name, instant_time=lifted["instant"])
    assert counts(session, name) == [PLAIN, HOT]
    assert locations(session, name)["2024-03-01"] == (directory, "MapredParquetInputFormat")
    assert files_of(daily_orders) == before


# Each touches a partition of its own; then rows, and rows with meta columns, of that partition.
WRITES = {
    1: ("UPDATE {t} SET amount = -1 WHERE id = 'k00100'", (20, 20)),
    2: ("DELETE FROM {t} WHERE {dt} AND id = 'k00200'", (19, 19)),
    3: (
        "MERGE INTO {t} t USING (SELECT explode(array('k00300', 'new')) id, '2024-03-03' dt) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, 9, s.dt)",
        (21, 21),
    ),
    4: (
        "INSERT INTO {t} VALUES ('k00400', 401, -1.0, '2024-03-04'), ('new', 1, 0.5, '2024-03-04')",
        (21, 21),
    ),
    5: ("INSERT OVERWRITE {t} PARTITION ({dt}) VALUES ('new', 1, 0.5)", (1, 1)),
    6: ("ALTER TABLE {t} DROP PARTITION ({dt})", None),
    7: ("UPDATE {t} SET amount = -1 WHERE dt = '2024-03-09'", (20, 0)),
    8: (None, (19, 19)),
}


@pytest.mark.soak
def test_the_first_write_lifts_the_partitions_that_it_touches(call, session, tmp_path, name):
    source = tmp_path / "source"
    for day in (*WRITES, 9):
        write_parquet(source / f"dt=2024-03-0{day}" / "a.parquet", orders(day * 100))
    before = fingerprint(source)
    place = {"target_path": tmp_path / "t", "source": source}
    call(
        "bootstrap_table",
        table=name,
        record_key="id",
        precombine="seq",
        register_only_where="dt < '2024-03-09'",
        **place,
    )
    at_first = [(f"2024-03-0{day}", 20, 0) for day in WRITES] + [("2024-03-09", 20, 20)]
    assert counts(session, name) == at_first
    for day, (statement, _) in WRITES.items():
        if statement is not None:
            session.sql(statement.format(t=name, dt=f"dt = '2024-03-0{day}'"))
    keys = session.spark.sql("SELECT 'k00800' AS id, 801L AS seq, '2024-03-08' AS dt")
    assert session.write(keys, name, "delete").deleted == 1
    expected = [(f"2024-03-0{day}", *rows) for day, (_, rows) in WRITES.items() if rows]
    assert counts(session, name) == [*expected, ("2024-03-09", 20, 20)]
    assert session.sql(f"SELECT count(*) FROM {name} WHERE amount = -1").rows[0][0] == 23
    assert counts(session, f"{name} VERSION AS OF '00000000000001'") == at_first
    # Five lifts, an overwrite and a drop have each recorded the files of their partition.
    assert len(list((tmp_path / "t" / LISTS_DIRECTORY).glob("*.parquet"))) == 7
    assert call("resync_bootstrap", table=name)[-1]["detail"].startswith("no new files")
    assert fingerprint(source) == before
    os.utime(source / "dt=2024-03-07" / "a.parquet", (1, 1))
    dropped = call("run_ttl", table=name, retain_days=9)
    assert [row["deleted_partitions"] for row in dropped] == ["dt=2024-03-07"]
    assert [row[0] for row in counts(session, name)] == [f"2024-03-0{day}" for day in (1, 2, 3, 4, 5, 8, 9)]


def test_what_register_only_partitions_cannot_be_is_said(session, bootstrap, daily_orders, tmp_path, name):
    with pytest.raises(BootstrapBlockedError, match="takes all partitions: the table would have no commit"):
        bootstrap(register_only_where="dt > '2'")
    with pytest.raises(InvalidArgumentError, match="mode 'register_only' is unknown"):
        bootstrap(mode="register_only")
    bootstrap(register_only_where=COLD)
    changed = f"CREATE INCREMENTAL TABLE {name}_sums AS SELECT dt, count(*) AS n FROM {name} GROUP BY dt"
    with pytest.raises(UnsupportedStatementError, match="rows are in no commit"):
        session.sql(changed)
    again = daily_orders / "dt=2024-03-01" / "again.parquet"
    write_parquet(again, orders(0, 3))
    assert counts(session, name, COLD) == [("2024-03-01", 43, 0)]
    with pytest.raises(WriteRefusedError, match="3 record keys are in 6 rows of the new files"):
        session.sql(f"UPDATE {name} SET amount = 0 WHERE id = 'k00001'")
    assert counts(session, name) == [("2024-03-01", 43, 0), HOT]
    again.unlink()
    (daily_orders / "dt=2024-03-01").rename(tmp_path / "elsewhere")
    assert counts(session, name, "dt > '2024-03-01'") == [HOT]
    with pytest.raises(SourceChangedError, match=r"the directory of a register-only partition of .* is gone"):
        counts(session, name)


def test_partitions_whose_directory_is_gone_or_empty_are_dropped_or_overwritten(
    call, session, tmp_path, name
):
    source = tmp_path / "source"
    for day in (1, 2, 3, 4, 9):
        write_parquet(source / f"dt=2024-03-0{day}" / "a.parquet", orders(day * 100, 2))
    place = {"target_path": tmp_path / "t", "source": source}
    call("bootstrap_table", table=name, record_key="id", register_only_where="dt < '2024-03-09'", **place)
    for day in (1, 2, 3, 4):
        (source / f"dt=2024-03-0{day}").rename(tmp_path / f"away{day}")
    for day in (3, 4):
        (source / f"dt=2024-03-0{day}").mkdir()
    with pytest.raises(SourceChangedError, match="is gone") as gone:
        counts(session, name)
    assert gone.value.hint.endswith("drop the partition: ALTER TABLE … DROP PARTITION")
    expired = call("run_ttl", table=name, retain_days=9, dry_run=True)
    assert [row["deleted_partitions"] for row in expired] == ["dt=2024-03-03", "dt=2024-03-04"]
    for day, statement in (
        (1, "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-01')"),
        (2, "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') VALUES ('new', 1, 0.5)"),
        (3, "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')"),
        (4, "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-04') VALUES ('new', 1, 0.5)"),
    ):
        session.sql(statement.format(t=name))
        directory = source / f"dt=2024-03-0{day}"
        if day > 2:
            directory.rmdir()
        (tmp_path / f"away{day}").rename(directory)
    overwritten = [(f"2024-03-0{day}", 1, 1) for day in (2, 4)]
    assert counts(session, name) == [*overwritten, ("2024-03-09", 2, 2)]
    shown = [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows]
    assert shown == ["dt=2024-03-02", "dt=2024-03-04", "dt=2024-03-09"]


@pytest.mark.soak
@pytest.mark.parametrize(("process", "steps"), [("driver", range(2, 80, 6)), ("worker", range(3))])
def test_a_killed_write_leaves_a_partition_register_only_lifted_or_changed(
    call, session, spark, metastore_uri, tmp_path, name, process, steps
):
    source = tmp_path / "source"
    for step in (*steps, 99):
        write_parquet(source / f"n={step}" / "a.parquet", orders(step * 100))
    given = {"source": source, "target_path": tmp_path / "t", "partition_by": "n int"}
    call("bootstrap_table", table=name, record_key="id", register_only_where="n < 99", **given)
    found = set()
    for step in steps:
        statement = f"UPDATE {name} SET amount = -1 WHERE id = 'k{step * 100:05d}'"
        fields = {"statement": statement, "target": str(tmp_path / "t"), "process": process, "step": step}
        is_killed = run_with_fault(spark, metastore_uri, **fields).returncode != 0
        query = (
            f"SELECT count(*), count(_hoodie_record_key), count_if(amount = -1) FROM {name} WHERE n = {step}"
        )
        (row,) = session.sql(query).rows
        assert tuple(row) in ((20, 0, 0), (20, 20, 0), (20, 20, 1))
        found.add((is_killed, *row))
        session.sql(statement)
        (row,) = session.sql(query).rows
        assert tuple(row) == (20, 20, 1)
        wait_for_late_tasks(spark)
        if not is_killed:
            break
    assert {(True, 20, 0, 0), (True, 20, 20, 0)} <= found or process == "worker"
