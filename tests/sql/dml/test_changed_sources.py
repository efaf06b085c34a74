"""Source files that were replaced by others of the same length: refused, or read with a warning if so set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from hudisql.errors import QueryError, RollbackRefusedError, SettingsError, SourceChangedError
from hudisql.session import Session
from tests.spark_versions import frame_of_path, has_data_sources
from tests.sql.changed_tables import ChangedTable, own_database, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]
MESSAGE = r"part-0\.parquet was modified at .* same length, but may hold other rows"


def write_part(path: Path, values: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ["k1", "k2", "k3"], "v": pa.array(values, pa.int32())}), path)


@pytest.fixture
def replaced(session: Session, tmp_path: Path) -> Iterator[ChangedTable]:
    """A bootstrapped table of 1, 2, 3, whose source file now holds 7, 8, 9 in as many bytes."""
    source = tmp_path / "source" / "part-0.parquet"
    write_part(source, [1, 2, 3])
    before = source.stat()
    with own_database(session, "replaced"):
        session.sql(
            f"CALL bootstrap_table(table => 'replaced.t', source => '{source.parent}', record_key => 'id',"
            f" target_path => '{tmp_path / 't'}')"
        )
        write_part(source, [7, 8, 9])
        assert source.stat().st_size == before.st_size
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns + 5_000_000_000))
        yield ChangedTable(session, "replaced.t", str(tmp_path / "t"))


def test_a_replaced_source_file_is_read_by_no_statement(replaced: ChangedTable) -> None:
    session, spark = replaced.session, replaced.session.spark
    for text in (
        "SELECT id, v FROM {t}",  # by Spark's own scan
        "SELECT _hoodie_record_key, v FROM {t}",  # by the slice reader
        "UPDATE {t} SET v = 5 WHERE id = 'k1'",
        "DELETE FROM {t} WHERE v = 7",
        "MERGE INTO {t} USING (SELECT 'k2' AS id, 0 AS v) s ON {t}.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v",
    ):
        with pytest.raises(SourceChangedError, match=MESSAGE) as caught:
            session.sql(text.replace("{t}", "replaced.t")).rows  # noqa: B018
        assert "hudisql.read.changed.sources=warn" in (caught.value.hint or "")
    # The key is looked up in the skeleton alone: it is the merge that meets the file.
    with pytest.raises(SourceChangedError, match=MESSAGE):
        session.write(spark.createDataFrame([("k1", 4)], "id string, v int"), "replaced.t", "upsert")
    assert len(replaced.instants()) == 1
    with pytest.raises((PySparkException, SourceChangedError), match=MESSAGE):
        frame_of_path(session, replaced.path).collect()
    session.sql("SET hudisql.read.changed.sources = sometimes")
    try:
        with pytest.raises(SettingsError, match="must be one of fail, warn, not 'sometimes'"):
            session.sql("SELECT * FROM replaced.t")
    finally:
        session.sql("RESET hudisql.read.changed.sources")


def test_it_is_read_with_a_warning_if_the_setting_says_so(replaced: ChangedTable) -> None:
    session = replaced.session
    with setting(session, "hudisql.read.changed.sources", "warn"):
        for text in ("SELECT v FROM replaced.t", "SELECT v FROM replaced.t WHERE _hoodie_record_key > 'k'"):
            with pytest.warns(RuntimeWarning, match=r"1 source files were modified .*part-0\.parquet"):
                assert sorted(session.sql(text).rows) == [(7,), (8,), (9,)]
        with pytest.warns(RuntimeWarning, match="were modified"):
            assert replaced.run("UPDATE {t} SET v = 5 WHERE id = 'k1'") == {"updated": 1, "files_written": 1}
    if has_data_sources():
        frame = session.spark.read.format("hudi").option("hudisql.read.changed.sources", "warn")
        assert sorted(row.v for row in frame.load(replaced.path).collect()) == [5, 8, 9]
    assert len(replaced.instants()) == 2


def test_a_rollback_of_what_the_source_no_longer_has_is_refused(replaced: ChangedTable) -> None:
    with pytest.raises(RollbackRefusedError, match=r"source files were removed or changed.*part-0\.parquet"):
        replaced.session.sql("CALL rollback_bootstrap(table => 'replaced.t')")


def test_a_checksum_of_another_content_is_told_with_both_files(session: Session, tmp_path: Path) -> None:
    source = tmp_path / "source"
    rows = session.spark.range(3).selectExpr("string(id) AS id", "int(id) AS v")
    rows.coalesce(1).write.parquet(str(source))
    (path,) = source.glob("*.parquet")
    checksum = path.with_name(f".{path.name}.crc")
    assert checksum.exists()
    write_part(path, [1, 2, 3])
    with own_database(session, "replaced"):
        session.sql(
            f"CALL bootstrap_table(table => 'replaced.t', source => '{source}', record_key => 'id',"
            f" target_path => '{tmp_path / 't'}')"
        )
        for text in ("SELECT v FROM replaced.t", f"SELECT * FROM parquet.`{source}`"):
            with pytest.raises(QueryError, match="is not that of") as caught:
                session.sql(text).rows  # noqa: B018
            assert f"the checksum in {checksum} is not that of {path}," in caught.value.message
            assert "delete the .crc file" in (caught.value.hint or "")
        checksum.unlink()
        assert sorted(session.sql("SELECT v FROM replaced.t").rows) == [(1,), (2,), (3,)]


def test_a_dry_run_sees_that_the_target_cannot_be_made(replaced: ChangedTable, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rows = replaced.session.sql(
        f"CALL bootstrap_table(table => 'replaced.u', source => '{tmp_path}/source', record_key => 'id',"
        f" target_path => '{tmp_path}/file/u', dry_run => true)"
    ).rows
    assert any(f"{tmp_path}/file is a file" in (row.blockers or "") for row in rows)
