"""Bulk inserts and overwrites: rows that go straight into new file groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudisql.errors import HudisqlError, QueryError, SettingsError, WriteRefusedError
from hudisql.format.keys.bloom_filter import parse_bloom_filter
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE, parse_partition_metadata
from hudisql.format.schema.meta_columns import FOOTER_BLOOM_FILTER, RECORD_KEY
from hudisql.session import Session
from tests.opened import open_at
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

OPERATION = "hoodie.spark.sql.insert.into.operation"
COMBINE = "hoodie.combine.before.insert"
SORT_MODE = "hoodie.bulkinsert.sort.mode"
SORT_COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"


def files_of(table: ChangedTable, day: str, instant: str) -> list[Path]:
    """The base files of a partition that the instant wrote."""
    return sorted((Path(table.path) / f"dt={day}").glob(f"*_{instant}.parquet"))


@pytest.mark.parametrize("mode", ["NONE", "PARTITION_SORT", "GLOBAL_SORT", "PARTITION_PATH_REPARTITION"])
def test_a_bulk_insert_adds_each_row_once_in_every_order(table: ChangedTable, mode: str) -> None:
    before = table.rows()
    text = "INSERT INTO {t} (id, seq, dt) SELECT concat('n', id), seq, if(seq < 3, NULL, dt) FROM {t}"
    with setting(table.session, OPERATION, "bulk_insert"), setting(table.session, SORT_MODE, mode):
        done = table.run(text)
    assert done["inserted"] == 30
    assert [row for row in table.rows() if row[0].startswith("k")] == before
    assert sorted(table.seqs("id LIKE 'n%'")) == list(range(30))
    assert table.seqs("dt IS NULL") == [0, 1, 2]
    if mode.startswith("PARTITION_PATH"):
        assert done["files_written"] == 4
    assert table.orphans() == []


def test_rows_are_sorted_by_the_columns_that_are_named(table: ChangedTable) -> None:
    text = "INSERT OVERWRITE {t} (id, seq, dt) SELECT id, (seq * 7) % 30, '2024-03-01' FROM {t}"
    with setting(table.session, SORT_COLUMNS, "SEQ"):
        table.run(text)
    instant = table.instants()[-1].split()[0]
    written = [
        pq.read_table(each, columns=["seq"])["seq"].to_pylist()
        for each in files_of(table, "2024-03-01", instant)
    ]
    assert sorted(written) == [sorted(each) for each in sorted(written)]
    assert sorted(value for each in written for value in each) == list(range(30))
    with (
        setting(table.session, SORT_COLUMNS, "nothing"),
        pytest.raises(SettingsError, match="no such column"),
    ):
        table.run(text)


def test_the_bloom_filter_is_made_for_the_rows_of_its_file(table: ChangedTable) -> None:
    table.run("INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') (id, seq) SELECT id, seq FROM {t}")
    instant = table.instants()[-1].split()[0]
    [file] = files_of(table, "2024-03-02", instant)
    footer = pq.read_metadata(file).metadata
    bloom_filter = parse_bloom_filter(footer[FOOTER_BLOOM_FILTER.encode()])
    assert bloom_filter.entries_per_row == 30
    assert bloom_filter.might_contain(pq.read_table(file, columns=[RECORD_KEY])[RECORD_KEY]).all()


def test_rows_of_one_key_are_combined_only_by_an_ordering_column(table: ChangedTable) -> None:
    of_199_keys = "(id, seq, dt) SELECT concat('c', id % 199), id, concat('x', id % 199 % 2) FROM range(400)"
    for verb, operation in (("OVERWRITE", "bulk_insert"), ("INTO", "bulk_insert"), ("INTO", "insert")):
        with setting(table.session, OPERATION, operation):
            counts = table.run(f"INSERT {verb} {{t}} {of_199_keys}")
        assert (counts["inserted"], counts["combined"]) == (199, 201), (verb, operation)
    with setting(table.session, COMBINE, "false"):
        assert (
            table.run("INSERT OVERWRITE {t} (id, seq, dt) VALUES ('a', 1, 'x'), ('a', 2, 'x')")["inserted"]
            == 2
        )
    table.session.sql("ALTER TABLE changes.t UNSET TBLPROPERTIES IF EXISTS (preCombineField)")
    text = "INSERT OVERWRITE {t} (id, seq, dt) VALUES ('a', 1, 'x'), ('a', 2, 'x'), ('b', 3, 'x')"
    assert table.run(text)["inserted"] == 3
    with setting(table.session, COMBINE, "true"):
        with pytest.raises(SettingsError, match="no ordering column"):
            table.run(text)
        assert table.run("DELETE FROM {t} WHERE id = 'b'")["deleted"] == 1


def test_a_bulk_insert_of_nothing_is_no_commit(table: ChangedTable) -> None:
    before = table.instants()
    with setting(table.session, OPERATION, "bulk_insert"):
        assert table.run("INSERT INTO {t} SELECT * FROM {t} WHERE seq > 1000") == {}
    assert table.instants() == before
    assert open_at(table.path).timeline.pending == ()


@pytest.mark.parametrize(
    ("select", "error", "words"),
    [
        ("SELECT NULL, seq, dt FROM {t}", WriteRefusedError, "no record key"),
        ("SELECT id, CAST(assert_true(seq < 20) AS INT), dt FROM {t}", QueryError, "is not true"),
    ],
)
def test_a_load_that_fails_leaves_nothing(
    table: ChangedTable, select: str, error: type[Exception], words: str
) -> None:
    before = table.rows()
    with setting(table.session, OPERATION, "bulk_insert"), pytest.raises(error, match=f"(?i){words}"):
        table.run(f"INSERT INTO {{t}} (id, seq, dt) {select}")
    assert table.rows() == before
    assert table.orphans() == []


def test_an_unknown_order_is_refused(table: ChangedTable) -> None:
    with (
        setting(table.session, OPERATION, "bulk_insert"),
        setting(table.session, SORT_MODE, "sideways"),
        pytest.raises(SettingsError, match="must be one of NONE"),
    ):
        table.run("INSERT INTO {t} SELECT * FROM {t}")


def test_the_table_s_own_settings_say_how_rows_are_inserted(table: ChangedTable) -> None:
    own = {OPERATION: "bulk_insert", "hoodie.datasource.overwrite.mode": "dynamic"}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in own.items())
    table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({listed})")
    text = "INSERT INTO {t} (id, seq, dt) VALUES ('k01', 100, '2024-03-01')"
    assert table.run(text)["inserted"] == 1
    assert sorted(table.seqs("id = 'k01'")) == [1, 100]
    with setting(table.session, OPERATION, "upsert"):
        assert table.run(text.replace("k01", "k02"))["updated"] == 1
    days = len(set(table.rows("dt")))
    table.run("INSERT OVERWRITE {t} (id, seq, dt) VALUES ('new', 1, 'another'), ('k01', 1, '2024-03-01')")
    assert len(set(table.rows("dt"))) == days + 1


def test_a_partition_marker_that_a_killed_writer_left_empty_is_written_again(table: ChangedTable) -> None:
    marker = Path(table.path) / "dt=2024-04-01" / PARTITION_METADATA_FILE
    marker.parent.mkdir()
    marker.touch()
    with setting(table.session, OPERATION, "bulk_insert"):
        table.run("INSERT INTO {t} (id, seq, dt) VALUES ('n', 1, '2024-04-01')")
    assert parse_partition_metadata(marker.read_bytes()).partition_depth == 1
    written = marker.read_bytes()
    with setting(table.session, OPERATION, "bulk_insert"):
        table.run("INSERT INTO {t} (id, seq, dt) VALUES ('m', 1, '2024-04-01')")
    assert marker.read_bytes() == written


@pytest.mark.parametrize("columns", ["id", "id, _hoodie_record_key"])
def test_a_data_file_that_went_under_a_query_is_told_with_what_to_do(
    table: ChangedTable, columns: str
) -> None:
    table.run("INSERT OVERWRITE {t} (id, seq, dt) SELECT id, seq, '2024-03-01' FROM {t}")
    result = table.session.sql(f"SELECT {columns} FROM {table.name}")
    assert result.has_rows
    instant = table.instants()[-1].split()[0]
    gone = files_of(table, "2024-03-01", instant)
    for path in gone:
        path.unlink()
    with pytest.raises(HudisqlError, match=rf"no such path: .*_{instant}\.parquet") as raised:
        result.arrow()
    assert "run the statement again" in str(raised.value.hint)
    with pytest.raises(HudisqlError, match="run the statement again") as raised:
        _ = result.rows
    assert "REFRESH" not in str(raised.value)


@pytest.mark.parametrize("writer", ["CREATE TABLE AS", "write"])
def test_a_table_that_could_not_be_filled_leaves_what_is_not_its_own(
    session: Session, tmp_path: Path, writer: str
) -> None:
    place = tmp_path / "new"
    foreign = (place / "dt=a" / "part-0.parquet", place / "notes" / "read.me")

    def spoil(number: int) -> int:
        if number == 3:
            for path in foreign:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("not the table's")
        if number == 900:
            raise ValueError("enough")
        return number

    session.spark.udf.register("spoil", spoil, "int")
    rows = "SELECT spoil(int(id)) AS id, if(id < 500, 'a', 'b') AS dt FROM range(0, 1000, 1, 1)"
    options = {
        "path": str(place),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
    }
    statement = (
        f"CREATE TABLE default.filled USING hudi PARTITIONED BY (dt) LOCATION '{place}' "
        f"TBLPROPERTIES (primaryKey = 'id') AS {rows}"
    )
    run: Callable[[], object] = lambda: session.sql(statement)  # noqa: E731
    if writer == "write":
        frame = session.spark.sql(rows)
        run = lambda: session.write(frame, "default.filled", "bulk_insert", **options)  # noqa: E731
    with pytest.raises(QueryError, match="enough"):
        run()
    assert sorted(path for path in place.rglob("*") if path.is_file()) == sorted(foreign)
    assert not (place / "dt=b").exists()
    assert session.context.metastore.get_table("default", "filled") is None
    for path in foreign:
        path.unlink()
    with pytest.raises(QueryError, match="enough"):
        session.sql(
            f"CREATE TABLE default.filled USING hudi LOCATION '{tmp_path / 'own'}' TBLPROPERTIES "
            "(primaryKey = 'id') AS SELECT spoil(int(id)) AS id FROM range(899, 901)"
        )
    assert not (tmp_path / "own").exists()
