"""Tables with a bucket index: all statements write rows to the file group of their bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.config.hudi_config import DRIVER_MAX_BYTES
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    SettingsError,
    UnsupportedTableError,
    WriteRefusedError,
)
from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id
from hudisql.format.keys.hash_ring import RingNode, ring_hashes
from hudisql.format.timeline.timeline_layout import bucket_rules_directory
from hudisql.session import Session
from hudisql.table.files.snapshot import load_file_slices
from hudisql.write.index.hash_rings import HashRings, store_ring
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

COLUMNS = "id string, seq bigint, note string, dt string"


@pytest.fixture(params=[pytest.param("cow", marks=pytest.mark.soak), "mor"])
def bucketed(request: pytest.FixtureRequest, session: Session, tmp_path: Path) -> Iterator[ChangedTable]:
    """An empty table with three buckets in each partition."""
    path = tmp_path / "table"
    session.sql("CREATE DATABASE IF NOT EXISTS buckets")
    session.sql(
        f"CREATE TABLE buckets.b (id STRING, seq BIGINT, note STRING, dt STRING) USING hudi "
        f"PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', type = '{request.param}', "
        "preCombineField = 'seq', hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '3')"
    )
    yield ChangedTable(session, "buckets.b", str(path))
    session.sql("DROP TABLE IF EXISTS buckets.b")
    session.sql("DROP DATABASE buckets")


def check_buckets(table: ChangedTable, counts: Mapping[str, int] = {}) -> int:
    """Every row lies in its own bucket's only file group; gives how many groups there are.

    A partition has as many buckets as `counts` says, or three.
    """
    rows = table.session.sql(
        "SELECT _hoodie_record_key, substring_index(_hoodie_file_name, '_', 1), _hoodie_partition_path "
        f"FROM {table.name}"
    ).rows
    for key, file_id, path in rows:
        [expected] = bucket_ids(pa.array([key], pa.string()), ["id"], counts.get(path, 3)).tolist()
        assert bucket_of_file_id(file_id.lstrip(".")) == expected
    slices = load_file_slices(open_at(table.path))
    places = [(each.partition_path, bucket_of_file_id(each.file_id)) for each in slices]
    assert len(set(places)) == len(places)
    return len(places)


NUMBERS = "SELECT concat('k', id) AS id, id AS seq, 'a' AS note, concat('d', id % 2) AS dt FROM range(40)"


def _change_rows(table: ChangedTable, count_groups: Callable[[ChangedTable], int], first: int = 6) -> None:
    """Change rows by each statement; `count_groups` also checks the bucket of each row."""
    session = table.session
    assert table.run(f"INSERT INTO {{t}} {NUMBERS}")["inserted"] == 40
    assert count_groups(table) == first
    merge = (
        "MERGE INTO {t} t USING (SELECT concat('k', id) AS id, id + 100 AS seq, 'b' AS note, "
        "concat('d', id % 2) AS dt FROM range(30, 50)) s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    counts = table.run(merge)
    assert (counts["updated"], counts["inserted"]) == (10, 10)
    rows = session.spark.createDataFrame([("k1", 500, "c", "d1"), ("k77", 1, "c", "d1")], COLUMNS)
    result = session.write(rows, table.name, "upsert")
    assert (result.updated, result.inserted) == (1, 1)
    assert table.run("UPDATE {t} SET dt = 'd2' WHERE id = 'k2'")["moved"] == 1
    assert table.run("DELETE FROM {t} WHERE id = 'k3'")["deleted"] == 1
    with setting(session, "hoodie.spark.sql.insert.into.operation", "bulk_insert"):
        assert table.run("INSERT INTO {t} VALUES ('k80', 1, 'd', 'd0')")["inserted"] == 1
    assert count_groups(table) == first + 1


def test_all_statements_keep_rows_in_their_buckets(bucketed: ChangedTable) -> None:
    table = bucketed
    _change_rows(table, check_buckets)
    assert len(table.rows("id")) == 51
    assert table.rows("id, note, dt", "id IN ('k1', 'k2', 'k35', 'k49')") == [
        ("k1", "c", "d1"),
        ("k2", "a", "d2"),
        ("k35", "b", "d1"),
        ("k49", "b", "d1"),
    ]
    table.run(f"INSERT OVERWRITE {{t}} PARTITION (dt = 'd1') SELECT id, seq, note FROM ({NUMBERS})")
    assert check_buckets(table) == 7
    assert len(table.rows("id", "dt = 'd1'")) == 40


RULES = "d[02]$,2;dt=d1,5"
COUNTS = {"dt=d0": 2, "dt=d1": 5, "dt=d2": 2}


@pytest.fixture
def numbered(session: Session, tmp_path: Path) -> Iterator[ChangedTable]:
    """An empty table whose partitions have different numbers of buckets."""
    path = tmp_path / "table"
    session.sql("CREATE DATABASE IF NOT EXISTS buckets")
    session.sql(
        f"CREATE TABLE buckets.n ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', hoodie.index.type = 'BUCKET', "
        f"hoodie.bucket.index.num.buckets = '3', hoodie.bucket.index.partition.expressions = '{RULES}')"
    )
    yield ChangedTable(session, "buckets.n", str(path))
    for name in "nc":
        session.sql(f"DROP TABLE IF EXISTS buckets.{name}")
    session.sql("DROP DATABASE buckets")


@pytest.mark.parametrize("driver_bytes", parameters(["default", "0"], in_ci=["0"]))
def test_partitions_have_their_own_numbers_of_buckets(
    session: Session, numbered: ChangedTable, driver_bytes: str, tmp_path: Path
) -> None:
    table = numbered
    with ExitStack() as settings:
        if driver_bytes != "default":
            settings.enter_context(setting(session, DRIVER_MAX_BYTES.name, driver_bytes))
        # What the table stores counts, not the settings.
        settings.enter_context(setting(session, "hoodie.bucket.index.partition.expressions", "d,7"))
        _change_rows(table, lambda changed: check_buckets(changed, COUNTS), first=7)
        table.run(f"INSERT OVERWRITE {{t}} PARTITION (dt = 'd1') SELECT id, seq, note FROM ({NUMBERS})")
    assert check_buckets(table, COUNTS) == 8
    assert len(table.rows("id", "dt = 'd1'")) == 40
    session.sql(
        f"CREATE TABLE buckets.c USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path / 'c'}' TBLPROPERTIES "
        "(primaryKey = 'id', hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '3', "
        f"hoodie.bucket.index.partition.expressions = '{RULES}') AS {NUMBERS}"
    )
    assert check_buckets(ChangedTable(session, "buckets.c", str(tmp_path / "c")), COUNTS) == 7


def test_what_other_rules_would_change_is_shown(session: Session, numbered: ChangedTable) -> None:
    numbered.run(f"INSERT INTO {{t}} {NUMBERS}")

    def call(arguments: str) -> list[tuple[Any, ...]]:
        text = f"CALL partition_bucket_index_manager(table => 'buckets.n', {arguments})"
        return [tuple(row) for row in session.sql(text).rows]

    shown = (
        f"PartitionBucketIndexHashingConfig(expressions={RULES}, defaultBucketNumber=3, rule=regex, "
        "version=1, instant=00000000000000)"
    )
    assert call("show_config => true") == [("SUCCESS", "SHOW_CONFIG", shown)]
    changed = ("SUCCESS", "DRY_RUN_OVERWRITE", "\ndt=d0 => 4\n;\ndt=d1 => 4\n")
    assert call("overwrite => 'd2,2', bucket_number => 4") == [changed]
    assert call("add => 'd1,6'") == [("SUCCESS", "DRY_RUN_OVERWRITE", "\ndt=d1 => 6\n")]
    assert call("overwrite => 'd0,2;d1,5'") == [("SUCCESS", "DRY_RUN_OVERWRITE", "")]
    for arguments, said in (
        ("rollback => '20261122000001000'", "has not changed the numbers"),
        ("overwrite => '(?i)d,6'", "cannot be followed"),
        ("bucket_number => 6", "needs one of"),
    ):
        with pytest.raises(HudisqlError, match=said):
            call(arguments)


@pytest.mark.soak
def test_numbers_of_a_table_without_partitions_and_beside_a_planned_compaction(
    session: Session, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS buckets")
    session.sql(
        f"CREATE TABLE buckets.c (id STRING, seq BIGINT) USING hudi LOCATION '{tmp_path / 'c'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'seq', "
        "hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '3')"
    )
    table = ChangedTable(session, "buckets.c", str(tmp_path / "c"))
    table.run("INSERT INTO {t} SELECT concat('k', id), id FROM range(40)")
    table.run("UPDATE {t} SET seq = seq + 100 WHERE seq % 2 = 0")
    move = (
        "CALL partition_bucket_index_manager(table => 'buckets.c', overwrite => 'none,9', "
        "bucket_number => 5, dry_run => false)"
    )
    with setting(session, "hoodie.compact.inline.max.delta.commits", "1"):
        session.sql("CALL run_compaction(op => 'schedule', table => 'buckets.c')")
    with pytest.raises(UnsupportedTableError, match="planned for partitions"):
        session.sql(move)
    session.sql("CALL run_compaction(op => 'run', table => 'buckets.c')")
    rows = table.rows("id, seq")
    session.sql(move)
    assert check_buckets(table, {"": 5}) == 5
    assert table.rows("id, seq") == rows
    table.run("INSERT INTO {t} SELECT concat('k', id), id + 1000 FROM range(50)")
    assert check_buckets(table, {"": 5}) == 5
    assert len(table.rows("id")) == 50
    with pytest.raises(HudisqlError, match="cannot be followed"):
        session.sql(move.replace("overwrite => 'none,9'", "add => 'none'"))
    session.sql("DROP TABLE buckets.c")
    session.sql("DROP DATABASE buckets")


def test_rules_that_cannot_be_followed_are_refused(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE DATABASE IF NOT EXISTS buckets")
    path = tmp_path / "table"
    for more, said in (
        ("hoodie.bucket.index.partition.expressions = 'd{1,2},5'", "not of the form pattern,number"),
        (
            "hoodie.bucket.index.partition.expressions = 'd,5', hoodie.index.bucket.engine = "
            "'CONSISTENT_HASHING'",
            "its own ring of buckets",
        ),
    ):
        with pytest.raises(HudisqlError, match=said):
            session.sql(
                f"CREATE TABLE buckets.x ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
                f"TBLPROPERTIES (primaryKey = 'id', type = 'mor', hoodie.index.type = 'BUCKET', {more})"
            )
    assert not path.exists()
    # What a killed CREATE TABLE has left is not taken for the new table's.
    rules = Path(bucket_rules_directory(str(path)))
    rules.mkdir(parents=True)
    (rules / "00000000000000.hashing_config").write_text("{}")
    session.sql(
        f"CREATE TABLE buckets.x ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id', hoodie.index.type = 'BUCKET', "
        "hoodie.bucket.index.num.buckets = '3')"
    )
    session.sql(f"INSERT INTO buckets.x {NUMBERS}")
    assert check_buckets(ChangedTable(session, "buckets.x", str(path))) == 6
    session.sql("DROP TABLE buckets.x")
    session.sql("DROP DATABASE buckets")


@pytest.fixture
def ringed(session: Session, tmp_path: Path) -> Iterator[ChangedTable]:
    """An empty table with a consistent hashing index."""
    path = tmp_path / "table"
    session.sql("CREATE DATABASE IF NOT EXISTS buckets")
    session.sql(
        f"CREATE TABLE buckets.r ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'seq', "
        "hoodie.index.type = 'BUCKET', hoodie.index.bucket.engine = 'CONSISTENT_HASHING', "
        "hoodie.bucket.index.num.buckets = '3')"
    )
    yield ChangedTable(session, "buckets.r", str(path))
    session.sql("DROP TABLE IF EXISTS buckets.r")
    session.sql("DROP TABLE IF EXISTS buckets.c")
    session.sql("DROP DATABASE buckets")


def _check_rings(table: ChangedTable) -> int:
    """Every row lies in the file group of its key in the partition's ring; gives the number of groups."""
    rings = HashRings(open_at(table.path), 3)
    rows = table.session.sql(
        "SELECT _hoodie_record_key, _hoodie_partition_path, substring_index(_hoodie_file_name, '_', 1) "
        f"FROM {table.name}"
    ).rows
    for key, path, file_id in rows:
        ring = rings.of(path)
        [bucket] = ring.buckets_of(ring_hashes(pa.array([key]), ["id"])).tolist()
        assert ring.file_id(bucket) == file_id.lstrip(".")
    assert len({(key, path) for key, path, _ in rows}) == len(rows)
    return len({(path, file_id) for _, path, file_id in rows})


