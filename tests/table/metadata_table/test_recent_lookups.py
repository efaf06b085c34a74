"""Look-ups of record keys that are answered again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.metadata_table.record_locations import NOT_FOUND, RecordLocations
from hudisql.table.metadata_table.recent_lookups import RecentLookups

KEYS = st.lists(st.integers(0, 30), max_size=20)
STEPS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), KEYS), max_size=8)


def _located(state: int, number: int) -> tuple[str, int] | None:
    """Where the key of this number is in this state of the index."""
    return None if number % 3 == state else (f"group {(number + state) % 4}", 100 * state + number)


@given(STEPS)
def test_a_look_up_answers_as_the_index_does_and_asks_only_for_other_keys(
    steps: list[tuple[str, int, list[int]]],
) -> None:
    recent = RecentLookups()
    known: dict[str, tuple[int, set[int]]] = {}
    for table, state, numbers in steps:
        asked: list[int] = []

        def look_up(
            rows: npt.NDArray[np.int64],
            state: int = state,
            numbers: list[int] = numbers,
            asked: list[int] = asked,
        ) -> RecordLocations:
            asked += [numbers[row] for row in rows]
            places = [_located(state, numbers[row]) for row in rows]
            groups = sorted({place[0] for place in places if place is not None})
            return RecordLocations(
                tuple((group, "id") for group in groups),
                np.array([NOT_FOUND if each is None else groups.index(each[0]) for each in places], np.int64),
                np.array([0 if each is None else each[1] for each in places], np.int64),
            )

        locations = recent.find(table, state, pa.array([str(number) for number in numbers]), look_up)
        answers = [
            None if place == NOT_FOUND else (locations.groups[place][0], inserted)
            for place, inserted in zip(locations.numbers.tolist(), locations.inserted.tolist(), strict=True)
        ]
        assert answers == [_located(state, number) for number in numbers]
        held = {place[0] for place in answers if place is not None}
        assert sorted(group for group, _ in locations.groups) == sorted(held)
        known_state, known_numbers = known.get(table, (None, set()))
        if known_state == state and known_numbers:
            assert set(asked) == set(numbers) - known_numbers
        else:
            assert asked == numbers
            known[table] = (state, set(numbers))
