"""CREATE TABLE … USING hudi: what lies on disk, what the metastore has, what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import hudisql
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchTableError,
    SqlSyntaxError,
    TableExistsError,
    UnsupportedStatementError,
    UnsupportedTableError,
    WriteRefusedError,
)
from hudisql.format.table_properties import parse_properties
from hudisql.session import Session
from tests.rows import rows
from tests.spark_versions import needs_spark
from tests.sql.changed_tables import database_fixture, setting
from tests.warning_console import WarningConsole

pytestmark = pytest.mark.spark


database = database_fixture("made", autouse=True)


def properties_at(path: Path) -> dict[str, str]:
    return parse_properties((path / ".hoodie" / "hoodie.properties").read_bytes())


def parameters_of(session: Session, name: str) -> dict[str, str]:
    entry = session.context.metastore.get_table("made", name)
    assert entry is not None
    return dict(entry.parameters)


def test_a_new_table_is_empty_and_has_its_columns(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"""CREATE TABLE made.t (id BIGINT NOT NULL COMMENT 'the key', dt STRING COMMENT 'the day',
        ts TIMESTAMP, s STRUCT<a: INT COMMENT 'inner', b: ARRAY<DECIMAL(20, 2)>>, m MAP<STRING, DOUBLE>)
        USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path / "t"}' COMMENT 'what it is'
        TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', 'hoodie.index.type' = 'BLOOM')"""
    )
    frame = session.sql("SELECT * FROM made.t")
    assert frame.rows == []
    described = rows(session, "DESCRIBE made.t")
    data = [row for row in described if not row[0].startswith("_hoodie")][:5]
    assert data == [
        ("id", "bigint", "the key"),
        ("ts", "timestamp", None),
        ("s", "struct<a:int,b:array<decimal(20,2)>>", None),
        ("m", "map<string,double>", None),
        ("dt", "string", "the day"),
    ]
    assert rows(session, "SHOW PARTITIONS made.t") == []
    assert rows(session, "SELECT count(*), max(id), count(s.b) FROM made.t WHERE dt > '2024'") == [
        (0, None, 0)
    ]
    parameters = parameters_of(session, "t")
    assert parameters["comment"] == "what it is"
    assert ("Comment", "what it is", "") in rows(session, "DESCRIBE EXTENDED made.t")
    assert parameters["hoodie.index.type"] == "BLOOM"
    assert '"comment":"inner"' in parameters["spark.sql.sources.schema.part.0"]


