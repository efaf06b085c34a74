"""Source tables that are not parquet: ORC, CSV, JSON, Avro and text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.run import plan_execution
from hudisql.errors import (
    BootstrapBlockedError,
    InvalidArgumentError,
    RepeatedKeysError,
    SourceError,
    StorageError,
)
from tests.fault_injection import run_with_fault
from tests.other_tables import FORMATS, HIVE_CSV, ROWS, other_table
from tests.procedures.bootstrap.test_resume import check_is_whole, visible_rows
from tests.procedures.conftest import sql_literal
from tests.soak import parameters
from tests.sources import fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def rows_of(session: Any, table: str) -> list[tuple[Any, ...]]:
    columns = "id, seq, price, short, code, day, at, dt"
    return [tuple(row) for row in session.sql(f"SELECT {columns} FROM {table} ORDER BY id").rows]


@pytest.mark.parametrize("kind", parameters(FORMATS, in_ci=["csv"]))
def test_the_statement_that_the_error_names_copies_the_rows(
    call: Callable[..., Any], session: Any, tmp_path: Path, name: str, kind: str
) -> None:
    source = other_table(session, kind, name, tmp_path / "s")
    with pytest.raises(SourceError) as refused:
        call(
            "bootstrap_table",
            table=name,
            source_table=source,
            record_key="id",
            precombine="seq",
            target_path=tmp_path / "t",
            partition_filter="dt > '2024-03-01'",
            options={"hoodie.parquet.max.file.size": "100000"},
        )
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("mode => 'full_record' rewrites its rows")
    session.sql(refused.value.hint.split(": ", 1)[1])
    assert rows_of(session, name) == [row for row in rows_of(session, source) if row[-1] == "2024-03-02"]
    assert len(rows_of(session, name)) == 20
    assert "hoodie.table.recordkey.fields=id" in (tmp_path / "t/.hoodie/hoodie.properties").read_text()


@pytest.mark.parametrize("kind", parameters(FORMATS, in_ci=["orc", "csv"]))
def test_spark_reads_the_rows_once_and_they_become_base_files(
    call: Callable[..., Any], session: Any, tmp_path: Path, name: str, kind: str
) -> None:
    source = other_table(session, kind, name, tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    arguments = {
        "table": name,
        "source_table": source,
        "record_key": "id",
        "precombine": "seq",
        "target_path": tmp_path / "t",
        "mode": "full_record",
    }
    planned = call("bootstrap_table", **arguments, dry_run=True)
    assert [(row["partition"], row["rows"]) for row in planned[:3]] == [
        ("dt=2024-03-01", None),
        ("dt=2024-03-02", None),
        ("TOTAL", None),
    ]
    done = call("bootstrap_table", **arguments)
    assert [(row["partition"], row["mode"], row["rows"]) for row in done] == [
        ("dt=2024-03-01", "full_record", 20),
        ("dt=2024-03-02", "full_record", 20),
        ("TOTAL", "full_record", 40),
    ]
    assert rows_of(session, name) == rows_of(session, source)
    types = dict(session.sql(f"SELECT * FROM {name}").df.dtypes)
    assert (types["price"], types["day"], types["at"]) == ("decimal(9,2)", "date", "timestamp")
    found = session.sql(f"SELECT DISTINCT _hoodie_commit_time, _hoodie_partition_path FROM {name}").rows
    assert {tuple(row) for row in found} == {("00000000000002", f"dt=2024-03-0{day}") for day in (1, 2)}
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    assert "nothing was done" in call("bootstrap_table", **arguments)[0]["warnings"]
    assert fingerprint(tmp_path / "s") == before
    session.sql(f"UPDATE {name} SET seq = 1000 WHERE id = 'k001'")
    assert session.sql(f"SELECT sum(seq) FROM {name}").rows[0][0] == sum(range(40)) + 999


@pytest.fixture
def rewrite(call: Callable[..., Any], tmp_path: Path, name: str) -> Callable[..., Any]:
    """`rewrite(source, parameter=value)` bootstraps a source table with `id` as the key."""

    def run(source: str, **more: object) -> Any:
        given = {"record_key": "id", "target_path": tmp_path / "t", "mode": "full_record", **more}
        return call("bootstrap_table", table=name, source_table=source, **given)

    return run


def plain_table(session: Any, name: str, definition: str) -> str:
    session.sql("CREATE DATABASE IF NOT EXISTS store")
    session.spark.sql(f"CREATE TABLE {name}_src {definition}")
    return f"{name}_src"


def csv_table(session: Any, name: str, directory: Path, columns: str = "id string, n int") -> str:
    return plain_table(session, name, f"({columns}) USING csv OPTIONS (header 'true') LOCATION '{directory}'")


def test_a_csv_directory_keeps_its_nulls_and_leaves_out_header_lines_and_ignored_files(
    rewrite: Callable[..., Any], call: Callable[..., Any], session: Any, tmp_path: Path, name: str
) -> None:
    for number in range(3):
        file = tmp_path / "csv" / f"part {number}%41.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"id,n\nk{number},{number}\nj{number},\n")
    (tmp_path / "csv" / "empty.csv").write_text("id,n\n")
    (tmp_path / "csv" / "notes.txt").write_text("id,n\nnobody,9\n")
    source = csv_table(session, name, tmp_path / "csv")
    done = rewrite(source, ignore="*.txt")
    assert (done[-1]["files"], done[-1]["rows"]) == (4, 6)
    assert [tuple(row) for row in session.sql(f"SELECT id, n FROM {name} ORDER BY id").rows] == [
        ("j0", None),
        ("j1", None),
        ("j2", None),
        ("k0", 0),
        ("k1", 1),
        ("k2", 2),
    ]
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    (tmp_path / "csv" / "later.csv").write_text("id,n\nlate,1\n")
    (new, *_) = call("verify_bootstrap", table=name)
    assert (Path(new["path"]).name, "MERGE INTO takes its rows" in new["detail"]) == ("later.csv", True)
    with pytest.raises(InvalidArgumentError, match="was made of a CSV table") as refused:
        call("resync_bootstrap", table=name)
    assert f"MERGE INTO {name} USING {source}" in str(refused.value.hint)


@pytest.mark.parametrize("kind", parameters(["orc", "text", "json"], in_ci=["text"]))
def test_partition_values_that_are_escaped_or_null_and_a_filter(
    rewrite: Callable[..., Any], call: Callable[..., Any], session: Any, tmp_path: Path, name: str, kind: str
) -> None:
    rows = ROWS.replace(
        "concat('2024-03-0', id % 2 + 1)",
        "CASE id % 4 WHEN 0 THEN 'a:b' WHEN 1 THEN NULL WHEN 2 THEN 'x y' END",
    )
    source = other_table(session, kind, name, tmp_path / "s", rows=rows)
    done = rewrite(source, partition_filter="dt IS NULL OR dt = 'a:b'")
    assert [(row["partition"], row["rows"]) for row in done] == [
        ("dt=__HIVE_DEFAULT_PARTITION__", 20),
        ("dt=a%3Ab", 10),
        ("TOTAL", 30),
    ]
    # Spark shows the name of the directory where a partition value of a Hive table is NULL.
    shown = [
        (*row[:-1], None if str(row[-1]).startswith("__HIVE") else row[-1])
        for row in rows_of(session, source)
    ]
    assert rows_of(session, name) == [row for row in shown if row[-1] != "x y"]
    values = pq.read_table(next((tmp_path / "t").glob("dt=__HIVE*/*.parquet")), partitioning=None)["dt"]
    assert values.null_count == len(values)
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    done = rewrite(source, partition_filter="dt <> 'x y'", target_path=tmp_path / "other", sync=False)
    assert [row["partition"] for row in done] == ["dt=a%3Ab", "TOTAL"]


def test_repeated_and_missing_keys_stop_the_run_before_the_commit(
    rewrite: Callable[..., Any], session: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,n\na,1\n,2\n")
    source = csv_table(session, name, tmp_path / "csv")
    with pytest.raises(BootstrapBlockedError, match="1 rows have a null or empty record key") as refused:
        rewrite(source)
    assert str(tmp_path / "csv" / "a.csv") in str(refused.value)
    (tmp_path / "csv" / "a.csv").write_text("id,n\na,1\nb,2\n")
    (tmp_path / "csv" / "b.csv").write_text("id,n\nb,1\n")
    with pytest.raises((BootstrapBlockedError, RepeatedKeysError), match="'b'"):
        rewrite(source)
    with pytest.raises(BootstrapBlockedError, match="there is no record key column key"):
        rewrite(source, record_key="key")
    assert not (tmp_path / "t").exists()
    rewrite(source, record_key=["id", "n"])
    assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == 3


def test_a_failed_run_is_resumed(
    rewrite: Callable[..., Any], session: Any, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise StorageError("injected fault")

    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,n\na,1\nb,2\n")
    source = csv_table(session, name, tmp_path / "csv")
    with monkeypatch.context() as patched:
        patched.setattr(plan_execution, "write_table_files", fail)
        with pytest.raises(StorageError, match="injected fault"):
            rewrite(source, resume=True)
    assert (visible_rows(tmp_path / "t"), len(list((tmp_path / "t").glob("*.parquet")))) == (None, 1)
    assert rewrite(source, resume=True)[-1]["rows"] == 2
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == 2


@pytest.mark.soak
@pytest.mark.parametrize("step", [2, 9])
def test_a_killed_run_is_resumed(
    spark: Any,
    metastore_uri: str,
    rewrite: Callable[..., Any],
    session: Any,
    tmp_path: Path,
    name: str,
    step: int,
) -> None:
    source = other_table(session, "orc", name, tmp_path / "s")
    given = {"table": name, "source_table": source, "record_key": "id", "target_path": tmp_path / "t"}
    arguments = ", ".join(f"{key} => {sql_literal(value)}" for key, value in given.items())
    ended = run_with_fault(
        spark,
        metastore_uri,
        statement=f"CALL bootstrap_table({arguments}, mode => 'full_record')",
        target=str(tmp_path / "t"),
        fault="kill",
        process="driver",
        step=step,
    )
    assert ended.returncode == -9, ended.stderr
    assert visible_rows(tmp_path / "t") is None
    with pytest.raises(BootstrapBlockedError, match="resume => true continues it"):
        rewrite(source)
    rewrite(source, resume=True)
    check_is_whole(session, name, tmp_path / "t", 40)


def test_tables_without_rows_and_views_come_by_the_statement_of_the_error(
    rewrite: Callable[..., Any], session: Any, tmp_path: Path, name: str
) -> None:
    source = plain_table(session, name, "(id string, n int) STORED AS ORC")
    session.spark.sql(f"CREATE VIEW {name}_view AS SELECT 'a' AS id, 1 AS n")
    with pytest.raises(BootstrapBlockedError, match="has no rows") as empty:
        rewrite(source)
    with pytest.raises(SourceError, match="is a view") as view:
        rewrite(f"{name}_view")
    assert view.value.hint is not None
    for text, rows in ((str(empty.value), 0), (view.value.hint, 1)):
        statement = text[text.index("CREATE TABLE") :].splitlines()[0].removesuffix(")")
        session.sql(statement)
        assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == rows
        session.sql(f"DROP TABLE {name} PURGE")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,n\n")
    only_header = csv_table(session, f"{name}_header", tmp_path / "csv")
    assert rewrite(only_header)[-1]["rows"] == 0
    assert session.sql(f"SELECT count(*) FROM {name}").rows[0][0] == 0


def test_header_lines_that_spark_would_read_as_rows_stop_the_run(
    rewrite: Callable[..., Any], session: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,n\na,1\n")
    source = plain_table(
        session,
        name,
        f"(id string, n int) {HIVE_CSV} STORED AS TEXTFILE LOCATION '{tmp_path / 'csv'}'"
        " TBLPROPERTIES ('skip.header.line.count' = '1')",
    )
    assert session.spark.sql(f"SELECT count(*) FROM {source}").collect()[0][0] == 2
    with pytest.raises(
        BootstrapBlockedError, match=r"skip\.header\.line\.count = 1, which Spark does not follow"
    ):
        rewrite(source)


def test_a_managed_source_may_be_dropped_and_the_verification_says_so(
    rewrite: Callable[..., Any], call: Callable[..., Any], session: Any, name: str
) -> None:
    source = plain_table(session, name, "USING orc AS SELECT 'a' AS id, CAST(1 AS smallint) AS n")
    rewrite(source)
    assert call("verify_bootstrap", table=name, level="full")[-1]["severity"] == "ok"
    session.sql(f"DROP TABLE {source}")
    assert [tuple(row) for row in session.sql(f"SELECT id, n FROM {name}").rows] == [("a", 1)]
    (*found, last) = call("verify_bootstrap", table=name, level="full")
    assert last["severity"] == "ok"
    assert any(row["path"] == source for row in found)


def test_settings_that_would_lose_rows_stop_the_run(
    rewrite: Callable[..., Any], session: Any, name: str
) -> None:
    source = plain_table(session, name, "USING orc AS SELECT 'a' AS id")
    session.sql("SET spark.sql.files.ignoreCorruptFiles = true")
    try:
        with pytest.raises(BootstrapBlockedError, match="ignoreCorruptFiles is true: rows of files that"):
            rewrite(source)
    finally:
        session.sql("RESET spark.sql.files.ignoreCorruptFiles")
