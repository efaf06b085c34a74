"""Numbers of buckets by partition: the first rule counts, and the stored form is Hudi's."""

from __future__ import annotations

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.keys.bucket_rules import BucketRules, bucket_rules, rules_from_json

# What PartitionBucketIndexHashingConfig of Hudi 1.2 writes.
STORED = b"""{
  "expressions" : "2024-03-01,7;03,2",
  "defaultBucketNumber" : 3,
  "rule" : "regex",
  "version" : 1,
  "instant" : "20261129092813713"
}"""


def test_the_first_pattern_that_is_found_in_the_path_counts() -> None:
    rules = bucket_rules(r"dt=2024-03-01$,7; \d{4}-03 , +2;;", 3)
    paths = ("dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-011", "dt=2024-04-01", "")
    assert [rules.count(path) for path in paths] == [7, 2, 2, 3, 3]


def test_stored_rules_are_read_and_written() -> None:
    rules = rules_from_json(STORED, "file")
    assert rules == BucketRules("2024-03-01,7;03,2", 3, "20261129092813713")
    assert rules_from_json(rules.to_json(), "file") == rules
    assert [rules.count(path) for path in ("dt=2024-03-01", "dt=2024-03-02", "x")] == [7, 2, 3]


@pytest.mark.parametrize(
    ("expressions", "said"),
    [
        *((each, "not of the form pattern,number") for each in ("a", "a,b", ";a,5", "a{1,2},3", "a,-1", ",")),
        ("a,5;b,0", "not above 0"),
        ("(?i)a,3", r"the pattern of '\(\?i\)a,3' is not supported"),
    ],
)
def test_what_is_no_rule_is_refused(expressions: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        bucket_rules(expressions, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"regex"', b'"glob"'),
        (b" 3", b" 0"),
        (b'"rule"', b'"other"'),
        (b"03,2", b"03"),
        (b"{", b"["),
    ],
)
def test_a_file_that_is_not_valid_is_named(old: bytes, new: bytes) -> None:
    with pytest.raises(CorruptTableError, match="some/file"):
        rules_from_json(STORED.replace(old, new), "some/file")
