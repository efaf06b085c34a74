"""The record of a range that many files have is that of each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.metadata_table.metadata_writing import ColumnRange, RangeOfFiles, encode_range

RANGE = ColumnRange("größe", "LongWrapper", 4, 0, 1 << 40, 7, 0)
NAMES = st.lists(st.text(max_size=200), min_size=1, max_size=5)


@given(NAMES, st.booleans(), st.sampled_from([RANGE, ColumnRange("x", "StringWrapper", 7, None, None, 3, 3)]))
def test_records_are_those_of_each_file(names: list[str], in_first_form: bool, found: ColumnRange) -> None:
    of_files = RangeOfFiles(found, in_first_form=in_first_form)
    for name in (*names, *(name[::-1] for name in names)):
        assert of_files.encode(name) == encode_range(found, name, in_first_form=in_first_form)
