"""Directories that statements name or overwrite: no file of a Hudi table, nor of its source, is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.bootstrap.lease.protected_sources import covering_directories
from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    InvalidArgumentError,
    SourceProtectedError,
    UnsupportedStatementError,
)
from hudisql.session import Session
from hudisql.storage import is_inside
from tests.sql.changed_tables import setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(scope="module")
def directory(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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


@pytest.fixture(scope="module")
def sources(session: Session, directory: Path) -> Iterator[Path]:
    """More sources: the managed table `farm.owned`, and files in `files` that no table of Spark's knows."""
    session.sql(f"CREATE DATABASE farm LOCATION '{directory}/farm'")
    session.sql("CREATE TABLE farm.owned (id string, v int, dt string) USING parquet PARTITIONED BY (dt)")
    session.sql("INSERT INTO farm.owned TABLE yard.origin")
    session.sql(
        "CREATE TABLE farm.parts (id string, v int, dt string) USING parquet PARTITIONED BY (dt) "
        f"LOCATION '{directory}/parts'"
    )
    session.sql(f"ALTER TABLE farm.parts ADD PARTITION (dt = 'x') LOCATION '{directory}/files/dt=d0'")
    session.sql(
        f"INSERT OVERWRITE DIRECTORY '{directory}/files/dt=d0' USING parquet SELECT id, v FROM yard.plain"
    )
    session.sql("INSERT INTO farm.parts VALUES ('k', 1, 'x')")
    for name, source in (
        ("of_table", "source_table => 'farm.owned'"),
        ("of_path", f"source => '{directory}/files'"),
    ):
        session.sql(
            f"CALL bootstrap_table(table => 'yard.{name}', {source}, record_key => 'id', "
            f"target_path => '{directory}/hudi/{name}', protect_source => {str(name == 'of_table').lower()})"
        )
    metastore = session.context.metastore
    owned = metastore.get_table("farm", "owned")
    assert owned is not None
    # As a user may do afterwards.
    metastore.alter_table(
        replace(owned, table_type="MANAGED_TABLE", parameters={**owned.parameters, "EXTERNAL": "FALSE"})
    )
    yield directory
    for name in ("yard.of_table", "yard.of_path", "farm.owned", "farm.parts"):
        session.sql(f"DROP TABLE {name}")
    session.sql("DROP DATABASE farm")


def files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


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
        ("INSERT OVERWRITE yard.origin SELECT id, v + 1, dt FROM yard.taken", "yard.taken reads its rows"),
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
    session: Session, directory: Path, text: str, complaint: str
) -> None:
    before = files_of(directory)
    with pytest.raises(UnsupportedStatementError) as caught:
        session.sql(text.format(directory))
    assert complaint in caught.value.message
    assert files_of(directory) == before
    assert session.sql("SELECT count(*), sum(v) FROM yard.taken").rows == [(4, 6)]


def test_other_directories_and_tables_are_overwritten_as_ever(session: Session, directory: Path) -> None:
    session.sql("INSERT OVERWRITE yard.plain SELECT id, v, dt FROM yard.taken WHERE v > 1")
    assert session.sql("SELECT sum(v) FROM yard.plain").rows == [(5,)]
    for _ in range(2):
        session.sql(f"INSERT OVERWRITE DIRECTORY '{directory}/out' USING parquet SELECT v FROM yard.taken")
    assert session.sql(f"SELECT sum(v) FROM parquet.`{directory}/out`").rows == [(6,)]
    # A job of the source's own may go on writing it: readers of the Hudi table are told.
    session.sql("INSERT INTO yard.origin SELECT 'x', 9, 'd9'")
    assert session.sql("SELECT count(*) FROM yard.taken").rows == [(4,)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("INSERT OVERWRITE yard.origin TABLE yard.plain", "delete files in .*/source: .*yard.taken reads"),
        ("INSERT OVERWRITE yard.origin PARTITION (dt = 'new') SELECT id, v FROM yard.plain", "INSERT OVERW"),
        ("FROM yard.plain INSERT INTO yard.plain SELECT * INSERT OVERWRITE yard.origin SELECT *", "delete"),
        ("INSERT OVERWRITE farm.parts TABLE yard.plain", "delete files in .*files/dt=d0: .*yard.of_path"),
        ("INSERT OVERWRITE DIRECTORY '{0}/source' USING parquet SELECT 1", "delete its .*yard.taken"),
        ("INSERT OVERWRITE DIRECTORY '{0}/source/dt=d0' USING parquet SELECT 1", "delete its files"),
        ("INSERT OVERWRITE DIRECTORY '{0}/files' USING parquet SELECT 1", "delete its .*yard.of_path reads"),
        ("LOAD DATA INPATH '{0}/files/dt=d0' INTO TABLE yard.plain", "would move files away in .*of_path"),
        ("LOAD DATA INPATH '{0}/out' OVERWRITE INTO TABLE yard.origin", "LOAD DATA OVERWRITE would delete"),
        ("CREATE TABLE yard.new USING parquet LOCATION '{0}/files/new' AS SELECT 1", "would write files"),
        ("CREATE TABLE yard.new (id int) USING hudi LOCATION '{0}/files/new' "
         "TBLPROPERTIES (primaryKey = 'id')", "the table yard.new would lie in .*files/new"),
        ("CREATE TABLE yard.new USING hudi LOCATION '{0}/files/new' TBLPROPERTIES (primaryKey = 'id') "
         "AS SELECT 1 AS id", "the table yard.new would lie in"),
        ("DROP TABLE farm.owned", "DROP TABLE would delete files in .*farm/owned: .*yard.of_table"),
        ("DROP TABLE IF EXISTS farm.owned PURGE", "DROP TABLE would delete files"),
        ("TRUNCATE TABLE farm.owned", "TRUNCATE TABLE would delete files"),
        ("TRUNCATE TABLE farm.owned PARTITION (dt = 'd0')", "TRUNCATE TABLE would delete files"),
        ("ALTER TABLE farm.owned DROP PARTITION (dt = 'd0')", "DROP PARTITION would delete files"),
        ("ALTER TABLE farm.owned RENAME TO farm.other", "RENAME TO would move files"),
        ("ALTER TABLE farm.owned PARTITION (dt = 'd0') RENAME TO PARTITION (dt = 'z')", "RENAME PARTITION"),
        ("DROP DATABASE farm CASCADE", "DROP DATABASE farm CASCADE would delete files in .*farm/owned"),
    ],
)  # fmt: skip
def test_no_statement_harms_the_source_of_a_bootstrapped_table(
    session: Session, sources: Path, text: str, complaint: str
) -> None:
    before = files_of(sources)
    with pytest.raises(SourceProtectedError, match=complaint) as caught:
        session.sql(text.format(sources))
    assert "SET hudisql.protect.sources = false" in (caught.value.hint or "")
    assert files_of(sources) == before
    assert session.sql("SHOW TABLES IN farm").rows == [("farm", "owned", False), ("farm", "parts", False)]


