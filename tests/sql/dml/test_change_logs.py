"""Changes of merge-on-read tables: log files where they say the same, base files otherwise."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from hudisql.errors import SettingsError
from hudisql.session import Session
from tests.sql.changed_tables import ROWS, ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _files(table: ChangedTable, instant: str | None = None) -> tuple[int, int]:
    """How many base files and log files there are."""
    names = [path.name for path in Path(table.path).rglob("dt=*/*") if "hoodie_partition" not in path.name]
    logs = [name for name in names if ".log." in name and not name.endswith(".crc")]
    bases = [name for name in names if name.endswith(".parquet") and (instant is None or instant in name)]
    return len(bases), len(logs)


@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_updates_and_deletes_append_to_logs_and_are_read_at_once(
    session: Session, merge_on_read_table: ChangedTable, block_format: str
) -> None:
    table = merge_on_read_table
    with setting(session, "hoodie.logfile.data.block.format", block_format):
        assert table.run("UPDATE {t} SET price = price + 0.5, st.b = NULL WHERE seq IN (3, 13)") == {
            "updated": 2,
            "files_written": 2,
        }
        assert table.run("DELETE FROM {t} WHERE seq IN (4, 5)")["deleted"] == 2
    assert _files(table) == (3, 3)
    assert table.rows("id, price, st, tags", "seq IN (3, 4, 13)") == [
        ("k03", Decimal("3.50"), (3, None), ["t3", None]),
        ("k13", Decimal("13.50"), (13, None), ["t13", None]),
    ]
    assert len(table.rows()) == ROWS - 2
    assert [tuple(row) for row in session.sql("SELECT count(*), max(price) FROM changes.m_ro").rows] == [
        (ROWS, Decimal("29.00"))
    ]


def test_without_ordering_columns_each_update_is_appended(session: Session, tmp_path: Path) -> None:
    """As Apache Hudi's, whose compactions come due by the log files."""
    name = "changes.unordered"
    session.sql(
        f"CREATE TABLE {name} (id INT, v INT) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (type = 'mor', primaryKey = 'id')"
    )
    table = ChangedTable(session, name, str(tmp_path / "t"))
    table.run("INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3)")
    for value in (20, 10, 30):
        table.run(f"UPDATE {{t}} SET v = {value} WHERE id <= 2")
        assert table.rows("id, v") == [(1, value), (2, value), (3, 3)]
    table.run("DELETE FROM {t} WHERE id = 1")
    table.run("UPDATE {t} SET v = 5 WHERE id = 2")
    assert table.rows("id, v") == [(2, 5), (3, 3)]
    files = [path.name for path in (tmp_path / "t").iterdir() if path.suffix != ".crc"]
    assert sum(each.endswith(".parquet") for each in files) == 1
    assert sum(".log." in each for each in files) == 5
    session.sql(f"DROP TABLE {name}")


def test_a_lower_ordering_value_is_never_lost_as_late(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    for seq in (100, 2):
        source = f"SELECT 'k03' AS id, {seq} AS seq"
        merge = (
            f"MERGE INTO {{t}} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seq = s.seq"
        )
        assert table.run(merge)["updated"] == 1
        assert table.rows("seq", "id = 'k03'") == [(seq,)]
    assert table.run("DELETE FROM {t} WHERE id = 'k03'")["deleted"] == 1
    table.run("INSERT INTO {t} (id, seq, dt) VALUES ('k03', 1, '2024-03-01')")
    assert table.rows("seq", "id = 'k03'") == [(1,)]


def test_new_rows_and_changes_of_one_slice_make_a_base_file(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    table.run("UPDATE {t} SET price = 0 WHERE seq = 1")
    merge = (
        "MERGE INTO {t} t USING (VALUES ('k01', 7, '2024-03-01'), ('new', 8, '2024-03-02')) s(id, p, dt) "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = s.p "
        "WHEN NOT MATCHED THEN INSERT (id, price, dt) VALUES (id, p, dt)"
    )
    assert table.run(merge) == {"inserted": 1, "updated": 1, "files_written": 2}
    assert table.rows("id, price", "id IN ('k01', 'new')") == [("k01", 7), ("new", 8)]
    assert len(table.rows()) == ROWS + 1
    assert _files(table) == (5, 1)


def test_a_log_that_would_grow_too_large_goes_on_in_its_next_version(
    session: Session, merge_on_read_table: ChangedTable
) -> None:
    table = merge_on_read_table
    merge = (
        "MERGE INTO {t} t USING (SELECT * FROM {t}) s ON t.id = s.id "
        "WHEN MATCHED AND s.seq < 3 THEN DELETE WHEN MATCHED AND s.seq < 9 THEN UPDATE SET price = 7"
    )
    with (
        setting(session, "hoodie.logfile.data.block.max.size", "1"),
        setting(session, "hoodie.logfile.max.size", "1"),
    ):
        # A file for each row that is updated, and one for the deletes of their slice.
        assert table.run(merge) == {"updated": 6, "deleted": 3, "files_written": 7}
    assert _files(table) == (3, 7)
    assert table.seqs("price = 7") == [3, 4, 5, 6, 7, 8]
    assert table.seqs() == list(range(3, ROWS))
    assert table.run("DELETE FROM {t} WHERE seq < 4") == {"deleted": 1, "files_written": 1}
    assert table.seqs() == list(range(4, ROWS))


def test_an_unknown_block_format_is_refused(session: Session, merge_on_read_table: ChangedTable) -> None:
    with (
        setting(session, "hoodie.logfile.data.block.format", "orc"),
        pytest.raises(SettingsError, match="orc"),
    ):
        merge_on_read_table.run("DELETE FROM {t} WHERE seq = 1")
