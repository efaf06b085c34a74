"""Finding record keys in file slices: footers rule files out, key columns and logs decide."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.read.files.conform import batch_of
from hudisql.read.merge.merge_mode import InstantRange, LogMergeConfig
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.write.handle.base_file import BaseFileConfig, BaseFileWriter, FileNaming, base_file_avro_schema
from hudisql.write.handle.key_footer import KeyFooter
from hudisql.write.handle.log_file import data_blocks, delete_block, write_log_file
from hudisql.write.index.slice_key_lookup import (
    KeyFooterValues,
    SliceLookup,
    find_keys,
    possible_keys,
    read_key_footer,
    read_keys,
)

SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("seq", pa.int64())])
AVRO = base_file_avro_schema(SCHEMA, "t")
STORAGE = Storage()
BASE, LATER = "20240301000000001", "20240301000000002"
LOG_MERGE_CONFIG = LogMergeConfig(InstantRange(committed=frozenset({BASE, LATER}), active_from=None))
TEXTS = st.text(alphabet=st.sampled_from(["a", "b", "\u00e9", "\ue000", "\uffff", "\U00010000"]), max_size=3)


def _stored(directory: Path, keys: list[str]) -> FileSlice:
    place = FileNaming(str(directory), "", BASE, "f", "0-0-0", 0)
    writer = BaseFileWriter(
        STORAGE, place, SCHEMA, AVRO, BaseFileConfig(), expected_rows=len(keys), bytes_per_row=50
    )
    rows = pa.record_batch([pa.array(keys), pa.array(range(len(keys)), pa.int64())], schema=SCHEMA)
    writer.write(pa.array(keys), rows)
    (file,) = writer.finish()
    return FileSlice(
        "",
        file.file_id,
        BASE,
        BaseFile(file.path, file.bytes, file.file_id, "0-0-0", BASE),
    )


def _with_log(directory: Path, file_slice: FileSlice, new: list[str], deleted: list[str]) -> FileSlice:
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *SCHEMA])
    meta = [
        pa.array([LATER] * len(new)),
        pa.array([f"{LATER}_{n}" for n in range(len(new))]),
        pa.array(new),
    ]
    meta += [pa.array([""] * len(new)), pa.array([file_slice.file_id] * len(new))]
    rows = batch_of([*meta, pa.array(new), pa.array([7] * len(new))], schema, len(new))
    blocks = [
        *(block for block, _ in data_blocks(rows, SCHEMA, AVRO, LATER)),
        delete_block(pa.array(deleted, pa.string()), "", AVRO, LATER),
    ]
    log = write_log_file(STORAGE, str(directory), file_slice.file_id, BASE, 1, "0-0-0", blocks)
    return FileSlice("", file_slice.file_id, BASE, file_slice.base_file, (log,))


def _find(file_slice: FileSlice, keys: list[str], *, prunes_by_footer: bool = True) -> list[str]:
    lookup = SliceLookup(file_slice, log_merge_config=LOG_MERGE_CONFIG)
    batches = find_keys(STORAGE, lookup, pa.array(keys, pa.string()), prunes_by_footer=prunes_by_footer)
    return sorted(key for batch in batches for key in batch.column(0).to_pylist())


@pytest.mark.parametrize("prunes_by_footer", [True, False])
def test_keys_are_found_where_they_are_stored(tmp_path: Path, prunes_by_footer: bool) -> None:
    stored = _stored(tmp_path, [f"k{number:03d}" for number in range(100)])
    assert _find(stored, ["k007", "k099", "k100", "a"], prunes_by_footer=prunes_by_footer) == ["k007", "k099"]
    assert _find(stored, ["zzz"], prunes_by_footer=prunes_by_footer) == []


def test_a_key_that_a_slice_holds_twice_is_found_once(tmp_path: Path) -> None:
    stored = _stored(tmp_path, ["a", "b", "a"])
    assert _find(stored, ["a"]) == ["a"]
    every = [key for batch in read_keys(STORAGE, SliceLookup(stored)) for key in batch.column(0).to_pylist()]
    assert sorted(every) == ["a", "b"]


def test_a_file_that_its_footer_rules_out_is_not_read(tmp_path: Path) -> None:
    stored = _stored(tmp_path, ["m1", "m3", "m5"])
    assert stored.base_file is not None
    path = Path(stored.base_file.path)
    footer = read_key_footer(STORAGE, str(path))
    assert (footer.min_key, footer.max_key) == ("m1", "m5")
    content = bytearray(path.read_bytes())
    pages = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:pages] = bytes(pages - 4)
    path.write_bytes(content)
    assert _find(stored, ["a", "m2", "m4", "z"]) == []
    with pytest.raises(OSError, match="deserialize"):
        _find(stored, ["m3"])


def test_rows_in_logs_count_and_deleted_ones_do_not(tmp_path: Path) -> None:
    stored = _with_log(tmp_path, _stored(tmp_path, ["a", "b", "c"]), ["x", "b"], ["c"])
    assert _find(stored, ["a", "b", "c", "x", "y"]) == ["a", "b", "x"]
    assert _find(stored, ["x", "y"]) == ["x"]
    assert _find(stored, ["c"]) == []
    logs_alone = FileSlice("", stored.file_id, BASE, None, stored.log_files)
    assert _find(logs_alone, ["a", "b", "x"]) == ["b", "x"]


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(TEXTS, max_size=8))
def test_a_footer_never_rules_out_a_key_of_its_file(stored: list[str], others: list[str]) -> None:
    footer = KeyFooter(len(stored), 0.001)
    footer.add(pa.array(stored))
    values = footer.key_values(AVRO)
    found = KeyFooterValues(footer.min_key, footer.max_key, values["org.apache.hudi.bloomfilter"])
    wanted = pa.array(dict.fromkeys([*stored, *others]), pa.string())
    assert set(possible_keys(found, wanted).to_pylist()) >= set(stored)


def test_a_footer_without_a_known_filter_goes_by_its_range() -> None:
    keys = pa.array(["a", "m", "z"])
    assert possible_keys(KeyFooterValues("b", "n", None), keys).to_pylist() == ["m"]
    assert possible_keys(KeyFooterValues(None, None, None), keys).to_pylist() == ["a", "m", "z"]
