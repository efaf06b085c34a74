"""Patterns of catalog calls in the forms in which clients send them."""

from __future__ import annotations

import pytest

from hudisql.server.name_pattern import name_matcher

NAMES = ("trips", "trips_2024", "tripsx2024", "a.b", "plain", "per%cent", "back\\slash", "")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, NAMES),
        ("", NAMES),
        ("%", NAMES),
        ("*", NAMES),
        (".*", NAMES),
        ("trips", ("trips",)),
        ("TRIPS", ("trips",)),
        ("trips_2024", ("trips_2024", "tripsx2024")),
        ("trips\\_2024", ("trips_2024",)),
        ("trips.2024", ("trips_2024", "tripsx2024")),
        ("trip%", ("trips", "trips_2024", "tripsx2024")),
        ("trip*", ("trips", "trips_2024", "tripsx2024")),
        ("trip.*", ("trips", "trips_2024", "tripsx2024")),
        ("%s_%4", ("trips_2024", "tripsx2024")),
        ("%%2024", ("trips_2024", "tripsx2024")),
        ("plain|trips", ("trips", "plain")),
        ("pl*|*\\_2024", ("trips_2024", "plain")),
        ("a\\.b", ("a.b",)),
        ("per\\%cent", ("per%cent",)),
        ("back\\\\slash", ("back\\slash",)),
        ("back\\", ()),
        ("[tp]%", ()),
        ("trips(", ()),
    ],
)
def test_a_pattern_fits_the_names_that_it_fits_in_hive(pattern: str | None, names: tuple[str, ...]) -> None:
    matches = name_matcher(None if pattern is None else pattern.encode())
    assert tuple(name for name in NAMES if matches(name)) == names


def test_a_pattern_of_very_many_wildcards_is_decided_at_once() -> None:
    assert not name_matcher(b"%a" * 60 + b"b")("a" * 128)
    assert name_matcher(b"%a" * 60)("a" * 128)
