"""File ids of partitions that are split: Hudi reads the bucket, and no other file id looks like one."""

from __future__ import annotations

import uuid

import pytest

from hudisql.format.keys.bucket_id import bucket_of_file_id
from hudisql.format.paths.file_names import base_file_name, parse_base_file_name
from hudisql.format.paths.split_file_id import SplitBucket, split_bucket_of, split_file_id_prefixes

INSTANT = "20261122213344123"


def test_the_file_ids_of_a_split_say_bucket_number_and_instant() -> None:
    file_ids = [f"{each}-0" for each in split_file_id_prefixes(16, INSTANT)]
    assert len(set(file_ids)) == 16
    for bucket, file_id in enumerate(file_ids):
        assert split_bucket_of(file_id) == SplitBucket(bucket, 16, INSTANT)
        assert bucket_of_file_id(file_id) == bucket
        name = parse_base_file_name(base_file_name(file_id, "0-1-0", INSTANT))
        assert name is not None
        assert name.file_id == file_id


@pytest.mark.parametrize(
    "file_id",
    [
        str(uuid.UUID(int=0, version=4)) + "-0",
        "00000003-a84d-472b-af8d-ee8a88bdbf5d-0",
        "00000003-0003-2026-1122-213344123f3a-0",  # bucket 3 of 3
        "00000003-0016-2026-1122-213344123f3a-1",
        "00000003-0016-2026-1122-213344123f3a",
    ],
)
def test_other_file_ids_are_those_of_no_split(file_id: str) -> None:
    assert split_bucket_of(file_id) is None