@pytest.mark.parametrize("driver_bytes", parameters(["default", "0"], in_ci=["0"]))
def test_all_statements_keep_rows_in_their_rings(
    session: Session, ringed: ChangedTable, driver_bytes: str
) -> None:
    table = ringed
    with ExitStack() as settings:
        if driver_bytes != "default":
            settings.enter_context(setting(session, DRIVER_MAX_BYTES.name, driver_bytes))
        _change_rows(table, _check_rings)
        # Not by dropping the file groups: the bucket takes rows again.
        assert table.run("DELETE FROM {t} WHERE dt = 'd2'")["deleted"] == 1
        assert table.run("INSERT INTO {t} VALUES ('k2', 1, 'e', 'd2')")["inserted"] == 1
    assert _check_rings(table) == 7
    assert len(table.rows("id")) == 51
    assert table.rows("id, note, dt", "id IN ('k1', 'k2', 'k35', 'k49')") == [
        ("k1", "c", "d1"),
        ("k2", "e", "d2"),
        ("k35", "b", "d1"),
        ("k49", "b", "d1"),
    ]


def _resize(table: ChangedTable, more: str = "") -> list[str]:
    """Split each bucket, up to six; gives the instant of the clustering, if there is one."""
    options = (
        "hoodie.bucket.index.max.num.buckets=6,hoodie.bucket.index.split.threshold=0.00001,"
        "hoodie.bucket.index.merge.threshold=0.0000001"
    )
    call = f"CALL run_clustering(table => '{table.name}', options => '{options}'{more})"
    return [str(row.timestamp) for row in table.session.sql(call).rows]


