"""The merge of listings against Hudi's rule applied record by record."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.metadata_table.listed_files import merge_listings
from hudisql.format.metadata_table.metadata_records import MetadataRecords, newest_records

INFO = pa.struct([pa.field("size", pa.int64()), pa.field("isDeleted", pa.bool_())])
MAP = pa.map_(pa.string(), INFO)
File = tuple[int, bool]
Layer = dict[str, dict[str, File] | None]

_FILES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.tuples(st.integers(1, 9), st.booleans()), max_size=3
)
_LAYERS = st.lists(
    st.dictionaries(st.sampled_from(["p=1", "p=2", "a"]), st.none() | _FILES, max_size=3), max_size=5
)


def _records(layer: Layer) -> MetadataRecords:
    maps = [
        None
        if files is None
        else [(name, {"size": size, "isDeleted": deleted}) for name, (size, deleted) in files.items()]
        for files in layer.values()
    ]
    return MetadataRecords(pa.array(layer, pa.string()), pa.array(maps, MAP))


def _one_after_the_other(layers: list[Layer]) -> dict[str, dict[str, int]]:
    merged: dict[str, dict[str, int]] = {}
    for layer in layers:
        for key, files in layer.items():
            if files is None:
                merged.pop(key, None)
                continue
            listing = merged.setdefault(key, {})
            for name, (size, deleted) in files.items():
                if deleted:
                    listing.pop(name, None)
                else:
                    listing[name] = max(size, listing.get(name, 0))
    return merged


@given(_LAYERS)
def test_the_merge_is_that_of_the_records_one_after_the_other(layers: list[Layer]) -> None:
    found = {
        key: dict(zip(listed.names.to_pylist(), listed.sizes.to_pylist(), strict=True))
        for key, listed in merge_listings([_records(layer) for layer in layers]).items()
    }
    assert found == _one_after_the_other(layers)


@given(_LAYERS)
def test_of_other_records_the_newest_holds(layers: list[Layer]) -> None:
    newest: Layer = {}
    for layer in layers:
        newest.update(layer)
    live = {key: files for key, files in newest.items() if files is not None}
    found = newest_records([_records(layer) for layer in layers])
    assert found.keys.to_pylist() == sorted(live)
    for key, value in zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True):
        files = live[key]
        assert files is not None
        assert dict(value) == {
            name: {"size": size, "isDeleted": deleted} for name, (size, deleted) in files.items()
        }
