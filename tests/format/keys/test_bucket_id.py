"""Buckets of record keys and the file ids of buckets, as Apache Hudi makes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id, new_file_id_prefix

# What `BucketIdentifier.getBucketId` of Hudi 0.15 gives for 2^30 and for 7 buckets.
HUDI_BUCKETS = [
    ("k000001", "id", 819877451, 2),
    ("", "id", 31, 3),
    ("h\u00e9llo \U0001f600 \uffee", "id", 955911074, 0),
    ("a:b", "id", 1, 1),
    ("id:a,seq:7", "id,seq", 4023, 5),
    ("id:a,seq:7", "seq", 86, 2),
    ("id:a,seq:7", "id", 128, 2),
    ("id:__null__,seq:__empty__", "id,seq", 961, 2),
    ("id:a,b,seq:7", "id,seq", 126101, 3),
    ("id:a:b,seq:7,,", "id,seq", 2949519, 6),
    ("id:,seq:7", "id,seq", 1016, 1),
    (",id:x", "id", 1081, 3),
    ("x,y", "id", 116836, 6),
    ("id:1", "id", 80, 3),
    ("2024-03-01 10:00:00", "at", 1, 1),
    (",,:", "id", 961, 2),
]

# What that of Hudi 1.2 gives: other places for some of them.
HUDI_1X_BUCKETS = [
    *(each for each in HUDI_BUCKETS if ":" not in each[0] or each[0] in ("id:a,seq:7", "id:,seq:7")),
    ("a:b", "id", 95144, 0),
    ("id:__null__,seq:__empty__", "id,seq", 961, 2),
    ("id:a,b,seq:7", "id,seq", 2936065, 6),
    ("id:a:b,seq:7,,", "id,seq", 3003727, 6),
    (",id:x", "id", 43861028, 1),
    ("id:1", "id", 3226033, 6),
    ("id:__null__", "id", 106354469, 4),
    ("2024-03-01 10:00:00", "at", 90353568, 4),
    (",,:", "id", 43737, 1),
    ("id1:1,1,1,id2:,2,2,,id3:3", "id2", 42168383, 5),
    (
        "id1:1,,,id2:2024-10-22 14:11:53.023,id3:,,3,id4:::1:2::4::",
        "id1,id2,id3,id4",
        935595403,
        1,
    ),
    ("id:a,other:b", "none", 774312109, 5),
    ("a,b:c", "id", 90988447, 4),
    ("id:x,y:z,w", "id", 151, 4),
]


@pytest.mark.parametrize(("key", "fields", "of_many", "of_seven"), HUDI_1X_BUCKETS)
def test_tables_of_hudi_1x_have_its_buckets(key: str, fields: str, of_many: int, of_seven: int) -> None:
    keys = pa.array(["before", key])
    for version in (8, 9):
        assert bucket_ids(keys, fields.split(","), 1 << 30, version=version)[1] == of_many
        assert bucket_ids(keys, fields.split(","), 7, version=version)[1] == of_seven


@pytest.mark.parametrize(("key", "fields", "of_many", "of_seven"), HUDI_BUCKETS)
def test_a_key_has_the_bucket_that_hudi_gives_it(key: str, fields: str, of_many: int, of_seven: int) -> None:
    keys = pa.array(["before", key])
    assert bucket_ids(keys, fields.split(","), 1 << 30)[1] == of_many
    assert bucket_ids(keys, fields.split(","), 7)[1] == of_seven


def test_keys_are_hashed_as_columns_whole_or_cut() -> None:
    keys = pa.array([key for key, fields, _, _ in HUDI_BUCKETS if fields == "id"] + [None])
    expected = [of_seven for _, fields, _, of_seven in HUDI_BUCKETS if fields == "id"] + [0]
    assert bucket_ids(keys, ["id"], 7).tolist() == expected
    assert bucket_ids(keys.slice(2, 3), ["id"], 7).tolist() == expected[2:5]
    assert bucket_ids(pa.array([], pa.string()), ["id"], 7).tolist() == []


def test_file_ids_name_their_bucket() -> None:
    prefix = new_file_id_prefix(42)
    assert prefix.startswith("00000042-")
    assert len(prefix) == 36
    assert bucket_of_file_id(f"{prefix}-0") == bucket_of_file_id(prefix) == 42
    assert bucket_of_file_id("a1b2c3d4-0000-4000-8000-000000000000-0") is None
