"""`CALL rewrite_bootstrap_files`, and INT96 timestamps that a bootstrap leaves as they are until then."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from hudisql.errors import InvalidArgumentError, NoSuchTableError
from tests.sources import fingerprint, orders, write_parquet
from tests.spark_versions import frame_of_arrow, frame_of_path

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ROWS = 20
MOMENTS = [datetime.datetime(2024, 1, 1, 10, 30, 0, 123456) + datetime.timedelta(days=n) for n in range(ROWS)]
OLD = datetime.datetime(1500, 2, 28, 12, 0)


@pytest.fixture
def int96_source(session, tmp_path):
    """Three days of INT96 (dt=1 by pyarrow, dt=2 by Spark in the older calendar) and of micros (dt=3)."""
    directory = tmp_path / "source"
    stored = orders(0, ROWS, t=pa.array(MOMENTS, pa.timestamp("ns")))
    write_parquet(directory / "dt=1" / "a.parquet", stored, use_deprecated_int96_timestamps=True)
    spark = session.context.spark
    settings = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        old = orders(ROWS, ROWS, t=pa.array([OLD, *MOMENTS[1:]], pa.timestamp("us", "UTC")))
        frame_of_arrow(spark, old).coalesce(1).write.parquet(str(directory / "dt=2"))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    plain = orders(2 * ROWS, ROWS, t=pa.array(MOMENTS, pa.timestamp("us", "UTC")))
    write_parquet(directory / "dt=3" / "a.parquet", plain)
    return directory


def moments(session, name, column="t"):
    """The moments by id, read by Spark's scan, and by the slice reader."""
    found = []
    for more in ("", ", _hoodie_record_key"):
        rows = session.sql(f"SELECT id, {column}{more} FROM {name} ORDER BY id").arrow()
        found.append(dict(zip(rows["id"].to_pylist(), rows[column].to_pylist(), strict=True)))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.soak
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_int96_is_right_as_it_is_and_after_a_rewrite_of_its_file_groups(
    call, session, name, int96_source, tmp_path, kind
):
    before = fingerprint(int96_source)
    arguments = {
        "table": name,
        "source": int96_source,
        "record_key": "id",
        "precombine": "seq",
        "target_path": tmp_path / "t",
        "table_type": kind,
        "on_unsafe_type": "warn",
    }
    told = "\n".join(str(row) for row in call("bootstrap_table", **arguments, dry_run=True))
    assert "INT96 timestamp in 2 files" in told
    assert "dt=1/a.parquet" in told
    assert "CALL rewrite_bootstrap_files" in told
    call("bootstrap_table", **arguments)
    utc = [each.replace(tzinfo=datetime.UTC) for each in MOMENTS]
    expected = [*utc, OLD.replace(tzinfo=datetime.UTC), *utc[1:], *utc]
    expected = {f"k{number:05d}": value for number, value in enumerate(expected)}
    assert moments(session, name) == expected
    session.context.spark.conf.set("spark.sql.parquet.int96TimestampConversion", "true")
    try:
        assert moments(session, name) == expected
    finally:
        session.context.spark.conf.unset("spark.sql.parquet.int96TimestampConversion")
    where = "t < TIMESTAMP '1501-01-01 00:00:00'"
    for more in ("", ", _hoodie_record_key"):
        assert [row[0] for row in session.sql(f"SELECT id{more} FROM {name} WHERE {where}").rows] == [
            "k00020"
        ]
    frame = frame_of_path(session, tmp_path / "t")
    assert {row["id"]: row["t"] for row in frame.collect()}.keys() == expected.keys()
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"

    planned = call("rewrite_bootstrap_files", table=name, dry_run=True)
    assert [(row["partition"], row["reason"], row["instant"]) for row in planned] == [
        (partition, "column t: INT96 timestamp", None) for partition in ("dt=1", "dt=2")
    ]
    assert call("rewrite_bootstrap_files", table=name, columns=["seq"]) == []
    only = call("rewrite_bootstrap_files", table=name, where="dt = '1'", columns=["T"])
    assert [row["partition"] for row in only] == ["dt=1"]
    session.sql(f"UPDATE {name} SET amount = -1 WHERE id IN ('k00001', 'k00021')")
    session.sql(
        f"MERGE INTO {name} USING (SELECT 'k00045' AS k, TIMESTAMP '2030-01-01 00:00:00' AS m) s "
        f"ON id = s.k WHEN MATCHED THEN UPDATE SET t = s.m"
    )
    expected["k00045"] = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    call("rewrite_bootstrap_files", table=name)
    assert call("rewrite_bootstrap_files", table=name) == []
    keys = f"SELECT id, _hoodie_record_key FROM {name}"
    assert all(row[0] == row[1] for row in session.sql(keys).rows)
    assert moments(session, name) == expected
    changed = session.sql(f"SELECT id FROM {name} WHERE amount = -1 ORDER BY id").rows
    assert [row[0] for row in changed] == ["k00001", "k00021"]
    assert fingerprint(int96_source) == before


def test_all_file_groups_are_rewritten_with_their_logs_and_need_no_source(
    call, session, bootstrap, daily_orders, name
):
    bootstrap(table_type="mor", precombine="seq")
    session.sql(f"UPDATE {name} SET amount = -1 WHERE id = 'k00001'")
    session.sql(f"DELETE FROM {name} WHERE id = 'k00002'")
    kept = "id, seq, amount, dt, _hoodie_commit_time, _hoodie_commit_seqno, _hoodie_record_key"
    wanted = session.sql(f"SELECT {kept} FROM {name} ORDER BY id, dt").rows
    with pytest.raises(InvalidArgumentError, match="no column nope"):
        call("rewrite_bootstrap_files", table=name, columns=["nope"])
    with pytest.raises(InvalidArgumentError, match="where 'amount > 1'"):
        call("rewrite_bootstrap_files", table=name, where="amount > 1")
    with pytest.raises(NoSuchTableError):
        call("rewrite_bootstrap_files", table="store.nothing")
    assert call("rewrite_bootstrap_files", table=name) == []
    rows = call("rewrite_bootstrap_files", table=name, only_unsafe=False)
    assert len(rows) == len(list(daily_orders.rglob("*.parquet")))
    assert len({row["instant"] for row in rows}) == 1
    for path in daily_orders.rglob("*.parquet"):
        path.rename(path.with_name(f"_{path.name}"))
    session.sql(f"REFRESH TABLE {name}")
    assert session.sql(f"SELECT {kept} FROM {name} ORDER BY id, dt").rows == wanted
    assert session.sql(f"SELECT count(*) FROM {name}_ro").rows == [(len(wanted),)]
    assert call("rewrite_bootstrap_files", table=name, only_unsafe=False) == []
