"""The form of record keys of a complex key generator with one field, as the table's files have it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import KEY_GENERATOR_CLASS, RECORD_KEY_FIELDS, TableProperties
from hudisql.format.timeline import Timeline
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.base_file import BaseFileForm, BaseFilePlace, BaseFileWriter, base_file_avro_schema
from hudisql.write.key_generator import has_composite_keys

SCHEMA = pa.schema([pa.field("id", pa.string())])
STORAGE = Storage()


def _table(folder: Path, generator: str = "ComplexKeyGenerator", fields: str = "id") -> HudiTable:
    properties = {KEY_GENERATOR_CLASS: f"org.apache.hudi.keygen.{generator}", RECORD_KEY_FIELDS: fields}
    return HudiTable(str(folder), TableProperties(properties), Timeline(()), STORAGE)


def _slice(folder: Path, number: int, keys: list[str]) -> FileSlice:
    instant = f"2024030100000000{number}"
    place = BaseFilePlace(str(folder), "", instant, f"f{number}", "0-0-0", 0)
    writer = BaseFileWriter(
        STORAGE,
        place,
        SCHEMA,
        base_file_avro_schema(SCHEMA, "t"),
        BaseFileForm(),
        expected_rows=len(keys),
        bytes_per_row=50,
    )
    writer.write(pa.array(keys), pa.record_batch([pa.array(keys)], schema=SCHEMA))
    (file,) = writer.finish()
    return FileSlice(
        "", file.file_id, instant, BaseFile(file.path, file.bytes, file.file_id, "0-0-0", instant)
    )


@pytest.mark.parametrize(
    ("generations", "expected"),
    [
        ([["id:a", "id:b"], ["id:c"]], True),
        ([["k1", "k2"], ["a"]], False),
        ([["a", "z"]], False),
        ([], False),
    ],
)
def test_the_form_of_the_keys_is_that_of_the_files(
    tmp_path: Path, generations: list[list[str]], expected: bool
) -> None:
    slices = [_slice(tmp_path, number, keys) for number, keys in enumerate(generations)]
    assert has_composite_keys(_table(tmp_path), slices) is expected


@pytest.mark.parametrize(
    "generations", [[["id:a"], ["k1"]], [["a", "id:a"]], [["id:a", "k1"]], [["a", "id:a", "z"]]]
)
def test_a_mix_of_both_forms_is_refused(tmp_path: Path, generations: list[list[str]]) -> None:
    slices = [_slice(tmp_path, number, keys) for number, keys in enumerate(generations)]
    with pytest.raises(UnsupportedTableError, match="'id:value' in some files and as the plain value"):
        has_composite_keys(_table(tmp_path), slices)


def test_other_generators_say_it_by_the_number_of_fields(tmp_path: Path) -> None:
    assert has_composite_keys(_table(tmp_path, fields="id,seq"), []) is True
    mixed = [_slice(tmp_path, 0, ["id:a"]), _slice(tmp_path, 1, ["k1"])]
    assert has_composite_keys(_table(tmp_path, generator="SimpleKeyGenerator"), mixed) is False
