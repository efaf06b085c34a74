"""What a bootstrap refuses: one clear error each, and nothing changed."""

from __future__ import annotations

import datetime
import errno
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import (
    BootstrapBlockedError,
    HudisqlError,
    InvalidArgumentError,
    SourceError,
    StorageError,
    SyncFailedError,
)
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_null_and_empty_keys_are_found_before_the_commit_with_file_and_row(call, tmp_path, name):
    table = orders(rows=5)
    table = table.set_column(0, "id", pa.array(["a", None, "", "d", "e"]))
    write_parquet(tmp_path / "s" / "dt=1" / "good.parquet", orders(100))
    bad = write_parquet(tmp_path / "s" / "dt=2" / "bad.parquet", table, write_statistics=False)
    arguments = {"table": name, "source": tmp_path / "s", "target_path": tmp_path / "t", "sync": False}
    with pytest.raises(BootstrapBlockedError) as raised:
        call("bootstrap_table", **arguments, record_key="id")
    assert "2 rows have a null or empty record key (id)" in str(raised.value)
    assert raised.value.blockers == (f"2 in {bad}, such as row 1, 2",)
    assert not (tmp_path / "t").exists()
    rows = call("bootstrap_table", **arguments, record_key="id", key_check="none")
    assert rows[-1]["rows"] == 25


def test_names_of_other_modes_and_unknown_values_are_refused(call, daily_orders, tmp_path, name):
    arguments = {"table": name, "source": daily_orders, "record_key": "id", "target_path": tmp_path / "t"}
    for more, words in (
        ({"mode": "full_record", "full_record_where": "dt = '1'"}, "leave one of them out"),
        ({"full_record_where": "id = 'a'"}, "full_record_where 'id = 'a'' cannot be evaluated"),
        ({"on_unsafe_type": "ignore"}, "on_unsafe_type 'ignore' is unknown"),
        ({"mode": "fast"}, "mode 'fast' is unknown"),
        ({"key_check": "all"}, "key_check 'all' is unknown"),
        ({"skeleton_encoding": "lzo"}, "skeleton_encoding 'lzo' is unknown"),
        ({"table_type": "COLD"}, "table_type 'COLD' is unknown"),
        ({"parallelism": 0}, "parallelism must be 1 or more"),
        ({"bloom_fpp": 2.0}, "bloom_fpp must lie between"),
        ({"partition_by": "dt nonsense"}, "cannot be of type 'nonsense'"),
        ({"partition_filter": "nope = 1"}, r"cannot be evaluated: \[UNRESOLVED_COLUMN.*\[`dt`\]"),
        ({"partition_filter": "dt = "}, r"cannot be evaluated: \[PARSE_SYNTAX_ERROR\] Syntax error"),
        ({"parallelism": "many"}, r"'parallelism' must be of type int, not string 'many' \(not a number\)"),
        ({"options": {"spark.x": "1"}}, "hoodie.\\* settings only"),
        ({"options": {"hoodie.index.bloom.num_entries": "many"}}, "invalid value 'many'"),
        ({"source_table": "store.x"}, "either source"),
        ({"tabel": "x"}, "no parameter 'tabel'"),
        ({"dry_run": 3}, "must be of type boolean"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            call("bootstrap_table", **arguments, **more)
    assert not (tmp_path / "t").exists()


def _spoil(directory: Path, kind: str) -> None:
    """Make a good source directory bad in one way."""
    part = directory / "dt=2024-03-01" / "part-0.parquet"
    if kind == "text":
        (directory / "dt=2024-03-01" / "notes.txt").write_text("hello")
    elif kind == "cut off":
        part.write_bytes(part.read_bytes()[:-20])
    elif kind == "corrupt footer":
        content = bytearray(part.read_bytes())
        content[-60:-10] = b"\xff" * 50
        part.write_bytes(content)
    elif kind == "orc":
        (directory / "dt=2024-03-01" / "x.orc").write_bytes(b"ORC" + b"\0" * 100)
    elif kind == "delta":
        (directory / "_delta_log").mkdir()
    elif kind == "iceberg":
        (directory / "metadata").mkdir()
        (directory / "metadata" / "v1.metadata.json").write_text("{}")
    elif kind == "hudi":
        (directory / ".hoodie").mkdir()
    elif kind == "acid":
        (directory / "dt=2024-03-01" / "delta_0000001_0000001_0000").mkdir()
    elif kind == "depth":
        write_parquet(directory / "dt=2024-03-01" / "hr=1" / "a.parquet", orders())
    elif kind == "int96":
        moments = pa.array([datetime.datetime(2024, 1, 1)] * 20, pa.timestamp("ns"))
        for path in directory.rglob("*.parquet"):
            write_parquet(path, orders(t=moments), use_deprecated_int96_timestamps=True)
    else:
        names = {
            "meta column": "_hoodie_record_key",
            "avro name": "total-amount",
            "case": "ID",
            "partition column inside": "dt",
        }
        for path in directory.rglob("*.parquet"):
            write_parquet(path, orders(**{names[kind]: pa.array(["x"] * 20)}))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("text", "notes.txt is not a parquet file"),
        ("cut off", "part-0.parquet is a corrupt or cut-off parquet file"),
        ("corrupt footer", "part-0.parquet is a corrupt or cut-off parquet file"),
        ("orc", "x.orc is an ORC file, not parquet"),
        ("delta", "is a Delta table"),
        ("iceberg", "is an Iceberg table"),
        ("hudi", "is a Hudi table"),
        ("acid", "is a Hive ACID"),
        ("depth", "data files at different depths"),
        ("int96", "INT96 timestamp in 4 files"),
        ("meta column", "names that Hudi reserves: 1 column: _hoodie_record_key"),
        ("avro name", "does not allow: 1 column: total-amount"),
        ("case", "columns that differ only in case: 2 columns: ID, id"),
        ("partition column inside", "partition column dt is also a column inside the files, with another"),
    ],
)
def test_a_bad_source_gives_one_clear_error_and_changes_nothing(
    call, daily_orders, tmp_path, name, kind, words
):
    _spoil(daily_orders, kind)
    before = fingerprint(tmp_path)
    with pytest.raises(SourceError, match=words.replace("(", "\\(")):
        call(
            "bootstrap_table",
            table=name,
            source=daily_orders,
            record_key="id",
            target_path=tmp_path / "t",
            sync=False,
        )
    assert fingerprint(tmp_path) == before