def test_writers_of_tables_and_bootstraps_keep_out_of_sources(session: Session, sources: Path) -> None:
    before = files_of(sources)
    rows = session.spark.createDataFrame([("a", 1)], "id string, v int")
    with pytest.raises(SourceProtectedError, match=r"the table yard\.new would lie in"):
        session.write(
            rows,
            "yard.new",
            "insert",
            **{"path": f"{sources}/files/new", "hoodie.datasource.write.recordkey.field": "id"},
        )
    with pytest.raises(BootstrapBlockedError, match=r"the table would lie in .*files/new: .*yard\.of_path"):
        session.sql(
            "CALL bootstrap_table(table => 'yard.new', source_table => 'yard.origin', record_key => 'id', "
            f"target_path => '{sources}/files/new')"
        )
    assert files_of(sources) == before


def test_what_harms_no_source_file_goes_on(session: Session, sources: Path) -> None:
    session.sql("INSERT INTO farm.owned VALUES ('late', 1, 'd0')")
    session.sql(f"CREATE TABLE yard.view_of_files USING parquet LOCATION '{sources}/files'")
    session.sql("DROP TABLE yard.view_of_files")
    session.sql("ALTER TABLE farm.parts DROP PARTITION (dt = 'x')")
    session.sql(f"ALTER TABLE farm.parts ADD PARTITION (dt = 'x') LOCATION '{sources}/files/dt=d0'")
    overwriting = f"INSERT OVERWRITE DIRECTORY '{sources}/files/dt=other' USING parquet SELECT 'z' AS id"
    with setting(session, "hudisql.protect.sources", "false"):
        session.sql(overwriting)
    session.sql("DROP TABLE yard.of_path")
    session.sql(overwriting)
    session.sql(f"CALL hive_sync(table => 'yard.of_path', path => '{sources}/hudi/of_path')")
    with pytest.raises(SourceProtectedError):
        session.sql(overwriting)


def test_the_directories_of_a_source_with_many_places_are_few() -> None:
    outside = [f"/wide/{number % 7}/{number}" for number in range(500)]
    covering = covering_directories("/data/source", ["/data/source/dt=1", "/else/where", *outside])
    assert covering[0] == "/data/source"
    assert len(covering) <= 20
    for directory in ("/else/where", *outside):
        assert any(is_inside(directory, each) for each in covering)


SECRET_PLACE = "s3a://KEYID:SEC/RET+x@bucket/x"


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE yard.new (id int) USING hudi LOCATION '{0}' TBLPROPERTIES (primaryKey = 'id')",
        "CREATE TABLE yard.new USING hudi LOCATION '{0}' TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 AS id",
        "CREATE TABLE yard.new (id int) USING parquet LOCATION '{0}'",
        "CREATE TABLE yard.new USING parquet OPTIONS (path '{0}') AS SELECT 1 AS id",
        "INSERT OVERWRITE DIRECTORY '{0}' USING parquet SELECT 1",
        "LOAD DATA INPATH '{0}' INTO TABLE yard.plain",
        "ALTER TABLE yard.plain SET LOCATION '{0}'",
        "ALTER TABLE yard.origin ADD PARTITION (dt = 'x') LOCATION '{0}'",
        "CREATE DATABASE other LOCATION '{0}'",
        "ALTER DATABASE yard SET LOCATION '{0}'",
        "CALL bootstrap_table(table => 'yard.new', source => '{0}', record_key => 'id')",
        "CALL bootstrap_table(table => 'yard.new', source_table => 'yard.origin', record_key => 'id', "
        "target_path => '{0}')",
        "CALL hive_sync(table => 'yard.new', path => '{0}')",
        "SELECT * FROM hudi.`{0}`",
    ],
)
def test_places_with_credentials_are_refused_and_not_shown(session: Session, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"s3a://\*{6}@bucket/x holds credentials") as caught:
        session.sql(text.format(SECRET_PLACE))
    assert "fs.s3a.access.key" in (caught.value.hint or "")
    for shown in (str(caught.value), repr(caught.value)):
        assert "KEYID" not in shown
        assert "RET" not in shown


def test_what_spark_says_of_a_place_with_credentials_does_not_show_them(session: Session) -> None:
    for text in ("SELECT * FROM parquet.`{0}`", "SELEC '{0}' FROM x", "SELECT nothing('{0}')"):
        with pytest.raises(HudisqlError) as caught:
            session.sql(text.format(SECRET_PLACE)).rows  # noqa: B018
        assert "RET" not in str(caught.value)
