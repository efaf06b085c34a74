"""Tables made by CREATE TABLE and ALTER TABLE: Apache Hudi takes them and goes on writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import Shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

CREATED = (
    Shape("cow_partitioned", partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"}),
    Shape("cow_plain"),
    Shape(
        "mor_partitioned",
        table_type="MERGE_ON_READ",
        partition_columns={"dt": lambda n: f"2024-03-0{n % 3 + 1}"},
    ),
    Shape("mor_plain", table_type="MERGE_ON_READ"),
)


@pytest.fixture(autouse=True)
def database(session: Any) -> Iterator[None]:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle_ddl")
    yield
    for name in session.context.metastore.list_tables("oracle_ddl"):
        session.sql(f"DROP TABLE IF EXISTS oracle_ddl.{name}")
    session.sql("DROP DATABASE oracle_ddl")


def create(session: Any, shape: Shape, path: Path) -> str:
    """CREATE TABLE with the columns of the oracle's sample rows; gives the table's name."""
    from hudisql.format.schema.avro_schema import canonical_type
    from hudisql.format.schema.spark_schema import spark_type_name

    rows = shape.with_partition_columns(sample_rows(0, 1))
    columns = ", ".join(
        f"{field.name} {spark_type_name(canonical_type(field.type, field.name))}" for field in rows.schema
    )
    partitions = f"PARTITIONED BY ({', '.join(shape.partition_columns)})" if shape.partition_columns else ""
    kind = "mor" if shape.table_type == "MERGE_ON_READ" else "cow"
    session.sql(
        f"CREATE TABLE oracle_ddl.{shape.name} ({columns}) USING hudi {partitions} LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'seq')"
    )
    return f"oracle_ddl.{shape.name}"


def write_options(shape: Shape) -> dict[str, str]:
    """What a writer of Apache Hudi says of a table that CREATE TABLE made: hive style always."""
    return {**shape.write_options(), "hoodie.datasource.write.hive_style_partitioning": "true"}


@pytest.mark.parametrize(
    "shape", parameters(CREATED, in_ci=["cow_partitioned"]), ids=lambda shape: shape.name
)
def test_hudi_015_writes_to_a_created_table_and_both_read_it(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    path = tmp_path / "table"
    name = create(session, shape, path)
    first = shape.with_partition_columns(sample_rows(0, 60))
    oracle_015.upsert(first, str(path), write_options(shape))
    assert_same_rows(oracle_015.read(str(path)).select(first.column_names), first, sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours.select(first.column_names), first, sort_by=["seq"])
    if shape.table_type == "MERGE_ON_READ":
        return
    session.sql(f"DELETE FROM {name} WHERE seq >= 50")
    second = shape.with_partition_columns(sample_rows(40, 60, "second"))
    oracle_015.upsert(second, str(path), write_options(shape))
    expected = pa.concat_tables([first.slice(0, 40), second])
    theirs = oracle_015.read(str(path))
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])


@pytest.mark.parametrize(
    "shape", parameters(CREATED[:3], in_ci=["mor_partitioned"]), ids=lambda shape: shape.name
)
def test_hudi_015_goes_on_with_an_altered_table(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    """Columns added and widened, a partition dropped: rows are equal, and an upsert keeps it all."""
    path = tmp_path / "table"
    name = create(session, shape, path)
    first = shape.with_partition_columns(sample_rows(0, 60))
    oracle_015.upsert(first, str(path), write_options(shape))
    session.sql(f"ALTER TABLE {name} ADD COLUMNS (added STRING)")
    session.sql(f"ALTER TABLE {name} ALTER COLUMN seq TYPE BIGINT")
    if shape.partition_columns:
        session.sql(f"ALTER TABLE {name} DROP PARTITION (dt = '2024-03-01')")
    kept = [row for row in first.to_pylist() if row.get("dt") != "2024-03-01"]
    assert len(kept) == (40 if shape.partition_columns else 60)

    theirs = oracle_015.read(str(path))
    assert theirs.schema.field("seq").type == pa.int64()
    assert sorted(theirs["seq"].to_pylist()) == [row["seq"] for row in kept]
    assert set(theirs["added"].to_pylist()) == {None}
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])

    second = shape.with_partition_columns(sample_rows(50, 66, "second"))
    second = second.set_column(second.schema.get_field_index("seq"), "seq", second["seq"].cast(pa.int64()))
    second = second.append_column("added", pa.array(["new"] * 16))
    columns = [name for name in theirs.column_names if not name.startswith("_hoodie")]
    oracle_015.upsert(second.select(columns), str(path), write_options(shape))
    theirs = oracle_015.read(str(path))
    expected = {row["seq"]: None for row in kept} | dict.fromkeys(range(50, 66), "new")
    found = dict(zip(theirs["seq"].to_pylist(), theirs["added"].to_pylist(), strict=True))
    assert found == expected
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    if shape.partition_columns:
        session.sql(f"CALL hive_sync(table => '{name}')")
        assert len(session.sql(f"SHOW PARTITIONS {name}").rows) == 3


@pytest.mark.soak
@pytest.mark.parametrize("shape", CREATED, ids=lambda shape: shape.name)
def test_hudi_015_goes_on_after_a_delete_of_whole_partitions(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    """The partitions' file groups are replaced: Hudi reads what is left, and writes to them again."""
    path = tmp_path / "table"
    name = create(session, shape, path)
    options = write_options(shape)
    oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 60)), str(path), options)
    # Log files of a merge-on-read table go with their file groups.
    oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 30, "second")), str(path), options)
    where = "WHERE dt <> '2024-03-02'" if shape.partition_columns else ""
    [deleted] = session.sql(f"DELETE FROM {name} {where}").rows
    left = [seq for seq in range(60) if shape.partition_columns and seq % 3 == 1]
    assert (deleted.rows_deleted, deleted.files_written) == (60 - len(left), 0)
    assert sorted(oracle_015.read(str(path))["seq"].to_pylist()) == left
    again = shape.with_partition_columns(sample_rows(10, 15, "again"))
    oracle_015.upsert(again, str(path), options)
    theirs = oracle_015.read(str(path))
    assert sorted(theirs["seq"].to_pylist()) == sorted({*left, *range(10, 15)})
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    values = {"id": "concat(id, 'x')", "seq": "CAST(seq + 100 AS INT)"}
    columns = ", ".join(f"{values.get(column, column)} AS {column}" for column in again.column_names)
    session.sql(f"INSERT INTO {name} BY NAME SELECT {columns} FROM {name} WHERE seq = 12")
    theirs = oracle_015.read(str(path))
    assert 112 in theirs["seq"].to_pylist()
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])