def test_bad_places_give_one_clear_error_and_change_nothing(call, daily_orders, tmp_path, name):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    before = fingerprint(tmp_path)
    for source, target, words in (
        (tmp_path / "nowhere", tmp_path / "t", "no such source"),
        (daily_orders / "dt=2024-03-01" / "part-0.parquet", tmp_path / "t", "is a file"),
        (daily_orders, tmp_path / "full", "not empty"),
        (daily_orders, daily_orders / "t", "lies inside the source"),
        (daily_orders, tmp_path, "lies inside the target"),
    ):
        with pytest.raises(HudisqlError, match=words):
            call(
                "bootstrap_table", table=name, source=source, record_key="id", target_path=target, sync=False
            )
        assert fingerprint(tmp_path) == before


def test_a_target_that_cannot_be_made_is_an_error_of_the_storage(call, daily_orders, name):
    # /proc takes no new directories from anyone, root included.
    with pytest.raises(StorageError, match="/proc/hudisql"):
        call(
            "bootstrap_table",
            table=name,
            source=daily_orders,
            record_key="id",
            target_path="/proc/hudisql/t",
            sync=False,
        )


def test_missing_rights_are_named(call, daily_orders, tmp_path, name, monkeypatch):
    make = Path.mkdir

    def refuse(path: Path, *arguments, **named):
        # What a directory of someone else's does; the tests may run as root, whom nothing stops.
        if str(path).startswith(str(tmp_path / "locked")):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        make(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StorageError, match="Permission denied") as raised:
        call(
            "bootstrap_table",
            table=name,
            source=daily_orders,
            record_key="id",
            target_path=tmp_path / "locked" / "t",
            sync=False,
        )
    assert "check the permissions" in raised.value.hint
    assert not (tmp_path / "locked").exists()


def test_an_empty_target_directory_is_used_and_left_when_the_bootstrap_fails(call, tmp_path, name):
    target = tmp_path / "made" / "before"
    target.mkdir(parents=True)
    table = orders(rows=3).set_column(0, "id", pa.array(["a", "", "c"]))
    write_parquet(tmp_path / "s" / "a.parquet", table)
    with pytest.raises(BootstrapBlockedError):
        call(
            "bootstrap_table",
            table=name,
            source=tmp_path / "s",
            record_key="id",
            target_path=target,
            sync=False,
        )
    assert list(target.iterdir()) == []
    call(
        "bootstrap_table", table=name, source=tmp_path / "s", record_key="seq", target_path=target, sync=False
    )
    assert open_table(Storage(), str(target)).name == name.split(".")[1]


def test_a_failing_sync_leaves_the_commit_and_says_how_to_run_it_again(
    call, session, daily_orders, tmp_path, name, monkeypatch
):
    from hudisql.errors import MetastoreUnavailableError

    def fail(*_arguments, **_named):
        raise MetastoreUnavailableError("no metastore answers")

    monkeypatch.setattr(session.context.metastore, "create_table", fail)
    with pytest.raises(SyncFailedError) as raised:
        call("bootstrap_table", table=name, source=daily_orders, record_key="id", target_path=tmp_path / "t")
    monkeypatch.undo()
    statement = raised.value.hint[raised.value.hint.index("CALL hive_sync") :]
    session.sql(statement)
    assert session.context.metastore.get_table(*name.split(".")) is not None


def test_an_unreachable_metastore_is_known_before_anything_is_written(session, daily_orders, tmp_path, name):
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context
    from hudisql.errors import MetastoreUnavailableError
    from hudisql.sql.dispatch import execute

    away = MetastoreClient("thrift://127.0.0.1:1", attempts=1)
    lonely = Context(session.context.spark, away, session.context.storage)
    with pytest.raises(MetastoreUnavailableError):
        execute(
            lonely,
            f"CALL bootstrap_table(table => '{name}', source => '{daily_orders}', record_key => 'id',"
            f" target_path => '{tmp_path / 't'}')",
        )
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"selector_class": "com.example.MySelector"},
            "bootstrap mode selector 'com.example.MySelector' is unknown",
        ),
        ({"base_file_format": "ORC"}, "base_file_format 'ORC'"),
        ({"schema_provider_class": "x.Y"}, "schema_provider_class"),
        ({"key_generator_class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}, "does not fit"),
        ({"key_generator_class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}, "does not fit"),
        ({"key_generator_class": "NON_PARTITION"}, "does not fit"),
    ],
)
def test_run_bootstrap_refuses_by_name_what_only_hudi_does(run_bootstrap, tmp_path, more, words):
    with pytest.raises(InvalidArgumentError, match=words):
        run_bootstrap(**more)
    assert not (tmp_path / "t").exists()


def test_run_bootstrap_does_not_overwrite_a_directory_with_files(run_bootstrap, tmp_path):
    kept = tmp_path / "t" / "kept"
    kept.parent.mkdir()
    kept.touch()
    with pytest.raises(InvalidArgumentError, match="bootstrap_overwrite => true would delete"):
        run_bootstrap(bootstrap_overwrite=True)
    assert list(kept.parent.iterdir()) == [kept]