def test_clustering_resizes_the_buckets(session: Session, ringed: ChangedTable) -> None:
    ringed.run(f"INSERT INTO {{t}} {NUMBERS}")
    before = ringed.rows("id, seq, note, dt, _hoodie_commit_time")
    [instant_time] = _resize(ringed)
    assert ringed.rows("id, seq, note, dt, _hoodie_commit_time") == before
    rings = HashRings(open_at(ringed.path), 3)
    assert [(rings.of(path).number, len(rings.of(path).values)) for path in ("dt=d0", "dt=d1")] == [
        (1, 6)
    ] * 2
    groups = _check_rings(ringed)
    assert groups > 6
    rows = session.spark.createDataFrame([("k1", 500, "c", "d1"), ("k77", 1, "c", "d1")], COLUMNS)
    result = session.write(rows, ringed.name, "upsert")
    assert (result.updated, result.inserted) == (1, 1)
    assert _check_rings(ringed) in (groups, groups + 1)
    # There is room for no more buckets.
    assert _resize(ringed) == []
    for each in (str(result.instant_time), instant_time):
        session.sql(f"CALL rollback_to_instant(table => '{ringed.name}', instant_time => '{each}')")
    assert ringed.rows("id, seq, note, dt, _hoodie_commit_time") == before
    assert _check_rings(ringed) == 6
    with pytest.raises(InvalidArgumentError, match="does not sort"):
        _resize(ringed, ", order => 'seq'")


