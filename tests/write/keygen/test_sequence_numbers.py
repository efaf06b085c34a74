from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudisql.write.keygen.sequence_numbers import sequence_numbers


@given(first_row=st.integers(0, 10**12), rows=st.integers(0, 300), task=st.integers(0, 10**6))
def test_rows_are_numbered_one_after_the_other(first_row: int, rows: int, task: int) -> None:
    found = sequence_numbers("00000000000001", task, first_row, rows)
    found.validate(full=True)
    assert found.to_pylist() == [f"00000000000001_{task}_{first_row + row}" for row in range(rows)]


def test_a_digit_more_is_seen_in_the_middle_of_a_batch() -> None:
    assert sequence_numbers("1", 0, 98, 4).to_pylist() == ["1_0_98", "1_0_99", "1_0_100", "1_0_101"]
