"""Files whose bloom filters know none of a source's keys are not read by a MERGE."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.options import writer_settings
from hudisql.read.files.predicates import And, InSet, Predicate
from hudisql.session import Session
from hudisql.table.files.snapshot import load_file_slices
from hudisql.write.index.file_pruning import prune_by_key_lookup
from tests.opened import open_at
from tests.sql.changed_tables import ChangedTable, own_database, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_merge_leaves_out_files_that_hold_none_of_its_keys(session: Session, table: ChangedTable) -> None:
    for day in ("2024-03-01", "2024-03-04"):
        values = ", ".join(f"('x{number:03d}', 1, '{day}')" for number in range(0, 100, 2))
        with setting(session, "hoodie.parquet.small.file.limit", "0"):
            table.run(f"INSERT INTO {{t}} (id, seq, dt) VALUES {values}")
    opened = open_at(table.path)
    slices = load_file_slices(opened)
    assert len(slices) == 5

    def pruned(*keys: str, days: tuple[str, ...] = ()) -> list[str]:
        predicate: Predicate = InSet(("id",), pa.array(sorted(keys)))
        if days:
            predicate = And((predicate, InSet(("dt",), pa.array(days))))
        return sorted(path for path, _ in prune_by_key_lookup(session.spark, opened, predicate).without)

    assert pruned("nothing") == sorted(each.partition_path for each in slices)
    assert pruned("x001", "x007") == sorted(each.partition_path for each in slices)
    assert pruned("k03", "x002") == ["dt=2024-03-02", "dt=2024-03-03"]
    # One partition has too few files to be asked.
    assert pruned("nothing", days=("2024-03-01",)) == []
    assert not prune_by_key_lookup(session.spark, opened, InSet(("seq",), pa.array([1]))).exclude_any

    source = "(SELECT 'x004' AS id, '2024-03-05' AS dt UNION ALL SELECT 'k29', '' UNION ALL SELECT 'y', '')"
    merge = (
        f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET seq = 99 "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, 99, '2024-03-02')"
    )
    counts = table.run(merge)
    assert (counts["updated"], counts["inserted"]) == (3, 1)
    assert sorted(table.rows("id, dt", "seq = 99")) == [
        ("k29", "2024-03-03"),
        ("x004", "2024-03-01"),
        ("x004", "2024-03-04"),
        ("y", "2024-03-02"),
    ]


def test_a_merge_finds_keys_of_either_form(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(session, "key_forms"):
        session.sql(
            "CREATE TABLE key_forms.t (id INT, v INT, dt STRING, hour INT) USING hudi "
            f"PARTITIONED BY (dt, hour) LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
        )
        for number, day in enumerate("abcdef"):
            with monkeypatch.context() as other_writer:
                has_pairs = day == "d"
                other_writer.setattr(
                    writer_settings, "uses_complex_key_encoding", lambda _, found=has_pairs: found
                )
                session.sql(f"INSERT INTO key_forms.t VALUES ({number}, 0, '{day}', 1)")
        keys = session.sql("SELECT _hoodie_record_key FROM key_forms.t ORDER BY id").rows
        assert [key for (key,) in keys] == ["0", "1", "2", "id:3", "4", "5"]
        session.sql(
            "MERGE INTO key_forms.t t USING (SELECT 3 AS id UNION ALL SELECT 4) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 9 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 7)"
        )
        found = session.sql("SELECT id, v FROM key_forms.t WHERE v > 0 ORDER BY id").rows
        assert [tuple(row) for row in found] == [(3, 9), (4, 9)]
