"""Parquet files whose pages ISA-L compresses say and hold what those of pyarrow's own writer do."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.encoding.thrift_compact import encode_struct, parse_struct
from hudisql.write.handle import parquet_writer
from hudisql.write.handle.parquet_writer import LEAST_BYTES, open_parquet_writer

ROWS = 30_000


def _rows(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1 << 40, ROWS)
    texts = np.array(["", "a", "longer text", "ü"])
    return pa.table(
        {
            "id": pa.array(numbers),
            "few": pa.array(texts[random.integers(0, 4, ROWS)], mask=random.random(ROWS) < 0.1),
            "wide": pa.array([f"value {number}" * 3 for number in numbers.tolist()]),
            "none": pa.nulls(ROWS, pa.int32()),
            "flag": pa.array(numbers % 3 == 0),
            "amount": pa.array([Decimal(5), None] * (ROWS // 2), pa.decimal128(12, 2)),
            "items": pa.array([[{"x": 1, "y": "z"}], [], None] * (ROWS // 3)),
            "by_name": pa.array([[("k", 1.5)], []] * (ROWS // 2), pa.map_(pa.string(), pa.float64())),
        }
    )


def _written(tables: list[pa.Table], codec: str, first_bytes: int, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with open_parquet_writer(sink, tables[0].schema, codec, first_bytes=first_bytes, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata({"key": "value" * 100})
    return bytes(sink.getvalue())


def _said(content: bytes) -> list[Any]:
    """What a footer says, without positions and sizes, which count page headers, too."""
    metadata = pq.read_metadata(io.BytesIO(content))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(number).to_dict() for group in groups for number in range(group.num_columns)]
    moved = (
        *("total_compressed_size", "total_uncompressed_size"),
        *("data_page_offset", "dictionary_page_offset", "file_offset"),
    )
    kept = [{name: value for name, value in each.items() if name not in moved} for each in columns]
    return [
        metadata.metadata,
        metadata.num_rows,
        metadata.created_by,
        metadata.schema.to_arrow_schema(),
        kept,
    ]


@pytest.mark.parametrize("encodings", [True, False], ids=["dictionary", "plain"])
def test_pages_are_those_of_arrows_own_writer(encodings: bool) -> None:
    tables = [_rows(1), _rows(2).slice(0, 1_000), _rows(3).slice(0, 0)]
    options = {"use_dictionary": encodings, "store_schema": False, "data_page_size": 20_000}
    content = _written(tables, "gzip", LEAST_BYTES, **options)
    plain = _written(tables, "gzip", 0, **options)
    assert content != plain
    assert _said(content) == _said(plain)
    assert len(content) < 1.05 * len(plain)
    assert pq.read_table(io.BytesIO(content)) == pq.read_table(io.BytesIO(plain))
    one = pq.ParquetFile(io.BytesIO(content)).read_row_group(1, columns=["few", "items"])
    assert one == tables[1].select(["few", "items"])


def test_sizes_and_positions_of_chunks_follow_each_other() -> None:
    metadata = pq.read_metadata(io.BytesIO(_written([_rows(1), _rows(2)], "gzip", LEAST_BYTES)))
    place = len(b"PAR1")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(each) for each in range(group.num_columns)):
            assert column.compression == "GZIP"
            first = [column.data_page_offset, column.dictionary_page_offset]
            assert min(each for each in first if each) == place
            place += column.total_compressed_size


def test_a_file_without_row_groups_has_its_footer() -> None:
    schema = pa.schema([("id", pa.int64())])
    sink = pa.BufferOutputStream()
    open_parquet_writer(sink, schema, "gzip", first_bytes=LEAST_BYTES).close()
    assert pq.read_table(pa.BufferReader(sink.getvalue())) == schema.empty_table()


def test_without_isal_and_for_other_codecs_arrow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _rows(1).slice(0, 10)
    for codec in ("snappy", "zstd", "none"):
        assert isinstance(
            open_parquet_writer(io.BytesIO(), table.schema, codec, first_bytes=LEAST_BYTES), pq.ParquetWriter
        )
    monkeypatch.setattr(parquet_writer, "find_spec", lambda _: None)
    assert _said(_written([table], "gzip", LEAST_BYTES)) == _said(_written([table], "gzip", 0))


@pytest.mark.parametrize("length", [1, 3, 7, 1_000])
def test_pages_that_come_in_pieces_are_the_same(length: int) -> None:
    content = _written([_rows(1).slice(0, 500), _rows(2).slice(0, 90)], "none", 0, data_page_size=1_000)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")

    def compressed(pieces: int) -> bytes:
        sink = io.BytesIO()
        pages = parquet_writer._Pages(sink)
        for start in range(0, footer, pieces):
            pages.write(content[start : min(start + pieces, footer)])
        pages.end()
        pages.write(content[footer:])
        pages.write_footer()
        return sink.getvalue()

    assert compressed(length) == compressed(footer)
    assert pq.read_table(io.BytesIO(compressed(length))) == pq.read_table(io.BytesIO(content))


def test_a_writer_that_is_closed_again_writes_no_second_footer() -> None:
    table, sink = _rows(1).slice(0, 100), io.BytesIO()
    writer = open_parquet_writer(sink, table.schema, "gzip", first_bytes=LEAST_BYTES)
    writer.write_table(table, row_group_size=100)
    writer.close()
    length = sink.tell()
    writer.close()
    assert sink.tell() == length


def test_pages_are_of_version_1_without_an_index() -> None:
    wanted = {"data_page_version": "2.0", "write_page_index": True}
    content = _written([_rows(1)], "gzip", LEAST_BYTES, **wanted)
    assert pq.read_table(io.BytesIO(content)) == _rows(1)
    assert not pq.read_metadata(io.BytesIO(content)).row_group(0).column(0).has_offset_index


class _Full(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() > 1_000:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_file_whose_sink_fails_gets_no_footer() -> None:
    table, sink = _rows(1), _Full()
    writer = open_parquet_writer(sink, table.schema, "gzip", first_bytes=LEAST_BYTES)
    with pytest.raises(OSError, match="No space left on device"):
        writer.write_table(table, row_group_size=table.num_rows)
    length = sink.tell()
    writer.close()
    assert sink.tell() == length
    with (
        pytest.raises(OSError, match="No space left on device"),
        open_parquet_writer(_Full(), table.schema, "gzip", first_bytes=LEAST_BYTES) as writer,
    ):
        writer.write_table(table, row_group_size=table.num_rows)


def test_a_footer_that_is_parsed_and_encoded_again_is_the_same() -> None:
    content = _written([_rows(1), _rows(2)], "gzip", 0)
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    fields, end = parse_struct(footer, 0)
    assert (end, encode_struct(fields)) == (length, footer)


@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_the_footer_that_is_collected_is_the_one_that_readers_get(codec: str) -> None:
    table = pa.table({"a": range(100), "b": [[str(row)] for row in range(100)], "c": [1.5] * 100})
    sink = io.BytesIO()
    footers: list[pq.FileMetaData] = []
    with open_parquet_writer(
        sink, table.schema, codec, first_bytes=LEAST_BYTES, metadata_collector=footers
    ) as writer:
        for start in (0, 50):
            writer.write_table(table.slice(start, 50), row_group_size=50)
        writer.add_key_value_metadata({"key": "value"})
    stored = pq.read_metadata(io.BytesIO(sink.getvalue()))
    [footer] = footers
    assert footer.to_dict() == stored.to_dict() | {"serialized_size": footer.serialized_size}
    assert footer.metadata == stored.metadata
    assert footer.schema.to_arrow_schema().equals(stored.schema.to_arrow_schema(), check_metadata=True)
    collected, read = (each.row_group(1).column(0).statistics for each in (footer, stored))
    assert (collected.min_raw, collected.max_raw) == (read.min_raw, read.max_raw) == (50, 99)