def test_a_planned_resizing_is_undone_or_run(session: Session, ringed: ChangedTable) -> None:
    ringed.run(f"INSERT INTO {{t}} {NUMBERS}")
    [planned] = _resize(ringed, ", op => 'schedule'")
    with pytest.raises(UnsupportedTableError, match="is pending"):
        ringed.run("DELETE FROM {t} WHERE id = 'k1'")
    session.sql(
        f"CALL run_rollback_inflight_tableservice(table => '{ringed.name}', pending_instant => '{planned}', "
        "delete_request_instant_file => true)"
    )
    assert ringed.run("DELETE FROM {t} WHERE id = 'k1'")["deleted"] == 1
    assert _check_rings(ringed) == 6
    [planned] = _resize(ringed, ", op => 'schedule'")
    # A run that was killed before its commit has left its rings.
    table = open_at(ringed.path)
    old = HashRings(table, 3).of("dt=d0")
    store_ring(table, old.resized(planned, [RingNode(1, "x")]))
    session.sql(f"CALL run_clustering(table => '{ringed.name}', op => 'execute')")
    assert _check_rings(ringed) > 6
    assert len(ringed.rows("id")) == 39
    assert HashRings(open_at(ringed.path), 3).of("dt=d0").number == 1


def test_what_would_end_the_rings_is_refused(session: Session, ringed: ChangedTable, tmp_path: Path) -> None:
    rows = "SELECT concat('k', id) AS id, id AS seq, 'a' AS note, 'd' AS dt FROM range(20)"
    ringed.run(f"INSERT INTO {{t}} {rows}")
    with pytest.raises(UnsupportedTableError, match="cannot be overwritten"):
        ringed.run(f"INSERT OVERWRITE {{t}} {rows}")
    with (
        setting(session, "hoodie.index.type", "BLOOM"),
        pytest.raises(WriteRefusedError, match="consistent"),
    ):
        ringed.run(f"INSERT INTO {{t}} {rows.replace('(20)', '(20, 30)')}")
    with (
        setting(session, "hoodie.bucket.index.partition.expressions", "d.*,4"),
        pytest.raises(UnsupportedTableError, match="numbers of buckets by partition"),
    ):
        ringed.run(f"INSERT INTO {{t}} {rows}")
    with (
        setting(session, "hoodie.index.bucket.engine", "SIMPLE"),
        pytest.raises(UnsupportedTableError, match="is not a bucket"),
    ):
        ringed.run(f"INSERT INTO {{t}} {rows}")
    # Readers would not see new rows in the file groups that are dropped here.
    assert _check_rings(ringed) == 3
    session.sql("ALTER TABLE buckets.r DROP PARTITION (dt = 'd')")
    with pytest.raises(UnsupportedTableError, match="has replaced it"):
        ringed.run(f"INSERT INTO {{t}} {rows}")
    assert ringed.rows("id") == []
    session.sql(
        f"CREATE TABLE buckets.c USING hudi LOCATION '{tmp_path / 'c'}' TBLPROPERTIES (primaryKey = 'id', "
        "type = 'mor', hoodie.index.type = 'BUCKET', hoodie.index.bucket.engine = 'CONSISTENT_HASHING', "
        f"hoodie.bucket.index.num.buckets = '3') AS {rows}"
    )
    made = ChangedTable(session, "buckets.c", str(tmp_path / "c"))
    assert (_check_rings(made), len(made.rows("id"))) == (3, 20)


