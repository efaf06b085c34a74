"""INSERT, UPDATE, DELETE and MERGE on a bootstrapped table, on a real metastore and by real Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import (
    HudisqlError,
    QueryError,
    SettingsError,
    SqlSyntaxError,
    UnsupportedStatementError,
    WriteRefusedError,
)
from hudisql.format.table_properties import METADATA_PARTITIONS
from hudisql.session import Session
from hudisql.storage import Storage
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.execution import apply_changes as apply
from hudisql.write.execution.task_results import collect_files
from hudisql.write.execution.write_context import WrittenFile
from tests.opened import open_at
from tests.spark_versions import needs_spark
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]
ANSI = needs_spark("4.0", "ANSI mode by default")


def test_delete_removes_just_the_rows_that_its_condition_names(table: ChangedTable) -> None:
    assert table.run("DELETE FROM {t} WHERE seq < 3 OR dt = '2024-03-03'") == {
        "deleted": 13,
        "files_written": 2,
    }
    assert table.seqs() == list(range(3, 20))
    assert table.run("DELETE FROM {t} AS x WHERE x.id IN (SELECT id FROM {t} WHERE seq = 5)")["deleted"] == 1
    assert table.run("DELETE FROM {t} WHERE seq > 1000") == {}
    assert len(table.instants()) == 3
    assert table.run("DELETE FROM {t}")["deleted"] == 16
    assert table.rows() == []


def test_update_changes_the_assigned_columns_alone(table: ChangedTable) -> None:
    untouched = table.rows("id, _hoodie_commit_time, _hoodie_commit_seqno, tags, at", "seq <> 12")
    text = "UPDATE {t} t SET t.price = price + 0.5, st.b = upper(st.b), seq = NULL WHERE id = 'k12'"
    assert table.run(text) == {"updated": 1, "files_written": 1}
    assert table.rows("seq, price, st, tags", "id = 'k12'") == [
        (None, Decimal("12.50"), (12, "S12"), ["t12", None])
    ]
    after = table.rows("id, _hoodie_commit_time, _hoodie_commit_seqno, tags, at", "id <> 'k12'")
    assert after == untouched
    [(instant, number)] = table.rows("_hoodie_commit_time, _hoodie_commit_seqno", "id = 'k12'")
    assert number == f"{instant}_0_0"
    assert table.instants()[-1] == f"{instant} commit"


def test_update_reads_other_tables_and_its_own(table: ChangedTable) -> None:
    text = (
        "UPDATE {t} SET price = (SELECT max(price) FROM {t}) WHERE EXISTS "
        "(SELECT 1 FROM VALUES ('k01'), ('k02') v(key) WHERE v.key = {t}.id)"
    )
    assert table.run(text)["updated"] == 2
    assert [row[0] for row in table.rows("price", "seq < 3")] == [0, 29, 29]


def test_an_update_of_key_or_partition_moves_the_row(table: ChangedTable) -> None:
    moved = table.run("UPDATE {t} SET dt = '2024-03-09', seq = seq + 100 WHERE seq IN (1, 2)")
    assert moved == {"moved": 2, "files_written": 2}
    assert table.rows("id, seq, dt, _hoodie_partition_path", "seq > 100") == [
        ("k01", 101, "2024-03-09", "dt=2024-03-09"),
        ("k02", 102, "2024-03-09", "dt=2024-03-09"),
    ]
    assert table.run("UPDATE {t} SET id = concat('m', id) WHERE id = 'k05'")["moved"] == 1
    assert table.rows("_hoodie_record_key, seq", "id = 'mk05'") == [("mk05", 5)]
    assert len(table.rows()) == ROWS
    assert table.run("UPDATE {t} SET id = id, dt = dt WHERE seq = 7") == {"updated": 1, "files_written": 1}


def test_insert_adds_rows_by_position_by_name_and_to_a_partition(table: ChangedTable) -> None:
    assert table.run("INSERT INTO {t} VALUES ('n1', 1, 1.5, NULL, array('x'), NULL, '2024-03-05')") == {
        "inserted": 1,
        "files_written": 1,
    }
    table.run("INSERT INTO {t} PARTITION (dt = '2024-03-06') (id, price) SELECT 'n2', 2")
    table.run("INSERT INTO {t} BY NAME SELECT '2024-03-06' AS dt, 'n3' AS id")
    table.run("WITH c AS (SELECT 'n4' AS id) INSERT INTO {t} (dt, id) SELECT '2024-03-01', id FROM c")
    assert table.rows(where="id LIKE 'n%'") == [
        ("n1", 1, Decimal("1.50"), "2024-03-05"),
        ("n2", None, Decimal("2.00"), "2024-03-06"),
        ("n3", None, None, "2024-03-06"),
        ("n4", None, None, "2024-03-01"),
    ]
    copied = "INSERT INTO {t} SELECT concat('c', id), seq, price, st, tags, at, dt FROM {t}"
    assert table.run(copied)["inserted"] == 34
    partitions = {row[0] for row in table.session.sql("SHOW PARTITIONS changes.t").rows}
    assert {"dt=2024-03-05", "dt=2024-03-06"} <= partitions


@pytest.mark.soak
def test_new_rows_fill_small_files_and_large_batches_make_several(table: ChangedTable) -> None:
    with setting(table.session, "hoodie.parquet.max.file.size", "200000"):
        added = "SELECT concat('n', id), id, 1, NULL, NULL, NULL, '2024-04-01' FROM range(20000)"
        table.run(f"INSERT INTO {{t}} {added}")
    files = table.session.sql(f"SELECT _hoodie_file_name, count(*) c FROM {table.name} "
                              "WHERE dt = '2024-04-01' GROUP BY 1").rows  # fmt: skip
    assert len(files) > 1
    assert sum(row.c for row in files) == 20000
    assert table.run("INSERT INTO {t} (id, dt) VALUES ('more', '2024-04-01')")["files_written"] == 1
    again = table.session.sql(f"SELECT count(DISTINCT _hoodie_file_name) FROM {table.name} "
                              "WHERE dt = '2024-04-01'").rows  # fmt: skip
    assert again[0][0] == len(files)


def test_merge_takes_the_first_clause_that_fits(table: ChangedTable) -> None:
    text = """
        MERGE INTO {t} AS t
        USING (SELECT id, seq, CASE WHEN seq = 4 THEN 'gone' ELSE 'kept' END AS mark FROM {t} WHERE seq < 8
               UNION ALL SELECT 'new', 50, 'kept' UNION ALL SELECT 'left out', 51, 'gone') s
        ON t.id = s.id
        WHEN MATCHED AND s.mark = 'gone' THEN DELETE
        WHEN MATCHED AND t.seq < 2 THEN UPDATE SET price = t.price - s.seq, st.a = -1
        WHEN MATCHED AND t.seq < 6 THEN UPDATE SET t.tags = array(s.mark)
        WHEN NOT MATCHED AND mark = 'kept' THEN INSERT (id, seq, dt) VALUES (id, abs(-seq), '2024-03-03')
    """
    assert table.run(text) == {"inserted": 1, "updated": 5, "deleted": 1, "files_written": 2}
    assert table.rows("id, price, st.a, tags", "seq < 7") == [
        ("k00", 0, -1, ["t0", None]),
        ("k01", 0, -1, ["t1", None]),
        ("k02", 2, 2, ["kept"]),
        ("k03", 3, 3, ["kept"]),
        ("k05", 5, 5, ["kept"]),
        ("k06", 6, 6, ["t6", None]),
    ]
    assert table.rows(where="id IN ('new', 'left out')") == [("new", 50, None, "2024-03-03")]


def test_merge_by_star_needs_every_column_and_casts_as_insert_does(table: ChangedTable) -> None:
    source = (
        "SELECT 'k03' AS id, 33 AS seq, 1 AS price, named_struct('a', 1, 'b', 'x') AS st, "
        "array('q') AS tags, TIMESTAMP'1970-01-01' AS at, '2024-03-01' AS DT "
        "UNION ALL SELECT 'k99', 99, 2, NULL, NULL, NULL, '2024-03-02'"
    )
    text = (
        f"MERGE INTO {{t}} t USING ({source}) s ON s.id = t.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert table.run(text) == {"inserted": 1, "updated": 1, "files_written": 2}
    assert table.rows(where="seq IN (33, 99)") == [
        ("k03", 33, Decimal("1.00"), "2024-03-01"),
        ("k99", 99, Decimal("2.00"), "2024-03-02"),
    ]
    with pytest.raises(WriteRefusedError, match="the source has no column 'seq'"):
        table.run("MERGE INTO {t} t USING (SELECT 'k1' id) s ON s.id = t.id WHEN MATCHED THEN UPDATE SET *")


def test_merge_by_source_changes_what_has_no_source_row(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE seq < 28) s ON t.id = s.id "
        "WHEN NOT MATCHED BY SOURCE AND t.seq = 28 THEN UPDATE SET price = -1 "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert table.run(text) == {"updated": 1, "deleted": 1, "files_written": 1}
    assert table.rows("price", "seq > 27") == [(Decimal("-1.00"),)]


def test_merge_moves_rows_whose_partition_changes(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (SELECT 'k03' id, '2024-03-02' day) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET dt = s.day"
    )
    assert table.run(text)["moved"] == 1
    assert table.rows(where="id = 'k03'") == [("k03", 3, Decimal("3.00"), "2024-03-02")]


@pytest.mark.soak
def test_of_several_source_rows_the_newest_by_the_ordering_column_wins(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (VALUES ('k03', {0}, 1), ('k03', 40, 2), ('k04', 41, 3)) s(id, seq, p) "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET seq = s.seq, price = s.p"
    )
    assert table.run(text.replace("{0}", "39")) == {"updated": 2, "combined": 1, "files_written": 1}
    assert table.rows("seq, price", "id IN ('k03', 'k04')") == [(40, 2), (41, 3)]
    with pytest.raises(WriteRefusedError, match=r"several source rows .*'k03'"):
        table.run(text.replace("{0}", "40"))
    with pytest.raises(WriteRefusedError, match="several source rows"):
        table.run(
            "MERGE INTO {t} t USING (VALUES ('k03', 1), ('k03', 2)) s(id, p) "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = s.p"
        )
    assert [each.split()[1] for each in table.instants()] == ["commit", "commit", "rollback", "rollback"]


@pytest.mark.soak
def test_of_several_rows_that_a_merge_inserts_with_one_key_the_newest_stays(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (VALUES ('n1', {0}, 1, '2024-03-01'), ('n1', 40, 2, '2024-03-01'), "
        "('n1', 40, 2, '2024-03-01'), ('n1', 7, 1, '2024-03-02'), ('n2', 8, 1, '{1}'), ('n2', 9, 1, '{1}'), "
        "('k03', 50, 1, '2024-03-01')) s(id, seq, price, dt) ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET seq = s.seq "
        "WHEN NOT MATCHED THEN INSERT (id, seq, price, dt) VALUES (s.id, s.seq, s.price, s.dt)"
    )
    before = table.rows()
    # In a small file group that is filled up, and in a new one.
    for partition in ("2024-03-02", "2024-05-01"):
        with pytest.raises(WriteRefusedError, match=r"1 key\(s\).*'n1'.*highest seq alone"):
            table.run(text.replace("{0}", "40").replace("{1}", partition))
    assert table.rows() == before
    counts = table.run(text.replace("{0}", "39").replace("{1}", "2024-05-01"))
    assert (counts["inserted"], counts["updated"], counts["combined"]) == (3, 1, 3)
    assert sorted(table.rows(where="id LIKE 'n%' OR id = 'k03'"), key=str) == [
        ("k03", 50, Decimal("3.00"), "2024-03-01"),
        ("n1", 40, Decimal("2.00"), "2024-03-01"),
        ("n1", 7, Decimal("1.00"), "2024-03-02"),
        ("n2", 9, Decimal("1.00"), "2024-05-01"),
    ]


def test_a_merge_that_is_run_again_for_repeated_keys_says_that_the_metadata_table_is_gone(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    update_table_properties(Storage(), table.path, {METADATA_PARTITIONS: "files"})
    table.run(
        "MERGE INTO {t} t USING (VALUES ('n1', 39), ('n1', 40)) s(id, seq) ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, s.seq, '2024-03-01')"
    )
    assert [text for text in said if "its metadata table is dropped" in text] == said
    assert len(said) == 1


@pytest.mark.soak
def test_tasks_tell_of_repeated_keys_once_and_in_short(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[WrittenFile]] = []

    def collect(*arguments: Any) -> list[WrittenFile]:
        given.append(collect_files(*arguments))
        return given[-1]

    monkeypatch.setattr(apply, "collect_files", collect)
    with setting(table.session, "hoodie.parquet.max.file.size", "60000"):
        counts = table.run(
            "MERGE INTO {t} t USING (SELECT concat('n', id % 5000) AS id, int(id) AS seq "
            "FROM range(10000)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, seq, dt) "
            "VALUES (s.id, s.seq, 'new')"
        )
    assert counts["inserted"] == 5000
    repeated = [file.repeated_keys for file in given[0]]
    assert len(repeated) > 1
    assert sum(each.count for each in repeated) == 5000
    assert max(len(each.samples) for each in repeated) <= 5


def test_without_an_ordering_value_a_merge_inserts_no_key_twice(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (VALUES ('n1', 1), ('n1', 2)) s(id, p) ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, price, dt) VALUES (s.id, s.p, '2024-03-01')"
    )
    with pytest.raises(WriteRefusedError, match="'n1'"):
        table.run(text)
    assert len(table.rows()) == ROWS
    table.session.sql("ALTER TABLE changes.t UNSET TBLPROPERTIES IF EXISTS (preCombineField)")
    with pytest.raises(WriteRefusedError, match="several new rows have one record key"):
        table.run(text.replace("(id, price, dt)", "(id, seq, dt)"))
    assert len(table.rows()) == ROWS


def test_a_row_that_a_merge_moves_onto_an_inserted_key_stops_it(table: ChangedTable) -> None:
    text = (
        "MERGE INTO {t} t USING (VALUES ('k01', 'n1', 1), ('x', 'n1', 2)) s(old, new, seq) ON t.id = s.old "
        "WHEN MATCHED THEN UPDATE SET id = s.new "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.new, s.seq, '2024-03-01')"
    )
    with pytest.raises(WriteRefusedError, match="'n1'"):
        table.run(text)
    assert len(table.rows()) == ROWS


def test_an_insert_upserts_by_the_record_key_if_there_is_an_ordering_column(table: ChangedTable) -> None:
    rows = (
        "VALUES ('k03', 300, '2024-03-01'), ('k03', 200, '2024-03-01'), ('k04', 400, '2024-03-09'), "
        "('new', 500, '2024-03-02')"
    )
    assert table.run(f"INSERT INTO {{t}} (id, seq, dt) {rows}") == {
        "inserted": 2,
        "updated": 1,
        "combined": 1,
        "files_written": 3,
    }
    with pytest.raises(WriteRefusedError, match="no record key"):
        table.run("INSERT INTO {t} (seq, dt) VALUES (1, '2024-03-01')")
    # The index is not a global one: a key is one row in each partition.
    assert table.rows("id, seq, price, dt", "seq >= 100 OR id = 'k04'") == [
        ("k03", 300, None, "2024-03-01"),
        ("k04", 4, Decimal("4.00"), "2024-03-01"),
        ("k04", 400, None, "2024-03-09"),
        ("new", 500, None, "2024-03-02"),
    ]


def test_an_insert_adds_rows_of_known_keys_if_that_is_set(table: ChangedTable) -> None:
    with setting(table.session, "hoodie.spark.sql.insert.into.operation", "insert"):
        table.run("INSERT INTO {t} (id, seq, dt) VALUES ('k03', 300, '2024-03-01')")
    assert sorted(table.seqs("id = 'k03'")) == [3, 300]


def test_insert_overwrite_takes_the_place_of_table_partition_or_touched_partitions(
    table: ChangedTable,
) -> None:
    one = "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') (id, seq) SELECT 'o1', 1"
    assert table.run(one) == {"inserted": 1, "files_written": 1}
    assert table.rows("id, seq", "dt = '2024-03-02'") == [("o1", 1)]
    assert table.instants()[-1].endswith("replacecommit")
    with setting(table.session, "hoodie.datasource.overwrite.mode", "dynamic"):
        table.run("INSERT OVERWRITE {t} (id, seq, dt) SELECT 'o2', seq, dt FROM {t} WHERE id = 'k29'")
    assert [row[0] for row in table.rows("id", "dt > '2024-03-01'")] == ["o1", "o2"]
    assert len(table.rows()) == 12
    nothing = "SELECT id, seq, price, st, tags, at FROM {t} WHERE false"
    assert table.run(f"INSERT OVERWRITE {{t}} PARTITION (dt = '2024-03-02') {nothing}") == {}
    assert len(table.rows()) == 11
    assert table.run("INSERT OVERWRITE TABLE {t} (id, dt) VALUES ('last', 'x')")["inserted"] == 1
    assert table.rows("id, dt") == [("last", "x")]


@ANSI
def test_a_refused_change_leaves_the_table_as_it_was(table: ChangedTable) -> None:
    before = table.rows()
    for text in (
        "INSERT INTO {t} (seq, dt) VALUES (1, '2024-03-01')",
        "UPDATE {t} SET seq = CAST(id AS BIGINT)",
        "UPDATE {t} SET price = 1e12",
        "MERGE INTO {t} t USING (SELECT 'k03' id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seq = 1 / 0",
    ):
        with pytest.raises(HudisqlError) as caught:
            table.run(text)
        assert "Traceback" not in str(caught.value)
        assert table.rows() == before
    assert len([each for each in table.instants() if each.endswith(" commit")]) == 1
    names = [path.name for path in Path(table.path).rglob("*.parquet")]
    assert len(names) == 3


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("UPDATE {t} SET nope = 1", WriteRefusedError, "changes.t has no column 'nope'"),
        ("UPDATE {t} SET st.z = 1", WriteRefusedError, "column 'st' has no field 'z'"),
        ("UPDATE {t} SET st.a = 1, st = NULL", WriteRefusedError, "assigned twice"),
        ("UPDATE {t} SET seq = 'a'", WriteRefusedError, "column 'seq' of changes.t is bigint"),
        ("UPDATE {t} SET seq = ghost WHERE id = 'x'", QueryError, "line 1, column 28"),
        ("UPDATE {t} SET seq", SqlSyntaxError, "= is missing"),
        ("DELETE FROM {t} WHERE", SqlSyntaxError, "an expression is missing"),
        ("INSERT INTO {t} VALUES (1, 2)", WriteRefusedError, "takes 7 columns"),
        ("INSERT INTO {t} (id, ID) VALUES (1, 2)", WriteRefusedError, "twice"),
        ("INSERT INTO {t} (id, nope) VALUES (1, 2)", WriteRefusedError, "no column 'nope'"),
        ("MERGE INTO {t} t USING x s ON true WHEN MATCHED THEN INSERT *", SqlSyntaxError, "cannot follow"),
        ("MERGE INTO {t} t USING x s ON true", SqlSyntaxError, "WHEN is missing"),
        ("MERGE INTO {t} t USING (SELECT 1 id) ON t.id = 1 WHEN MATCHED THEN DELETE",
         UnsupportedStatementError, "has no name"),
        ("UPDATE {t} seq = 1", SqlSyntaxError, "SET is missing"),
        ("UPDATE {t} SET seq 1", SqlSyntaxError, "= is missing"),
        ("DELETE FROM {t} LIMIT 5", SqlSyntaxError, "not expected"),
        ("DELETE {t} WHERE seq = 1", SqlSyntaxError, "FROM is missing"),
        ("INSERT INTO {t} REPLACE WHERE seq = 1 SELECT 1", SqlSyntaxError, "REPLACE WHERE is not supported"),
        ("MERGE INTO {t} t USING {t} s t.id = s.id WHEN MATCHED THEN DELETE",
         SqlSyntaxError, "ON is missing"),
        ("MERGE INTO {t} t USING {t} s ON t.id = s.id MATCHED THEN DELETE",
         SqlSyntaxError, "WHEN is missing"),
        ("MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED DELETE",
         SqlSyntaxError, "THEN is missing"),
        ("MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (1)",
         SqlSyntaxError, "2 columns, but 1 values"),
        # Places in the statement, whatever part of it Spark was given.
        ("INSERT INTO {t} (id, dt) SELECT 1 FORM x y", SqlSyntaxError, "line 1, column 46"),
        pytest.param(
            "INSERT INTO {t} VALUES (1, 2), (3)",
            SqlSyntaxError,
            "line 1, column 23",
            marks=needs_spark("4.0", "rows of one length as a rule of the grammar"),
        ),
        ("WITH c AS (SELECT 1) INSERT INTO {t} SELEC 1", SqlSyntaxError, "line 1, column 44"),
        ("INSERT INTO {t} PARTITION (dt = ghost) (id) SELECT 1", QueryError, "line 1, column 39"),
        pytest.param(
            "INSERT INTO {t} (id, dt) SELECT 'x', CAST(id || 'y' AS INT) FROM {t}",
            QueryError,
            "column 44",
            marks=ANSI,
        ),
        pytest.param(
            "INSERT INTO {t} (id, seq, dt) SELECT 'x', 1 % 0, 'y'",
            QueryError,
            "line 1, column 49",
            marks=ANSI,
        ),
        pytest.param("UPDATE {t} SET price = 1, seq = 1 % 0", QueryError, "line 1, column 39", marks=ANSI),
    ],
)  # fmt: skip
def test_bad_statements_get_one_clear_error(
    table: ChangedTable, text: str, kind: type[HudisqlError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        table.run(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.compression.codec", "lzo"),
        ("hoodie.parquet.max.file.size", "big"),
        ("hoodie.index.bloom.fpp", "2"),
        ("hoodie.spark.sql.insert.into.operation", "append"),
        ("hoodie.sql.insert.mode", "lenient"),
        ("hoodie.datasource.insert.dup.policy", "skip"),
    ],
)
def test_a_setting_that_is_not_understood_stops_the_statement(
    table: ChangedTable, key: str, value: str
) -> None:
    with setting(table.session, key, value), pytest.raises(SettingsError, match=key):
        table.run("INSERT INTO {t} (id, dt) VALUES ('x', 'y')")


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_metadata_table_is_kept_unless_it_lacks_a_commit(
    session: Session, golden: Callable[[str], Any], tmp_path: Path, is_stale: bool
) -> None:
    path = tmp_path / "table"
    shutil.copytree(golden("cow_bootstrap_meta_mdt").table, path)
    if is_stale:
        (path / ".hoodie/metadata/.hoodie/00000000000001.deltacommit").unlink()
    session.sql(f"CALL hive_sync(table => 'changes.mdt', path => '{path}')")
    session.sql("DELETE FROM changes.mdt WHERE seq = (SELECT min(seq) FROM changes.mdt)")
    left = open_at(path)
    assert left.properties.metadata_partitions == (() if is_stale else ("files",))
    assert (path / ".hoodie/metadata").exists() is not is_stale
    if not is_stale:
        kept = find_kept(left)
        assert kept is not None
        assert [found for found in compare_listings(kept) if found.differs] == []
    session.sql("DROP TABLE changes.mdt")