def test_the_properties_are_those_of_hudis_own_create_table(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "t"
    session.sql(
        f"CREATE TABLE made.t (id INT, name STRING, dt DATE) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'ID', type = 'cow')"
    )
    found = properties_at(path)
    schema = found.pop("hoodie.table.create.schema")
    assert schema.startswith(
        '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"id"'
    )
    assert found == {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.partition.fields": "dt",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.archivelog.folder": "archived",
        "hoodie.timeline.layout.version": "1",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.name": "t",
        "hoodie.database.name": "made",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.table.version": "6",
        "hoodie.table.checksum": "130889292",
    }
    assert sorted(each.name for each in (path / ".hoodie").iterdir()) == [
        ".schema",
        ".temp",
        "archived",
        "hoodie.properties",
    ]


@pytest.mark.parametrize(
    ("columns", "partitions", "key", "generator"),
    [
        ("id INT, v STRING", "", "id", "NonpartitionedKeyGenerator"),
        ("id INT, v STRING", "", "id,v", "NonpartitionedKeyGenerator"),
        ("id INT, v STRING, p INT", "PARTITIONED BY (p)", "id", "SimpleKeyGenerator"),
        ("id INT, v STRING, p INT", "PARTITIONED BY (p)", "id,v", "ComplexKeyGenerator"),
        ("id INT, p INT, q INT", "PARTITIONED BY (p, q)", "id", "ComplexKeyGenerator"),
        ("id INT", "PARTITIONED BY (p STRING)", "id", "SimpleKeyGenerator"),
    ],
)
def test_key_and_partition_columns_choose_the_key_generator(
    session: Session, tmp_path: Path, columns: str, partitions: str, key: str, generator: str
) -> None:
    session.sql(
        f"CREATE TABLE made.t ({columns}) USING hudi OPTIONS (primaryKey '{key}') {partitions} "
        f"LOCATION '{tmp_path / 't'}'"
    )
    found = properties_at(tmp_path / "t")["hoodie.table.keygenerator.class"]
    assert found == f"org.apache.hudi.keygen.{generator}"


def test_a_merge_on_read_table_gets_its_three_names(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE made.t (id INT, n INT) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', orderingFields = 'n', payloadClass = "
        "'org.apache.hudi.common.model.DefaultHoodieRecordPayload')"
    )
    assert session.context.metastore.list_tables("made") == ["t", "t_ro", "t_rt"]
    found = properties_at(tmp_path / "t")
    assert found["hoodie.table.type"] == "MERGE_ON_READ"
    assert found["hoodie.table.precombine.field"] == "n"
    assert found["hoodie.compaction.payload.class"].endswith(".DefaultHoodieRecordPayload")
    assert [rows(session, f"SELECT * FROM made.{name}") for name in ("t", "t_ro", "t_rt")] == [[], [], []]


def test_further_names_show_base_files_or_merged_rows_as_hudi_makes_them(
    session: Session, tmp_path: Path
) -> None:
    location = f"USING hudi LOCATION '{tmp_path / 't'}'"
    session.sql(f"CREATE TABLE made.t (id INT, v INT) {location} TBLPROPERTIES (primaryKey='id', type='mor')")
    session.sql("INSERT INTO made.t VALUES (1, 1)")
    session.sql("UPDATE made.t SET v = 2")
    for flag, names in (("true", ("t_ro", "files")), ("false", ("t_rt", "rows_of_t"))):
        for name in names:
            session.sql(
                f"CREATE TABLE made.{name} {location} TBLPROPERTIES ('hoodie.query.as.ro.table' = '{flag}')"
            )
            assert rows(session, f"SELECT v FROM made.{name}") == [(1 if flag == "true" else 2,)]
    with pytest.raises(TableExistsError, match="t_rt exists already"):
        session.sql(f"CREATE TABLE made.t_rt {location} TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')")
    for text in ("(id INT) USING hudi", f"USING hudi LOCATION '{tmp_path}'", "USING hudi AS SELECT 1 AS id"):
        made, _, query = text.partition(" AS ")
        query = f" AS {query}" if query else ""
        with pytest.raises(InvalidArgumentError, match="for a further name of a"):
            session.sql(
                f"CREATE TABLE made.u {made} TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true'){query}"
            )


def test_names_and_settings_of_syncs_among_the_properties_have_no_effect(
    spark: SparkSession, session: Session, tmp_path: Path
) -> None:
    console = WarningConsole()
    with hudisql.connect(spark=spark, console=console) as warned:
        warned.sql(
            f"CREATE TABLE made.t (id INT) USING hudi LOCATION '{tmp_path / 't'}' TBLPROPERTIES "
            "(primaryKey='id', 'hoodie.table.name'='other', 'hoodie.database.name'='made', "
            "'hoodie.datasource.hive_sync.enable'='true', 'hoodie.datasource.hive_sync.mode'='hms')"
        )
    assert [text.partition(" in TBLPROPERTIES")[0] for text in console.texts] == [
        "CREATE TABLE made.t: hoodie.datasource.hive_sync.mode = hms, hoodie.table.name = other"
    ]
    assert properties_at(tmp_path / "t")["hoodie.table.name"] == "t"
    assert not [name for name in parameters_of(session, "t") if "sync" in name or name.endswith(".name")]


def test_without_a_location_a_table_lies_in_its_databases_directory(session: Session) -> None:
    home = session.context.metastore.get_database("made")
    assert home is not None
    assert home.location is not None
    session.sql("CREATE TABLE made.Here (id INT) USING HUDI TBLPROPERTIES (primaryKey = 'id')")
    entry = session.context.metastore.get_table("made", "here")
    assert entry is not None
    assert entry.location == f"{home.location}/here"
    assert properties_at(Path(entry.location.removeprefix("file:")))["hoodie.table.name"] == "here"


def test_rows_can_be_written_to_a_new_table(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE made.t (id INT, s STRUCT<a: INT>, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("INSERT INTO made.t VALUES (1, named_struct('a', 5), 'x'), (2, NULL, 'y')")
    session.sql("UPDATE made.t SET s = named_struct('a', id) WHERE dt = 'y'")
    assert rows(session, "SELECT id, s.a, dt FROM made.t ORDER BY id") == [(1, 5, "x"), (2, 2, "y")]
    assert rows(session, "SHOW PARTITIONS made.t") == [("dt=x",), ("dt=y",)]


def test_partition_clauses_take_texts_as_in_spark_and_default_means_null(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE made.t (id INT, note STRING, n INT, day DATE) USING hudi PARTITIONED BY (day) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id', team = 'x')"
    )
    session.sql(
        "INSERT INTO made.t PARTITION (day = '2024-03-01') VALUES (1, 'a', DEFAULT), (2, 'default', 2)"
    )
    session.sql("INSERT INTO made.t PARTITION (day = DATE'2024-03-01') (note, id) VALUES (default, 3)")
    session.sql("UPDATE made.t SET n = 7, note = DEFAULT WHERE id = 1")
    session.sql(
        "MERGE INTO made.t USING (SELECT 2 AS k UNION ALL SELECT 4) s ON id = k WHEN MATCHED THEN UPDATE SET "
        "n = DEFAULT WHEN NOT MATCHED THEN INSERT (id, n, note, day) "
        "VALUES (k, DEFAULT, 'new', DATE'2024-03-02')"
    )
    expected = [(1, None, 7), (2, "default", None), (3, None, None), (4, "new", None)]
    assert rows(session, "SELECT id, note, n FROM made.t ORDER BY id") == expected
    session.sql("INSERT OVERWRITE made.t PARTITION (day = '2024-03-01') SELECT 9, 'o', 9")
    assert rows(session, "SELECT id, day FROM made.t ORDER BY id") == [
        (4, date(2024, 3, 2)),
        (9, date(2024, 3, 1)),
    ]
    with pytest.raises(HudisqlError, match="Thursday"):
        session.sql("INSERT INTO made.t PARTITION (day = 'Thursday') VALUES (1, 'a', 1)")
    with pytest.raises(WriteRefusedError, match="id is not a partition column"):
        session.sql("INSERT OVERWRITE made.t PARTITION (id = 9) SELECT 'o', 9, DATE'2024-03-01'")
    with pytest.raises(WriteRefusedError, match="names the column 'day' twice"):
        session.sql("INSERT INTO made.t PARTITION (day = '2024-03-01') (id, day) SELECT 1, DATE'2024-03-02'")
    with pytest.raises(SqlSyntaxError, match="FROM … INSERT is not supported"):
        session.sql("FROM made.t INSERT INTO made.t SELECT id, note, n, day")
    found = dict(rows(session, "SHOW TBLPROPERTIES made.t"))
    assert (found["primaryKey"], found["type"], found["team"]) == ("id", "cow", "x")
    assert rows(session, "SHOW TBLPROPERTIES made.t ('team')") == [("team", "x")]


def test_the_text_of_show_create_table_makes_the_same_table(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE made.t (id BIGINT COMMENT 'it\\'s the key', s STRUCT<a: INT COMMENT 'in'>, d DATE) "
        f"USING hudi PARTITIONED BY (d) LOCATION '{tmp_path / 't'}' COMMENT 'a table' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'id', team = 'x', "
        "payloadClass = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload', "
        "hoodie.datasource.write.hive_style_partitioning = 'false', "
        "hoodie.datasource.write.partitionpath.urlencode = 'false')"
    )
    # What the table's own files say counts, not what the metastore remembers.
    entry = session.context.metastore.get_table("made", "t")
    assert entry is not None
    kept = {name: value for name, value in entry.parameters.items() if "datasource.write" not in name}
    session.context.metastore.alter_table(replace(entry, parameters=kept))
    (text,) = rows(session, "SHOW CREATE TABLE made.t")[0]
    session.sql(text.replace("made.t", "made.u").replace(f"{tmp_path / 't'}", f"{tmp_path / 'u'}"))
    (again,) = rows(session, "SHOW CREATE TABLE made.u")[0]
    assert again.replace("made.u", "made.t").replace(f"{tmp_path / 'u'}", f"{tmp_path / 't'}") == text
    made, copy = properties_at(tmp_path / "t"), properties_at(tmp_path / "u")
    differing = {name for name in made | copy if made.get(name) != copy.get(name)}
    assert differing == {"hoodie.table.name", "hoodie.table.checksum", "hoodie.table.create.schema"}
    assert copy["hoodie.datasource.write.hive_style_partitioning"] == "false"
    assert copy["hoodie.datasource.write.partitionpath.urlencode"] == "false"
    for part in ("COMMENT 'it\\'s the key'", "COMMENT 'a table'", "'team' = 'x'"):
        assert part in text


@pytest.mark.soak
def test_a_key_generator_s_table_is_shown_made_again_and_overwritten_as_a_whole(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE made.t (id INT, at BIGINT, region STRING) USING hudi PARTITIONED BY (region, at) "
        f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'at', "
        "'hoodie.table.keygenerator.class' = 'org.apache.hudi.keygen.CustomKeyGenerator', "
        "'hoodie.datasource.write.partitionpath.field' = 'region:SIMPLE,at:TIMESTAMP', "
        "'hoodie.keygen.timebased.timestamp.type' = 'EPOCHMILLISECONDS', "
        "'hoodie.keygen.timebased.output.dateformat' = 'yyyy/MM', 'hoodie.keygen.timebased.timezone' = 'UTC')"
    )
    (text,) = rows(session, "SHOW CREATE TABLE made.t")[0]
    session.sql(text.replace("made.t", "made.u").replace(f"{tmp_path / 't'}", f"{tmp_path / 'u'}"))
    session.sql("INSERT INTO made.u VALUES (1, 'eu', 1700000000000), (2, 'us', 1600000000000)")
    assert rows(session, "SHOW PARTITIONS made.u") == [
        ("region=eu/at=2023%2F11",),
        ("region=us/at=2020%2F09",),
    ]
    assert rows(session, "SELECT id FROM made.u WHERE at > 1650000000000 AND region = 'eu'") == [(1,)]
    with pytest.raises(HudisqlError, match="no value of a column names a partition"):
        session.sql("INSERT OVERWRITE made.u PARTITION (region = 'eu') SELECT 3, 1700000000000")
    with setting(session, "hoodie.datasource.overwrite.mode", "dynamic"):
        session.sql("INSERT OVERWRITE made.u VALUES (3, 'eu', 1700000000001)")
    assert rows(session, "SELECT id FROM made.u ORDER BY id") == [(2,), (3,)]
    session.sql("ALTER TABLE made.u DROP PARTITION (region = 'us', at = '2020/09')")
    assert rows(session, "SELECT id FROM made.u") == [(3,)]
    assert rows(session, "SHOW PARTITIONS made.u") == [("region=eu/at=2023%2F11",)]
    # What a session says for another table makes no other directories here.
    with setting(session, "hoodie.keygen.timebased.output.dateformat", "yyyy"):
        session.sql("INSERT INTO made.u PARTITION (region = 'eu') SELECT 3, 1700000000002")
    session.sql(
        "MERGE INTO made.u t USING (VALUES (9, 1700000000000), (9, 1700000000001), (9, 1600000000000)) "
        "s(id, at) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, at, region) VALUES (s.id, s.at, 'eu')"
    )
    assert rows(session, "SELECT id, at FROM made.u ORDER BY id, at") == [
        (3, 1700000000002),
        (9, 1600000000000),
        (9, 1700000000001),
    ]
    session.sql("DROP TABLE made.u")
    session.sql(f"CREATE TABLE made.u USING hudi LOCATION '{tmp_path / 'u'}'")
    (text,) = rows(session, "SHOW CREATE TABLE made.u")[0]
    assert "'hoodie.keygen.timebased.output.dateformat' = 'yyyy/MM'" in text


def test_an_existing_name_is_refused_or_left_as_it_is(session: Session, tmp_path: Path) -> None:
    text = f"(id INT) USING hudi LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
    session.sql(f"CREATE TABLE made.t {text}")
    with pytest.raises(TableExistsError, match="exists already"):
        session.sql(f"CREATE TABLE made.t {text}")
    before = properties_at(tmp_path / "t")
    session.sql("CREATE TABLE IF NOT EXISTS made.t (other STRING) USING hudi")
    assert properties_at(tmp_path / "t") == before


def test_a_table_that_lies_at_the_location_is_registered_if_it_agrees(
    session: Session, tmp_path: Path
) -> None:
    place = f"USING hudi PARTITIONED BY (p) LOCATION '{tmp_path / 't'}'"
    session.sql(f"CREATE TABLE made.t (id INT, v STRING, p INT) {place} TBLPROPERTIES (primaryKey = 'id')")
    session.sql("INSERT INTO made.t VALUES (1, 'a', 7)")
    session.sql("DROP TABLE made.t")
    for columns, properties, difference in (
        ("id BIGINT, v STRING, p INT", "primaryKey = 'id'", "column id is int, not bigint"),
        ("id INT, p INT", "primaryKey = 'id'", "column v is string, not absent"),
        ("id INT, v STRING, p INT", "primaryKey = 'v'", "primaryKey is id, not v"),
        ("id INT, v STRING, p INT", "type = 'mor'", "type is COPY_ON_WRITE, not MERGE_ON_READ"),
    ):
        with pytest.raises(TableExistsError, match=difference):
            session.sql(f"CREATE TABLE made.t ({columns}) {place} TBLPROPERTIES ({properties})")
    session.sql(f"CREATE TABLE made.t (id INT, v STRING, p INT) {place} TBLPROPERTIES (primaryKey = 'id')")
    session.sql(f"CREATE TABLE made.u USING hudi LOCATION '{tmp_path / 't'}'")
    for name in ("t", "u"):
        assert rows(session, f"SELECT id, v, p FROM made.{name} WHERE p = 7") == [(1, "a", 7)]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("(id INT) USING hudi TBLPROPERTIES (primaryKey=',')", InvalidArgumentError, "names no column"),
        ("USING hudi", InvalidArgumentError, "gives no columns"),
        (
            "(id INT, at DATE) USING hudi PARTITIONED BY (days(at)) TBLPROPERTIES (primaryKey='id')",
            UnsupportedStatementError,
            r"PARTITIONED BY \(days\(at\)\) is not supported",
        ),
        (
            "(id INT, at DATE) USING hudi PARTITIONED BY (bucket(4, id)) TBLPROPERTIES (primaryKey='id')",
            UnsupportedStatementError,
            r"PARTITIONED BY \(bucket\(4, id\)",
        ),
        pytest.param(
            "(id INT, v VARIANT) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            "column v",
            marks=needs_spark("4.0", "the type VARIANT"),
        ),
        (
            "(id INT, v STRUCT<>) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            "without fields",
        ),
        (
            "(id INT, v MAP<INT, INT>) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            "column v",
        ),
        (
            "(id INT, v INTERVAL DAY) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            "column v",
        ),
        (
            "(id INT, v STRUCT<a: VARCHAR(3)>) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            r"column v.a: .* VARCHAR\(3\)",
        ),
        ("(id INT, v INT NOT NULL) USING hudi TBLPROPERTIES (primaryKey='id')", HudisqlError, "NOT NULL"),
        (
            "(id INT, v INT DEFAULT 3) USING hudi TBLPROPERTIES (primaryKey='id')",
            UnsupportedStatementError,
            "column v: a DEFAULT",
        ),
        ("(id INT) USING hudi TBLPROPERTIES (primaryKey='no')", InvalidArgumentError, "names no column"),
        (
            "(id INT) USING hudi TBLPROPERTIES (primaryKey='id', type='x')",
            InvalidArgumentError,
            "'cow' or 'mor'",
        ),
        (
            "(id INT) USING hudi PARTITIONED BY (bucket(3, id)) TBLPROPERTIES (primaryKey='id')",
            UnsupportedStatementError,
            "bucket",
        ),
        (
            "(id INT) USING hudi TBLPROPERTIES (primaryKey='id', 'hoodie.write.table.version'='8')",
            UnsupportedTableError,
            "makes tables of version 6 or 9",
        ),
        (
            "(id INT, a INT) USING hudi TBLPROPERTIES (primaryKey='id', orderingFields='id,a', "
            "'hoodie.write.table.version'='9')",
            UnsupportedTableError,
            "makes tables with one ordering column",
        ),
        *(
            (
                f"(id INT, v STRING, p {kind}) USING hudi PARTITIONED BY (p) TBLPROPERTIES (primaryKey='id', "
                f"{more}'hoodie.datasource.write.drop.partition.columns'='true')",
                UnsupportedTableError,
                said,
            )
            for kind, more, said in (
                ("STRING", "type='mor', ", r"drop.partition.columns=true\), and it is merge-on-read"),
                ("STRING", "'hoodie.table.cdc.enabled'='true', ", "and it logs changes"),
                ("STRING", "'hoodie.populate.meta.fields'='false', ", "its files lack the partition columns"),
                ("INT", "", "and its partition column p is no STRING"),
            )
        ),
        (
            "(id INT) USING hudi TBLPROPERTIES (primaryKey='id', 'hoodie.table.version'='8')",
            UnsupportedTableError,
            "hoodie.table.version = 8",
        ),
        (
            "(id INT) USING hudi TBLPROPERTIES (primaryKey='id', 'hoodie.table.recordkey.fields'='v')",
            InvalidArgumentError,
            "contradict",
        ),
        (
            "(id INT, at TIMESTAMP_NTZ) USING hudi PARTITIONED BY (at) TBLPROPERTIES (primaryKey='id')",
            UnsupportedTableError,
            "PARTITIONED BY at: Hudi does not name directories by a TIMESTAMP_NTZ",
        ),
        (
            "(id INT, at BIGINT) USING hudi PARTITIONED BY (at) TBLPROPERTIES (primaryKey='id', "
            "'hoodie.table.keygenerator.class'='org.apache.hudi.keygen.TimestampBasedKeyGenerator')",
            UnsupportedTableError,
            r"no setting has hoodie\.keygen\.timebased\.timestamp\.type",
        ),
        (
            "(id INT, a INT, b INT) USING hudi PARTITIONED BY (a, b) TBLPROPERTIES (primaryKey='id', "
            "'hoodie.table.keygenerator.class'='org.apache.hudi.keygen.CustomKeyGenerator')",
            UnsupportedTableError,
            "no setting has the kinds",
        ),
        (
            "(id INT, a INT) USING hudi PARTITIONED BY (a) TBLPROPERTIES (primaryKey='id', "
            "'hoodie.datasource.write.partitionpath.field'='a:SIMPLE')",
            InvalidArgumentError,
            r"no custom key generator(.|\n)*CustomKeyGenerator",
        ),
        (
            "(id INT, day STRING) USING hudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey='id', "
            "'hoodie.table.keygenerator.class'='org.apache.hudi.keygen.TimestampBasedKeyGenerator', "
            "'hoodie.keygen.timebased.timestamp.type'='UNIX_TIMESTAMP', 'hoodie.keygen.timebased.timezone'="
            "'UTC', 'hoodie.keygen.timebased.output.dateformat'='yyyy')",
            UnsupportedTableError,
            "no pattern says how to read them",
        ),
        ("(id INT, _hoodie_file_name STRING) USING hudi", UnsupportedTableError, "meta columns"),
        ("(id INT) USING hudi AS SELECT 1 AS id", SqlSyntaxError, "CTAS"),
    ],
)
def test_what_a_table_cannot_be_is_refused_by_name(
    session: Session, tmp_path: Path, text: str, error: type[HudisqlError], words: str
) -> None:
    clause = f"USING hudi LOCATION '{tmp_path / 't'}'"
    with pytest.raises(error, match=words):
        session.sql(f"CREATE TABLE made.t {text.replace('USING hudi', clause)}")
    assert not (tmp_path / "t").exists()
    assert session.context.metastore.list_tables("made") == []


def test_directories_that_hold_something_are_refused(session: Session, tmp_path: Path) -> None:
    properties = "TBLPROPERTIES (primaryKey = 'id')"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    with pytest.raises(TableExistsError, match="is not empty"):
        session.sql(f"CREATE TABLE made.t (id INT) USING hudi LOCATION '{tmp_path / 'full'}' {properties}")
    session.sql(f"CREATE TABLE made.t (id INT) USING hudi LOCATION '{tmp_path / 't'}' {properties}")
    with pytest.raises(TableExistsError, match="lies in the Hudi table"):
        session.sql(f"CREATE TABLE made.u (id INT) USING hudi LOCATION '{tmp_path / 't' / 'u'}' {properties}")
    with pytest.raises(NoSuchTableError, match="no database nowhere"):
        session.sql(f"CREATE TABLE nowhere.u (id INT) USING hudi {properties}")


def test_what_a_killed_create_table_left_is_taken_over(session: Session, tmp_path: Path) -> None:
    (tmp_path / "t" / ".hoodie" / "archived").mkdir(parents=True)
    session.sql(
        f"CREATE TABLE made.t (id INT) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    assert rows(session, "SELECT * FROM made.t") == []


def test_a_table_is_made_of_a_query(session: Session, tmp_path: Path) -> None:
    text = (
        f"CREATE TABLE made.t USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq') AS "
        "SELECT concat('2024-03-0', id % 3 + 1) AS dt, id, CAST(id AS TINYINT) AS seq, "
        "array(id, NULL) AS many, named_struct('a', id) AS one FROM range(30)"
    )
    assert session.sql(text).rows[0].rows_inserted == 30
    described = [row.col_name for row in session.sql("DESCRIBE made.t").rows]
    assert [name for name in described if not name.startswith(("_", "#"))][:5] == [
        *("id", "seq", "many", "one", "dt"),
    ]
    session.sql(
        f"CREATE TABLE made.u USING hudi LOCATION '{tmp_path / 'u'}' TBLPROPERTIES (primaryKey = 'id', "
        "'hoodie.parquet.compression.codec' = 'snappy') AS SELECT * FROM made.t WHERE dt = '2024-03-01'"
    )
    assert session.sql("SELECT count(*), max(many[0]), max(one.a) FROM made.u").rows == [(10, 27, 27)]
    assert session.sql("UPDATE made.u SET seq = 0 WHERE id = 27").rows[0].rows_updated == 1
    footers = [pq.read_metadata(path) for path in (tmp_path / "u").glob("*.parquet")]
    assert {footer.row_group(0).column(0).compression for footer in footers} == {"SNAPPY"}
    assert len(footers) == 2
    for query in ("SELECT NULL AS id, 1 AS x", "SELECT 1 / 0 AS id"):
        with pytest.raises(HudisqlError):
            session.sql(
                f"CREATE TABLE made.v USING hudi LOCATION '{tmp_path / 'v'}' "
                f"TBLPROPERTIES (primaryKey = 'id') AS {query}"
            )
        assert not (tmp_path / "v").exists()
    with pytest.raises(TableExistsError, match=r"made\.t exists already"):
        session.sql(text)


def test_the_table_that_a_killed_create_table_as_left_is_registered_and_filled_as_the_error_says(
    session: Session, tmp_path: Path
) -> None:
    properties = "TBLPROPERTIES (primaryKey = 'id', hoodie.index.type = 'BUCKET')"
    session.sql(f"CREATE TABLE made.t (id INT) USING hudi LOCATION '{tmp_path / 't'}' {properties}")
    session.sql("DROP TABLE made.t")
    text = f"CREATE TABLE made.t USING hudi LOCATION '{tmp_path / 't'}' {properties} AS SELECT 1 AS id"
    with pytest.raises(TableExistsError, match=r"the metastore has no made\.t") as raised:
        session.sql(text)
    advice = str(raised.value.hint).partition(", with these TBLPROPERTIES, registers it")
    assert advice[1]
    session.sql(f"{advice[0]} {properties}")
    assert session.sql("INSERT INTO made.t VALUES (1)").rows[0].rows_inserted == 1
    assert len(session.sql("SHOW TBLPROPERTIES made.t ('hoodie.index.type')").rows) == 1


def test_key_and_ordering_are_taken_in_hudis_and_dbts_forms(session: Session, tmp_path: Path) -> None:
    """Hudi 0.15 and 1.2 take `preCombine`; dbt-spark writes a key of several columns as a list."""
    session.sql(
        f"CREATE TABLE made.forms (id INT, region STRING, ts INT) USING hudi LOCATION '{tmp_path / 'forms'}' "
        "OPTIONS (primaryKey \"['id', 'region']\", PRECOMBINE 'ts')"
    )
    properties = properties_at(tmp_path / "forms")
    assert properties["hoodie.table.recordkey.fields"] == "id,region"
    assert properties["hoodie.table.precombine.field"] == "ts"
    assert parameters_of(session, "forms")["primaryKey"] == "id,region"
