"""The form of record keys of a complex key generator with one field, as the table's files have it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.table_properties import KEY_GENERATOR_CLASS, RECORD_KEY_FIELDS, TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.handle.base_file import BaseFileConfig, BaseFileWriter, FileNaming, base_file_avro_schema
from hudisql.write.handle.log_file import data_blocks, delete_block, write_log_file
from hudisql.write.index.key_encoding import uses_complex_key_encoding
from tests.requests.counted_requests import counted_requests
from tests.table.conftest import TableDirectory

SCHEMA = pa.schema([pa.field("id", pa.string())])
STORAGE = Storage()
LOG_INSTANT = "20240301000000009"


def _table(directory: Path, generator: str = "ComplexKeyGenerator", fields: str = "id") -> HudiTable:
    properties = {KEY_GENERATOR_CLASS: f"org.apache.hudi.keygen.{generator}", RECORD_KEY_FIELDS: fields}
    return HudiTable(str(directory), TableProperties(properties), Timeline(()), STORAGE)


def _slice(directory: Path, number: int, keys: list[str]) -> FileSlice:
    instant = f"2024030100000000{number}"
    place = FileNaming(str(directory), "", instant, f"f{number}", "0-0-0", 0)
    writer = BaseFileWriter(
        STORAGE,
        place,
        SCHEMA,
        base_file_avro_schema(SCHEMA, "t"),
        BaseFileConfig(),
        expected_rows=len(keys),
        bytes_per_row=50,
    )
    writer.write(pa.array(keys), pa.record_batch([pa.array(keys)], schema=SCHEMA))
    (file,) = writer.finish()
    return FileSlice(
        "", file.file_id, instant, BaseFile(file.path, file.bytes, file.file_id, "0-0-0", instant)
    )


def _logs_alone(directory: Path, number: int, keys: list[str]) -> FileSlice:
    count = len(keys)
    schema = pa.schema([*META_SCHEMA, *SCHEMA])
    rows = pa.record_batch(
        [
            pa.array([LOG_INSTANT] * count, pa.string()),
            pa.array([f"0_{at}" for at in range(count)], pa.string()),
            pa.array(keys, pa.string()),
            pa.array([""] * count, pa.string()),
            pa.array([f"f{number}"] * count, pa.string()),
            pa.array(keys, pa.string()),
        ],
        schema=schema,
    )
    avro = base_file_avro_schema(SCHEMA, "t")
    blocks = [block for block, _ in data_blocks(rows, SCHEMA, avro, LOG_INSTANT)]
    blocks.append(delete_block(pa.array(["gone"]), "", avro, LOG_INSTANT))
    instant = f"2024030100000000{number}"
    log = write_log_file(STORAGE, str(directory), f"f{number}", instant, 1, "0-0-0", blocks)
    return FileSlice("", f"f{number}", instant, None, (log,))


@pytest.mark.parametrize(
    ("fencing_epochs", "expected"),
    [
        ([["id:a", "id:b"], ["id:c"]], True),
        ([["k1", "k2"], ["a"]], False),
        ([["a", "z"]], False),
        ([], False),
    ],
)
def test_the_form_of_the_keys_is_that_of_the_files(
    tmp_path: Path, fencing_epochs: list[list[str]], expected: bool
) -> None:
    slices = [_slice(tmp_path, number, keys) for number, keys in enumerate(fencing_epochs)]
    assert uses_complex_key_encoding(_table(tmp_path), slices) is expected


@pytest.mark.parametrize(
    "fencing_epochs", [[["id:a"], ["k1"]], [["a", "id:a"]], [["id:a", "k1"]], [["a", "id:a", "z"]]]
)
def test_a_mix_of_both_forms_is_refused(tmp_path: Path, fencing_epochs: list[list[str]]) -> None:
    slices = [_slice(tmp_path, number, keys) for number, keys in enumerate(fencing_epochs)]
    with pytest.raises(UnsupportedTableError, match="'id:value' in some files and as the plain value"):
        uses_complex_key_encoding(_table(tmp_path), slices)


@pytest.mark.parametrize(("keys", "expected"), [(["id:a", "id:b"], True), (["a", "b"], False)])
def test_tables_whose_rows_are_in_logs_alone_say_it_by_them(
    tmp_path: Path, keys: list[str], expected: bool
) -> None:
    committed = HudiTable(
        str(tmp_path),
        _table(tmp_path).properties,
        Timeline((Instant(LOG_INSTANT, "deltacommit", InstantState.COMPLETED),)),
        STORAGE,
    )
    slices = [_logs_alone(tmp_path, 1, keys), _logs_alone(tmp_path, 2, [])]
    assert uses_complex_key_encoding(committed, slices) is expected


def test_other_generators_say_it_by_the_number_of_fields(tmp_path: Path) -> None:
    assert uses_complex_key_encoding(_table(tmp_path, fields="id,seq"), []) is True
    mixed = [_slice(tmp_path, 0, ["id:a"]), _slice(tmp_path, 1, ["k1"])]
    assert uses_complex_key_encoding(_table(tmp_path, generator="SimpleKeyGenerator"), mixed) is False


def test_a_few_partitions_tell_the_form_of_the_keys(tmp_path: Path) -> None:
    properties = {
        KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.ComplexKeyGenerator",
        RECORD_KEY_FIELDS: "id",
        "hoodie.table.partition.fields": "dt",
    }
    made = TableDirectory(tmp_path, properties)
    for number in range(40):
        made.partition(f"dt=p{number:02}")
        _slice(tmp_path / f"dt=p{number:02}", number % 5, ["id:a", "id:b"])
    for number in range(5):
        made.commit(f"2024030100000000{number}", written=(f"dt=p{number:02}/f{number}.parquet",))
    table = open_table(STORAGE, str(tmp_path)).listed_once()
    with counted_requests(tmp_path) as requests:
        assert uses_complex_key_encoding(table) is True
    assert len(requests.below(str(tmp_path), "list_directory")) <= 5
    # The newest commit was written by another version of Hudi.
    _slice(tmp_path / "dt=p04", 6, ["c"])
    made.commit("20240301000000006", written=("dt=p04/f6.parquet",))
    with pytest.raises(UnsupportedTableError, match="in some files"):
        uses_complex_key_encoding(table.reopened())