def _upsert(session: Session, table: ChangedTable, **options: str) -> None:
    rows: Any = session.spark.createDataFrame([("k1", 1, "2024-03-01")], "id string, seq bigint, dt string")
    given = {"hoodie.index.type": "BUCKET"} | {f"hoodie.{key}": value for key, value in options.items()}
    session.write(rows, table.name, "upsert", **given)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({}, UnsupportedTableError, "is not a bucket.*it was bootstrapped"),
        ({"index.bucket.engine": "CONSISTENT_HASHING"}, UnsupportedTableError, "merge-on-read tables alone"),
        ({"bucket.index.num.buckets": "0"}, SettingsError, "num.buckets must be a whole number above 0"),
        ({"bucket.index.hash.field": "seq"}, SettingsError, "'seq', which is not a column of the record key"),
    ],
)
def test_what_is_no_bucket_index_is_refused(
    session: Session, table: ChangedTable, options: dict[str, str], kind: type[HudisqlError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        _upsert(session, table, **options)
    assert len(table.instants()) == 1


@pytest.mark.parametrize("bucketed", ["cow"], indirect=True)
def test_settings_that_would_end_the_index_are_refused(session: Session, bucketed: ChangedTable) -> None:
    insert = "INSERT INTO {t} SELECT concat('k', id), id, 'a', 'd' FROM range(20)"
    bucketed.run(insert)
    with setting(session, "hoodie.bucket.index.num.buckets", "2"), pytest.raises(UnsupportedTableError):
        bucketed.run(insert)
    with (
        setting(session, "hoodie.index.type", "BLOOM"),
        pytest.raises(WriteRefusedError, match="none is configured"),
    ):
        bucketed.run(insert.replace("range(20)", "range(20, 40)"))
    assert check_buckets(bucketed) == 3
