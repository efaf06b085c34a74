"""Folders that statements name or overwrite: no file of a Hudi table, nor of its source, is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.errors import UnsupportedStatementError
from hudisql.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(scope="module")
def folder(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`yard.origin`, a parquet table in `source`, bootstrapped as `yard.taken` in `hudi/taken`."""
    root = tmp_path_factory.mktemp("yard")
    session.sql("CREATE DATABASE yard")
    session.sql(
        "CREATE TABLE yard.origin (id string, v int, dt string) USING parquet PARTITIONED BY (dt) "
        f"LOCATION '{root}/source'"
    )
    session.sql("INSERT INTO yard.origin SELECT string(id), int(id), concat('d', id % 2) FROM range(4)")
    session.sql(
        "CALL bootstrap_table(table => 'yard.taken', source_table => 'yard.origin', record_key => 'id', "
        f"target_path => '{root}/hudi/taken')"
    )
    session.sql("CREATE VIEW yard.seen AS SELECT * FROM yard.taken")
    session.sql("CREATE TABLE yard.plain (id string, v int, dt string) USING parquet")
    yield root
    for kind, name in (("VIEW", "seen"), ("TABLE", "taken"), ("TABLE", "origin"), ("TABLE", "plain")):
        session.sql(f"DROP {kind} yard.{name}")
    session.sql("DROP DATABASE yard CASCADE")


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("INSERT OVERWRITE DIRECTORY '{0}/hudi/taken/dt=d0' USING parquet SELECT 1", "would delete its"),
        ("INSERT OVERWRITE DIRECTORY '{0}/hudi' USING parquet SELECT 1", "would delete its files"),
        ("INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{0}/hudi') SELECT 1", "would delete its"),
        ("WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{0}/hudi/taken' USING parquet TABLE a", "delete"),
        ("FROM yard.plain INSERT OVERWRITE DIRECTORY '{0}/hudi/taken' USING parquet SELECT id", "delete"),
        ("FROM yard.plain INSERT OVERWRITE DIRECTORY '{0}/hudi/taken' USING parquet SELECT id "
         "INSERT INTO yard.plain SELECT id, v, dt", "delete"),
        ("INSERT OVERWRITE yard.origin SELECT id, v + 1, dt FROM yard.taken", "yard.taken, which the"),
        ("INSERT OVERWRITE yard.origin PARTITION (dt = 'd0') SELECT id, v FROM yard.seen", "yard.taken"),
        ("WITH a AS (TABLE yard.taken) INSERT OVERWRITE yard.origin SELECT id, v, dt FROM a", "yard.taken"),
        ("INSERT OVERWRITE DIRECTORY '{0}/source' USING parquet SELECT * FROM yard.taken", "yard.taken"),
        ("INSERT OVERWRITE DIRECTORY '{0}/source/dt=d0' USING parquet SELECT id FROM yard.taken", "taken"),
        ("CREATE TABLE yard.raw USING parquet OPTIONS (path '{0}/hudi/taken')", "rows of all its versions"),
        ("CREATE TABLE yard.raw LIKE yard.plain LOCATION '{0}/hudi/taken'", "rows of all its versions"),
        ("ALTER TABLE yard.plain SET LOCATION '{0}/hudi/taken'", "rows of all its versions"),
        ("ALTER TABLE yard.origin ADD PARTITION (dt = 'x') LOCATION '{0}/hudi/taken/dt=d0'", "its versions"),
        ("LOAD DATA INPATH '{0}/hudi/taken/dt=d0' INTO TABLE yard.plain", "would move its files away"),
        ("CREATE TEMPORARY VIEW raw USING parquet OPTIONS (Path '{0}/hudi/taken')", "rows of all its"),
    ],
)  # fmt: skip
def test_no_statement_reaches_the_files_of_a_hudi_table_or_of_its_source(
    session: Session, folder: Path, text: str, complaint: str
) -> None:
    before = files_of(folder)
    with pytest.raises(UnsupportedStatementError) as caught:
        session.sql(text.format(folder))
    assert complaint in caught.value.message
    assert files_of(folder) == before
    assert session.sql("SELECT count(*), sum(v) FROM yard.taken").rows == [(4, 6)]


def test_other_folders_and_tables_are_overwritten_as_ever(session: Session, folder: Path) -> None:
    session.sql("INSERT OVERWRITE yard.plain SELECT id, v, dt FROM yard.taken WHERE v > 1")
    assert session.sql("SELECT sum(v) FROM yard.plain").rows == [(5,)]
    for _ in range(2):
        session.sql(f"INSERT OVERWRITE DIRECTORY '{folder}/out' USING parquet SELECT v FROM yard.taken")
    assert session.sql(f"SELECT sum(v) FROM parquet.`{folder}/out`").rows == [(6,)]
    # A job of the source's own may go on writing it: readers of the Hudi table are told.
    session.sql("INSERT INTO yard.origin SELECT 'x', 9, 'd9'")
    assert session.sql("SELECT count(*) FROM yard.taken").rows == [(4,)]
