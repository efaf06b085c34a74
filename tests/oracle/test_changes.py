"""Tables that hudisql's statements changed: Apache Hudi reads the same rows and goes on writing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows, read_by_both
from tests.oracle.shapes import SHAPES, Shape, bootstrap_shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

COPY_ON_WRITE_SHAPES = [shape for shape in SHAPES if shape.table_type == "COPY_ON_WRITE"]


def _change(session: Any, table: str, shape: Shape, source: pa.Table) -> pa.Table:
    """Delete seq < 10, update 10 to 19, merge 100 to 129 (twenty known); gives what must be there."""
    session.sql(f"DELETE FROM {table} WHERE seq < 10")
    session.sql(f"UPDATE {table} SET note = concat('updated ', seq) WHERE seq < 20")
    frame = session.context.spark.createDataFrame(source)
    frame.createOrReplaceTempView("oracle_changes")
    session.sql(
        f"MERGE INTO {table} t USING oracle_changes s ON t.id = s.id AND t.seq = s.seq "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.context.spark.catalog.dropTempView("oracle_changes")
    rows = shape.with_partition_columns(
        pa.concat_tables([sample_rows(10, 100), sample_rows(100, 130, "second")])
    )
    notes = [
        f"updated {number}" if number < 20 else note
        for number, note in zip(rows["seq"].to_pylist(), rows["note"].to_pylist(), strict=True)
    ]
    position = rows.schema.get_field_index("note")
    return rows.set_column(position, "note", pa.array(notes, rows["note"].type))


def test_hudi_015_goes_on_with_a_merge_on_read_table_that_statements_changed(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
    table = bootstrap_shape(session, shape, tmp_path, table="oracle.changed_mor")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    expected = _change(session, "oracle.changed_mor", shape, changes)
    session.sql("UPDATE oracle.changed_mor SET fare = -1 WHERE seq = 50")
    assert list(Path(table.path).rglob("*.log.*"))
    _update_by_many_log_files(session, table.path)
    read_by_both(oracle_015, session, "oracle.changed_mor", table.path)

    # A write that died with its log file written: Apache Hudi rolls it back before its own.
    _crashed_update(session, table.path)
    third = shape.with_partition_columns(sample_rows(15, 25, "third"))
    options = {**shape.write_options(), "hoodie.table.name": "changed_mor"}
    oracle_015.upsert(third, table.path, options)
    read_by_both(oracle_015, session, "oracle.changed_mor", table.path)
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    oracle_015.upsert(shape.with_partition_columns(sample_rows(50, 51)), table.path, options | compacting)
    read_by_both(oracle_015, session, "oracle.changed_mor", table.path)
    kept = expected.filter(pc.or_(pc.less(expected["seq"], 15), pc.greater_equal(expected["seq"], 25)))
    theirs = oracle_015.read(table.path)
    assert_same_rows(theirs.select(expected.column_names), pa.concat_tables([kept, third]), sort_by=["seq"])


def _update_by_many_log_files(session: Any, path: str) -> None:
    """Rows are rewritten as they are, in blocks and log files that hold a few of them each."""
    before = set(Path(path).rglob("*.log.*"))
    for key, size in (("data.block.max.size", 1000), ("max.size", 500)):
        session.sql(f"SET hoodie.logfile.{key} = {size}")
    session.sql("UPDATE oracle.changed_mor SET note = note WHERE seq > 30")
    for key in ("data.block.max.size", "max.size"):
        session.sql(f"RESET hoodie.logfile.{key}")
    versions = [path.name.split(".log.")[0] for path in set(Path(path).rglob("*.log.*")) - before]
    assert len(versions) > len(set(versions)) + 2


def _crashed_update(session: Any, path: str) -> None:
    """A deltacommit that deletes every row of a slice and ends before its last step."""
    from hudisql.storage import Storage
    from hudisql.table.files.snapshot import load_file_slices
    from hudisql.table.hudi_table import open_table
    from hudisql.write.handle.log_file import delete_block, next_log_version, write_log_file
    from hudisql.write.transaction.commit import begin_commit
    from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker

    storage = Storage()
    commit = begin_commit(open_table(storage, path), "UPSERT")
    chosen = load_file_slices(commit.table)[0]
    keys = [row[0] for row in session.sql("SELECT _hoodie_record_key FROM oracle.changed_mor").rows]
    block = delete_block(pa.array(keys), chosen.partition_path, "{}", commit.instant_time)
    version = next_log_version(chosen, chosen.base_instant_time)
    name = f".{chosen.file_id}_{chosen.base_instant_time}.log.{version}_0-0-0"
    marker = Marker(chosen.partition_path, name, MarkerKind.APPEND)
    create_marker(storage, path, commit.instant_time, marker)
    directory = f"{path}/{chosen.partition_path}"
    write_log_file(storage, directory, chosen.file_id, chosen.base_instant_time, version, "0-0-0", [block])


@pytest.mark.soak
@pytest.mark.parametrize(
    "shape",
    parameters(COPY_ON_WRITE_SHAPES, in_ci=["composite"]),
    ids=lambda shape: shape.name,
)
def test_hudi_015_reads_and_upserts_what_statements_changed(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, shape: Shape
) -> None:
    name = f"changed_{shape.name}"
    table = bootstrap_shape(session, shape, tmp_path, table=f"oracle.{name}")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    expected = _change(session, f"oracle.{name}", shape, changes)

    theirs = oracle_015.read(table.path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])

    third = shape.with_partition_columns(sample_rows(15, 25, "third"))
    options = {**shape.write_options(), "hoodie.table.name": name}
    oracle_015.upsert(third, table.path, options)
    theirs = oracle_015.read(table.path)
    kept = expected.filter(pc.or_(pc.less(expected["seq"], 15), pc.greater_equal(expected["seq"], 25)))
    assert_same_rows(theirs.select(expected.column_names), pa.concat_tables([kept, third]), sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


def test_hudi_120_reads_and_upserts_what_statements_changed(
    oracle_120: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = SHAPES[0]
    table = bootstrap_shape(session, shape, tmp_path, table="oracle.changed_120")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    expected = _change(session, "oracle.changed_120", shape, changes)
    theirs = oracle_120.read(table.path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    third = shape.with_partition_columns(sample_rows(15, 25, "third"))
    options = {**shape.write_options(), "hoodie.table.name": "changed_120"}
    oracle_120.upsert(third, table.path, options)
    theirs = oracle_120.read(table.path)
    ours = session.sql("SELECT * FROM oracle.changed_120").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])
    assert theirs.num_rows == expected.num_rows


@pytest.mark.soak
def test_a_table_that_hudi_015_wrote_is_changed_and_read_by_both(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape = SHAPES[0]
    path = str(tmp_path / "table")
    options = {**shape.write_options(), "hoodie.table.name": "their_own", "hoodie.metadata.enable": "false"}
    oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 120)), path, options)
    session.sql(f"CALL hive_sync(table => 'oracle.their_own', path => '{path}')")
    changes = shape.with_partition_columns(sample_rows(100, 130, "second"))
    expected = _change(session, "oracle.their_own", shape, changes)
    theirs = oracle_015.read(path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql("SELECT * FROM oracle.their_own").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


@pytest.mark.soak
def test_hudi_015_archives_and_cleans_what_statements_left_on_the_timeline(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    from hudisql.errors import HudisqlError

    shape = SHAPES[0]
    name = "archived_changes"
    table = bootstrap_shape(session, shape, tmp_path, table=f"oracle.{name}")
    expected = _change(
        session, f"oracle.{name}", shape, shape.with_partition_columns(sample_rows(100, 130, "second"))
    )
    with pytest.raises(HudisqlError):
        session.sql(f"UPDATE oracle.{name} SET total = total / 0")
    session.sql(
        f"INSERT OVERWRITE oracle.{name} PARTITION (dt = '2024-03-02') "
        f"SELECT * EXCEPT (dt) FROM oracle.{name} WHERE dt = '2024-03-02'"
    )
    options = {
        **shape.write_options(),
        "hoodie.table.name": name,
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    for number in range(4):
        rows = shape.with_partition_columns(sample_rows(120 + number, 121 + number, "second"))
        oracle_015.upsert(rows, table.path, options)
    archived = list((Path(table.path) / ".hoodie" / "archived").iterdir())
    assert archived
    theirs = oracle_015.read(table.path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql(f"SELECT * FROM oracle.{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])