@pytest.mark.soak
def test_hudi_015_writes_to_a_truncated_table(oracle_015: HudiOracle, session: Any, tmp_path: Path) -> None:
    shape, path = CREATED[0], tmp_path / "table"
    name = create(session, shape, path)
    rows = shape.with_partition_columns(sample_rows(0, 30))
    oracle_015.upsert(rows, str(path), write_options(shape))
    session.sql(f"TRUNCATE TABLE {name}")
    assert oracle_015.read(str(path)).num_rows == 0
    session.sql(f"ALTER TABLE {name} RENAME TO oracle_ddl.renamed")
    options = {**write_options(shape), "hoodie.table.name": "renamed"}
    oracle_015.upsert(rows.slice(0, 10), str(path), options)
    theirs = oracle_015.read(str(path))
    assert sorted(theirs["seq"].to_pylist()) == list(range(10))
    assert_same_rows(session.sql("SELECT * FROM oracle_ddl.renamed").arrow(), theirs, sort_by=["seq"])


def test_hudi_015_and_we_store_null_after_drop_not_null(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    oracle_015.sql(
        f"CREATE TABLE required (id INT, n INT NOT NULL) USING hudi LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    try:
        oracle_015.sql("INSERT INTO required VALUES (1, 1)")
        session.sql(f"CREATE TABLE oracle_ddl.required USING hudi LOCATION '{path}'")
        session.sql("ALTER TABLE oracle_ddl.required ALTER COLUMN n DROP NOT NULL")
        session.sql("INSERT INTO oracle_ddl.required VALUES (2, NULL)")
        session.sql("UPDATE oracle_ddl.required SET n = NULL WHERE id = 1")
        theirs = oracle_015.read(str(path), columns=["id", "n"])
        assert sorted(map(tuple, (row.values() for row in theirs.to_pylist()))) == [(1, None), (2, None)]
        assert session.sql("SELECT n FROM oracle_ddl.required").rows == [(None,), (None,)]
    finally:
        oracle_015.sql("DROP TABLE required")
