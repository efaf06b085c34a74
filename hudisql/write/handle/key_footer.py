"""Record keys in the footer of a base file: smallest and largest key, bloom filter.

Follows `HoodieAvroWriteSupport` and `HoodieBloomFilterWriteSupport` of Hudi 0.15, whose keys are compared as
Java strings are. Takes key columns batch by batch; knows neither parquet nor the source of the keys.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.bloom_filter import BloomFilter
from hudisql.format.schema import meta_columns

# Readers limit a footer's text (pyarrow: 100 MB); a larger filter would make the file unreadable.
_LARGEST_FILTER_BITS: Final = 64_000_000 * 6


# Keys that are buffered until their number is known; for more keys a filter of twice the size is made.
_MAX_BUFFERED_BYTES: Final = 64 << 20


class KeyFooter:
    """Collects the keys of one file.

    `entries` is the number of keys that the bloom filter is sized for. With None the keys are buffered until
    the last one, up to 64 MB.
    """

    def __init__(self, entries: int | None, fpp: float) -> None:
        self._fpp = fpp
        self._buffered_keys: list[pa.StringArray] = []
        self._buffered_bytes = 0
        self._bloom_filter = None if entries is None else _filter_for(entries, fpp)
        self.min_key: str | None = None
        self.max_key: str | None = None

    def add(self, keys: pa.StringArray) -> None:
        """Add keys; nulls are ignored."""
        if self._bloom_filter is not None:
            self._bloom_filter.add(keys)
        else:
            self._buffered_keys.append(keys)
            self._buffered_bytes += keys.nbytes
            if self._buffered_bytes > _MAX_BUFFERED_BYTES:
                self._make_filter(2)
        smallest, largest = min_max_of_java(keys)
        if smallest is not None and largest is not None:
            found = [key for key in (self.min_key, self.max_key, smallest, largest) if key is not None]
            self.min_key = min(found, key=_utf16_order)
            self.max_key = max(found, key=_utf16_order)

    def key_values(self, avro_schema: str) -> dict[str, str]:
        """The key-values of the parquet footer; `avro_schema` is that of the file's columns."""
        footer = {
            meta_columns.FOOTER_BLOOM_FILTER: (self._bloom_filter or self._make_filter(1)).to_base64(),
            meta_columns.FOOTER_BLOOM_FILTER_TYPE: meta_columns.BLOOM_FILTER_TYPE,
            meta_columns.FOOTER_WRITER_MODEL: "avro",
            meta_columns.FOOTER_AVRO_SCHEMA: avro_schema,
        }
        if self.min_key is not None and self.max_key is not None:
            footer[meta_columns.FOOTER_MIN_RECORD_KEY] = self.min_key
            footer[meta_columns.FOOTER_MAX_RECORD_KEY] = self.max_key
        return footer

    def _make_filter(self, times: int) -> BloomFilter:
        """A filter with the buffered keys, sized for `times` as many."""
        bloom_filter = _filter_for(times * sum(len(keys) for keys in self._buffered_keys), self._fpp)
        for keys in self._buffered_keys:
            bloom_filter.add(keys)
        self._bloom_filter, self._buffered_keys = bloom_filter, []
        return bloom_filter


class NoKeyFooter:
    """In place of `KeyFooter` for a file without meta columns: its footer has no keys."""

    min_key = max_key = None

    def key_values(self, avro_schema: str) -> dict[str, str]:
        """The key-values of the parquet footer; `avro_schema` is that of the file's columns."""
        return {meta_columns.FOOTER_WRITER_MODEL: "avro", meta_columns.FOOTER_AVRO_SCHEMA: avro_schema}


def _filter_for(entries: int, fpp: float) -> BloomFilter:
    bits_per_entry = -math.log(fpp) / math.log(2) ** 2
    return BloomFilter(max(1, min(entries, int(_LARGEST_FILTER_BITS / bits_per_entry))), fpp)


def min_max_of_java(keys: pa.StringArray) -> tuple[str | None, str | None]:
    """The least and greatest key as Java's `String.compareTo` orders them, which is by UTF-16 units.

    That is the order of the UTF-8 bytes, except between characters beyond U+FFFF and those of U+E000 to
    U+FFFF.
    """
    data_buffer = keys.buffers()[2]
    if data_buffer is not None:
        data = np.frombuffer(data_buffer, dtype=np.uint8)
        if data.size and data.max() >= 0xF0 and bool(((data == 0xEE) | (data == 0xEF)).any()):
            distinct = [key for key in pc.unique(keys).to_pylist() if key is not None]
            if not distinct:
                return None, None
            return min(distinct, key=_utf16_order), max(distinct, key=_utf16_order)
    extremes = pc.min_max(keys).as_py()
    return extremes["min"], extremes["max"]


def _utf16_order(key: str) -> bytes:
    return key.encode("utf-16-be")
