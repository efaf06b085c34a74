from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError
from hudisql.format.keys.bloom_filter import BloomFilter, parse_bloom_filter

# Written by HoodieDynamicBoundedBloomFilter of Apache Hudi 0.15.0 over HUDI_KEYS.
HUDI_FILTERS = json.loads((Path(__file__).parent / "hudi_bloom_filters.json").read_text())
HUDI_KEYS = [f"id:k{n:06d},seq:{n % 7}" for n in range(290)]
HUDI_KEYS += ["é", "x", "🙂", "ab", "abcd", "中" * 200, "id:é中🙂,b:__null__"]
HUDI_KEYS += ["\uffee\ue000", "ÿ~", "-1.0E-5"]


def build_bloom_filter(keys: pa.Array | pa.ChunkedArray, entries: int, fpp: float) -> str:
    built = BloomFilter(entries, fpp)
    built.add(keys)
    return built.to_base64()


@pytest.mark.parametrize(
    "name", ["cow_bootstrap_meta", "cow_bootstrap_2part", "cow_bootstrap_meta_nonpart", "mor_bootstrap_meta"]
)
def test_filters_in_skeletons_of_apache_hudi_are_built_byte_for_byte(golden: Any, name: str) -> None:
    skeletons = sorted(Path(golden(name).table).rglob("*_00000000000001.parquet"))
    assert skeletons
    for path in skeletons:
        with pq.ParquetFile(path) as skeleton:
            keys = skeleton.read(columns=["_hoodie_record_key"]).column(0)
            written = skeleton.metadata.metadata[b"org.apache.hudi.bloomfilter"].decode()
        assert build_bloom_filter(keys, 60_000, 1e-9) == written
        assert parse_bloom_filter(written).might_contain(keys).all()


@pytest.mark.parametrize("written", HUDI_FILTERS, ids=lambda written: str(written["entries"]))
@pytest.mark.parametrize("at_once", [300, 17, 1])
def test_composite_and_non_ascii_keys_and_full_matrices_are_as_apache_hudi_writes_them(
    written: dict[str, Any], at_once: int
) -> None:
    built = BloomFilter(written["entries"], written["fpp"], written["max_entries"])
    keys = pa.array(HUDI_KEYS)
    for start in range(0, len(keys), at_once):
        built.add(keys.slice(start, at_once))
    assert built.to_base64() == written["filter"]
    assert parse_bloom_filter(written["filter"]).to_base64() == written["filter"]


def test_sliced_chunked_and_large_columns_give_the_same_filter() -> None:
    plain = pa.array(["a", "bc", "déf", "", "x" * 100])
    expected = build_bloom_filter(plain, 5, 1e-3)
    padded = pa.array(["zz", *plain.to_pylist(), "yy"]).slice(1, 5)
    for keys in (
        padded,
        plain.cast(pa.large_string()),
        plain.dictionary_encode(),
        pa.chunked_array([plain.slice(0, 2), plain.slice(2)]),
        pa.array(["a", None, "bc", "déf", None, "", "x" * 100]),
    ):
        assert build_bloom_filter(keys, 5, 1e-3) == expected


def test_an_empty_filter_contains_nothing() -> None:
    empty = parse_bloom_filter(build_bloom_filter(pa.array([], pa.string()), 1, 1e-3))
    assert empty.might_contain(pa.array(["a", None])).tolist() == [False, True]
    assert empty.might_contain(pa.chunked_array([], pa.string())).tolist() == []


def test_false_positives_stay_near_the_rate_asked_for() -> None:
    built = BloomFilter(50_000, 1e-3)
    built.add(pa.array(np.arange(50_000)).cast(pa.string()))
    assert built.might_contain(pa.array(np.arange(50_000)).cast(pa.string())).all()
    strangers = built.might_contain(pa.array(np.arange(50_000, 250_000)).cast(pa.string()))
    assert 0.0005 < strangers.mean() < 0.0015
    assert built.hash_count == 10
    assert len(built.to_base64()) / 50_000 == pytest.approx(2.4, abs=0.01)


@settings(deadline=None)
@given(
    st.lists(st.text(max_size=40), max_size=80),
    st.integers(min_value=1, max_value=100),
    st.integers(min_value=1, max_value=30),
)
def test_bits_are_those_of_chained_murmur_hashes(texts: list[str], entries: int, hash_count: int) -> None:
    keys = pa.array(texts, pa.string())
    built = BloomFilter(entries, 1e-3, max_entries=entries)
    built.hash_count = hash_count
    built.add(keys)
    expected = np.zeros(built.vector_size, np.uint8)
    for text in texts:
        expected[_bit_positions(text.encode(), hash_count, built.vector_size)] = 1
    assert (built.rows[0] == np.packbits(expected, bitorder="little")).all()
    built.rows[0][::2] = 0
    bits = np.unpackbits(built.rows[0], bitorder="little")
    answers = [
        bool(bits[_bit_positions(text.encode(), hash_count, built.vector_size)].all()) for text in texts
    ]
    assert built.might_contain(keys).tolist() == answers


def _bit_positions(key: bytes, hash_count: int, bits: int) -> list[int]:
    positions = []
    hashed = 0
    for _ in range(hash_count):
        hashed = _hadoop_murmur(key, hashed)
        positions.append(abs(hashed - (hashed >> 31 << 32)) % bits)
    return positions


def _hadoop_murmur(key: bytes, seed: int) -> int:
    """`MurmurHash.hash` of Hadoop; Java extends the sign of each byte of the tail before it shifts."""
    multiplier, low = 0x5BD1E995, 0xFFFFFFFF
    hashed = seed ^ len(key)
    whole = len(key) & ~3
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * multiplier & low
        hashed = hashed * multiplier & low ^ (mixed ^ mixed >> 24) * multiplier & low
    tail = struct.unpack(f"{len(key) - whole}b", key[whole:])
    for back, byte in enumerate(reversed(tail)):
        hashed ^= byte << 8 * back & low
    if tail:
        hashed = hashed * multiplier & low
    hashed = (hashed ^ hashed >> 13) * multiplier & low
    return hashed ^ hashed >> 15


@pytest.mark.parametrize(
    "text", ["", "AAAA", "not base64!", base64.b64encode(bytes(29)).decode(), HUDI_FILTERS[0]["filter"][:-8]]
)
def test_text_that_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(CorruptTableError, match="not a bloom filter"):
        parse_bloom_filter(text)


def test_sizes_that_hudi_cannot_store_are_refused() -> None:
    with pytest.raises(ValueError, match="2\\^31"):
        BloomFilter(200_000_000, 1e-3)
    with pytest.raises(ValueError, match="entries >= 1"):
        BloomFilter(0, 1e-3)
