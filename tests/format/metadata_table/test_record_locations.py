"""Records of the index `record_index`, encoded and decoded as columns."""

from __future__ import annotations

import io
import json
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import EncodedCells
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.metadata_writing import encode_location, encode_metadata_file
from hudisql.format.metadata_table.record_locations import location_value, read_located_keys

GOLDEN = Path(__file__).parents[2] / "golden/v9_cow_mdt_compacted.json"
FILE_IDS = (
    st.uuids().map(str)
    | st.builds("{}-{}".format, st.uuids(), st.integers(0, 10**8))
    | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
)
GROUPS = st.tuples(st.sampled_from(["", "dt=2024-03-01", "a=ä/b=1"]), FILE_IDS)


@settings(deadline=None)
@given(
    st.lists(st.tuples(GROUPS, st.integers(-1, 2**52)), min_size=1, max_size=5),
    st.sets(st.text(st.characters(exclude_categories=["Cs"])), max_size=30),
)
def test_locations_are_read_back(places: list[tuple[tuple[str, str], int]], keys: set[str]) -> None:
    texts = pa.array(sorted(keys), pa.string())
    numbers = np.arange(len(texts)) % len(places)
    content = encode_metadata_file(EncodedCells(texts, numbers, [encode_location(*each) for each in places]))
    located = read_located_keys(HFileReader(io.BytesIO(content), len(content)), "test")
    assert sorted(located.keys.to_pylist()) == sorted(keys)
    locations = located.locations
    expected = {key: places[number] for key, number in zip(sorted(keys), numbers, strict=True)}
    for key, number, inserted in zip(
        located.keys.to_pylist(), locations.numbers, locations.inserted, strict=True
    ):
        assert (locations.groups[number], inserted) == expected[key]


def test_locations_are_stored_as_hudi_stores_them() -> None:
    records = json.loads(GOLDEN.read_text())["mdt"]["partitions"]["record_index"]
    stored = [record["recordIndexMetadata"] for record in records]
    assert stored
    for each in stored:
        high, low = (each[name] % 2**64 for name in ("fileIdHighBits", "fileIdLowBits"))
        file_id = str(UUID(int=high << 64 | low))
        group = (each["partitionName"], f"{file_id}-{each['fileIndex']}")
        assert location_value(group, each["instantTime"]) == each


def test_keys_go_to_the_file_groups_of_hudi() -> None:
    """Measured on Hudi: also the least int, and characters of two UTF-16 units."""
    keys = pa.array(["k0000", "k0001", "__all_partitions__", "polygenelubricants", "é😀"])
    assert file_groups_of(keys, 2).tolist() == [1, 0, 1, 0, 0]
    assert file_groups_of(keys, 4).tolist() == [3, 0, 3, 0, 0]
    assert file_groups_of(keys, 10).tolist() == [9, 0, 1, 8, 2]
