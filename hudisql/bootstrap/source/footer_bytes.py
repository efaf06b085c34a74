"""Checks the bytes of a parquet footer before pyarrow decodes its columns.

For an unknown codec and for encrypted columns under a plain footer, pyarrow aborts the process instead of
raising; both are detected here first. Follows parquet.thrift in Thrift's compact protocol and parquet's
modular encryption. Knows no Spark and no Hudi.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC: Final = b"PAR1"
_FIRST_READ_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 28  # nonce and tag that sign a plain footer over encrypted columns
_CODECS_OF_PARQUET: Final = 8
_LZO: Final = 3
# Of ColumnMetaData: header of field 3 (a list, after field 2) and of field 4 (an i32, after field 3).
_PATH_FIELD: Final = b"\x19"
_CODEC_FIELD: Final = b"\x15"
_LONGEST_SHORT_LIST: Final = 14


def read_footer_bytes(source: Any) -> bytes:
    """The footer of an open parquet file without length and magic; one read, two if it is longer than 64 KiB.

    Raises pyarrow.ArrowInvalid if the file does not end like a parquet file, OSError.
    """
    size = source.size()
    source.seek(max(0, size - _FIRST_READ_BYTES))
    end = bytes(source.read(_FIRST_READ_BYTES))
    if len(end) < _TAIL_BYTES or not end.endswith(MAGIC):
        raise pa.ArrowInvalid("no footer at its end")
    length = int.from_bytes(end[-_TAIL_BYTES:-4], "little")
    if length + _TAIL_BYTES + len(MAGIC) > size:
        raise pa.ArrowInvalid(f"its footer says that it is {length:,} bytes long, the file is {size:,}")
    if length + _TAIL_BYTES > len(end):
        source.seek(size - length - _TAIL_BYTES)
        return bytes(source.read(length))
    return end[len(end) - length - _TAIL_BYTES : -_TAIL_BYTES]


def parse_footer(footer: bytes) -> Any:
    """The footer as pyarrow's FileMetaData. Raises OSError or pyarrow.ArrowException if it is invalid."""
    return pq.read_metadata(
        pa.BufferReader(b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC)))
    )


def find_unreadable(metadata: Any, footer: bytes) -> str | None:
    """Why no reader can read the file's columns, or None; call this before the columns are decoded."""
    if len(footer) - metadata.serialized_size == _SIGNATURE_BYTES:
        return "has encrypted columns, which hudisql cannot read"
    codecs = _codecs(metadata, footer)
    if unknown := sorted(codec for codec in codecs if codec >= _CODECS_OF_PARQUET):
        return f"is compressed by a codec that parquet does not know (number {unknown[0]})"
    if _LZO in codecs:
        return "is compressed by LZO, which hudisql and Spark cannot read"
    return None


def _codecs(metadata: Any, footer: bytes) -> set[int]:
    """The codec numbers of the first row group's columns, found by the path before each."""
    codecs: set[int] = set()
    position = 0
    for index in range(metadata.num_columns if metadata.num_row_groups else 0):
        names = [name.encode() for name in metadata.schema.column(index).path.split(".")]
        if len(names) > _LONGEST_SHORT_LIST:
            continue
        path = b"".join(_length(len(name)) + name for name in names)
        searched = _PATH_FIELD + bytes([len(names) << 4 | 8]) + path + _CODEC_FIELD
        found = footer.find(searched, position)
        if found >= 0:
            position = found + len(searched)
            codecs.add(footer[position] >> 1)  # zigzag
    return codecs


def _length(length: int) -> bytes:
    """A length as Thrift's variable-length integer."""
    found = bytearray()
    while length >= 0x80:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(found) + bytes([length])
