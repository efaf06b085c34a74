"""Parquet files in gzip, compressed by ISA-L in a fifth of zlib's time, at the same size.

Arrow always compresses by zlib. Here Arrow writes uncompressed pages, which are compressed on their way to
the file; the footer gets the codec and the new positions. Knows parquet.thrift, neither base files nor
skeletons. Without ISA-L (package `isal`), with other codecs and for small files it is pyarrow's own writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.encoding.thrift_compact import I32, I64, ThriftStruct, encode_struct, parse_struct

CODEC_LEVELS: Final[Mapping[str, int | None]] = {"gzip": 1, "zstd": 1, "snappy": None, "none": None}
LEAST_BYTES: Final = 1 << 20
"""The Arrow bytes of the first row group above which rewriting the footer in Python pays off."""
_MAGIC: Final = b"PAR1"
_GZIP: Final = 2  # of parquet's CompressionCodec
_GZIP_WINDOW_BITS: Final = 31
_ISAL_LEVEL: Final = 1
# Of PageHeader.
_PAGE_BYTES, _STORED_BYTES, _CHECKSUM = 2, 3, 4
# Of FileMetaData, RowGroup and ColumnChunk.
_ROW_GROUPS, _COLUMNS, _GROUP_OFFSET, _GROUP_STORED_BYTES = 4, 1, 5, 6
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
# Of ColumnMetaData.
_CODEC, _CHUNK_STORED_BYTES, _FIRST_DATA_PAGE, _DICTIONARY = 4, 7, 9, 11


def open_parquet_writer(
    sink: Any, schema: pa.Schema, codec: str, *, first_bytes: int, **options: Any
) -> pq.ParquetWriter:
    """A writer of row groups by `write_table`, one each call; `first_bytes` is the size of the first.

    `options` are those of `pyarrow.parquet.ParquetWriter`, also `metadata_collector`, which gets the footer;
    pages are of version 1, without a page index.
    """
    options = {**options, "data_page_version": "1.0", "write_page_index": False}
    if codec != "gzip" or first_bytes < LEAST_BYTES or find_spec("isal") is None:
        return pq.ParquetWriter(
            sink, schema, compression=codec, compression_level=CODEC_LEVELS[codec], **options
        )
    return cast("pq.ParquetWriter", _GzipWriter(sink, schema, options))


class _GzipWriter:
    """The methods of `pq.ParquetWriter` that its users need."""

    def __init__(self, sink: Any, schema: pa.Schema, options: dict[str, Any]) -> None:
        self._footers: list[pq.FileMetaData] | None = options.pop("metadata_collector", None)
        self._pages = _Pages(sink)
        self._writer = pq.ParquetWriter(self._pages, schema, compression="none", **options)
        self._is_whole = True

    def __enter__(self) -> _GzipWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._is_whole &= error is None
        self.close()

    def write_table(self, table: pa.Table, row_group_size: int) -> None:
        """Write one row group."""
        self._is_whole = False
        self._writer.write_table(table, row_group_size=row_group_size)
        self._is_whole = True

    def add_key_value_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add to the footer."""
        self._writer.add_key_value_metadata(metadata)

    def close(self) -> None:
        """Write the footer, once; the sink stays open."""
        is_whole, self._is_whole = self._is_whole, False
        self._pages.end()
        self._writer.close()
        if is_whole:
            footer = self._pages.write_footer()
            if self._footers is not None:
                self._footers.append(pq.read_metadata(pa.BufferReader(_MAGIC + footer)))


class _Pages:
    """The file that Arrow writes: each page is compressed and passed on as soon as it is complete."""

    closed = False

    def __init__(self, sink: Any) -> None:
        from isal.isal_zlib import compress

        self._compress: Callable[..., bytes] = compress
        self._sink = sink
        self._pending = bytearray()
        self._header: ThriftStruct | None = None
        self._begun = 0  # the position of the pending bytes in Arrow's file
        self._page = 0  # and of the current page
        self._places: dict[int, int] = {}  # of pages, by their positions in Arrow's file
        self._is_ended = False

    def write(self, data: Any) -> int:
        """Take bytes from Arrow."""
        self._pending += data
        if not self._is_ended:
            while self._pass_on():
                pass
        return len(data)

    def tell(self) -> int:
        """The position in Arrow's file."""
        return self._begun + len(self._pending)

    def flush(self) -> None:
        """Do nothing: pages are passed on when they are complete."""

    def close(self) -> None:
        """Accept no more bytes; the sink stays open."""
        self.closed = True

    def end(self) -> None:
        """The footer comes."""
        self._is_ended = True

    def _pass_on(self) -> bool:
        """Pass the first pending part of the file on, if it is complete."""
        if self._begun == 0:
            if len(self._pending) < len(_MAGIC):
                return False
            self._sink.write(bytes(self._pending[: len(_MAGIC)]))
            return self._drop(len(_MAGIC))
        if self._header is None:
            return self._read_header()
        length = self._header[_STORED_BYTES][1]
        if len(self._pending) < length:
            return False
        with memoryview(self._pending) as data:
            stored = self._compress(data[:length], _ISAL_LEVEL, _GZIP_WINDOW_BITS)
        self._header[_STORED_BYTES] = (I32, len(stored))
        self._header.pop(_CHECKSUM, None)
        self._places[self._page] = self._sink.tell()
        self._sink.write(encode_struct(self._header))
        self._sink.write(stored)
        self._header = None
        return self._drop(length)

    def _read_header(self) -> bool:
        """Read the header of a page, if it is complete."""
        try:
            header, length = parse_struct(self._pending, 0)
        except (IndexError, ValueError):
            return False
        # Some versions of Arrow repeat the column's metadata of the footer behind its pages.
        if header[_PAGE_BYTES][0] == I32:
            self._header, self._page = header, self._begun
        return self._drop(length)

    def _drop(self, length: int) -> bool:
        del self._pending[:length]
        self._begun += length
        return True

    def write_footer(self) -> bytes:
        """Pass the footer on, with the pages' new places and sizes; the end of the file."""
        if self._begun == 0:
            self._pass_on()
        footer, _ = parse_struct(self._pending, 0)
        last = self._sink.tell()
        for group in reversed(footer[_ROW_GROUPS][1].elements):
            last = self._move_row_group(group, last)
        encoded = encode_struct(footer)
        end = encoded + len(encoded).to_bytes(4, "little") + _MAGIC
        self._sink.write(end)
        return end

    def _move_row_group(self, group: ThriftStruct, end: int) -> int:
        """Set the positions of the pages in a row group that ends at `end`; returns its start."""
        group_end = end
        for chunk in reversed(group[_COLUMNS][1].elements):
            column = chunk[_CHUNK_METADATA][1]
            begin = end
            for number in (_DICTIONARY, _FIRST_DATA_PAGE):
                # A column without rows has its first data page at 0.
                if number in column and (place := self._places.get(column[number][1])) is not None:
                    column[number] = (I64, place)
                    begin = min(begin, place)
            column[_CODEC] = (I32, _GZIP)
            column[_CHUNK_STORED_BYTES] = (I64, end - begin)
            if chunk[_CHUNK_OFFSET][1]:
                chunk[_CHUNK_OFFSET] = (I64, begin)
            end = begin
        for number, value in ((_GROUP_OFFSET, end), (_GROUP_STORED_BYTES, group_end - end)):
            if number in group:
                group[number] = (I64, value)
        return end
