"""The bytes, against the classes that Thrift's compiler made of Hive's definition (PyHive's)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hudisql.errors import ProtocolError
from hudisql.server import column_bytes
from hudisql.server import thrift_binary as thrift
from hudisql.server.column_bytes import WireType, encode_column
from hudisql.server.transport import BodySource

ttypes = pytest.importorskip("TCLIService.ttypes")

_VALUES: dict[WireType, some.SearchStrategy[Any]] = {
    WireType.BOOLEAN: some.booleans(),
    WireType.TINYINT: some.integers(-128, 127),
    WireType.SMALLINT: some.integers(-(1 << 15), (1 << 15) - 1),
    WireType.INT: some.integers(-(1 << 31), (1 << 31) - 1),
    WireType.BIGINT: some.integers(-(1 << 63), (1 << 63) - 1),
    WireType.DOUBLE: some.floats(allow_nan=False),
    WireType.STRING: some.text(),
    WireType.BINARY: some.binary(),
}


def from_thrift(kind: Any, content: bytes) -> Any:
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TTransport import TMemoryBuffer

    value = kind()
    value.read(TBinaryProtocol(TMemoryBuffer(content)))
    return value


def written(fields: thrift.StructValue) -> bytes:
    """The bytes of a struct, without the head of the message around it."""
    head = thrift.write_message("m", thrift.REPLY, 1, ())
    return thrift.write_message("m", thrift.REPLY, 1, fields)[len(head) - 1 :]


@pytest.mark.parametrize("wire", list(WireType), ids=lambda wire: wire.name)
@given(data=some.data())
def test_columns_are_read_as_they_were_by_thrifts_own_reader(wire: WireType, data: some.DataObject) -> None:
    values = data.draw(some.lists(some.none() | _VALUES[wire], max_size=30))
    begin = data.draw(some.integers(0, len(values)))
    column = pa.array(values, wire.value[2])[begin:]
    read = from_thrift(ttypes.TColumn, written(encode_column(column, wire)))
    names = ("boolVal", "byteVal", "i16Val", "i32Val", "i64Val", "doubleVal", "stringVal", "binaryVal")
    inner = getattr(read, names[wire.value[0] - 1])
    nulls = [
        position < 8 * len(inner.nulls) and bool(inner.nulls[position // 8] & (1 << position % 8))
        for position in range(len(inner.values))
    ]
    got = [None if is_null else value for is_null, value in zip(nulls, inner.values, strict=True)]
    assert got == values[begin:]


@given(
    values=some.lists(some.none() | some.text(max_size=20) | some.text("x", min_size=300, max_size=300)),
    begin=some.integers(0, 3),
)
def test_many_texts_are_encoded_as_few_are(values: list[str | None], begin: int) -> None:
    column = pa.array(values, pa.string())[begin:]
    few = encode_column(column, WireType.STRING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_bytes, "_FEW_TEXTS", -1)
        assert written(encode_column(column, WireType.STRING)) == written(few)


def test_a_float_is_the_double_of_its_shortest_text() -> None:
    read = from_thrift(ttypes.TColumn, written(encode_column(pa.array([0.1], pa.float32()), WireType.DOUBLE)))
    assert read.doubleVal.values == [0.1]


def request_bytes(method: str, request: Any) -> bytes:
    """A call as Thrift's own writer makes it."""
    from TCLIService import TCLIService
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType
    from thrift.transport.TTransport import TMemoryBuffer

    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(method, TMessageType.CALL, 7)
    getattr(TCLIService, f"{method}_args")(request).write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


OPEN = request_bytes(
    "OpenSession",
    ttypes.TOpenSessionReq(client_protocol=7, username="ä", configuration={"use:database": "lake"}),
)
EXECUTE = request_bytes(
    "ExecuteStatement",
    ttypes.TExecuteStatementReq(
        ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16)), "DROP TABLE t", runAsync=True
    ),
)


def test_a_request_of_thrifts_own_writer_is_read() -> None:
    message = thrift.read_message(BodySource(OPEN), 1000)
    assert (message.method, message.number) == ("OpenSession", 7)
    assert message.arguments == {1: {1: 7, 2: "ä".encode(), 4: {b"use:database": b"lake"}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (EXECUTE[:-5], "ends within"),
        (b"POST" + EXECUTE, "does not begin"),
        (b"\x80\x01\x00\x01\x7f\xff\xff\xff", "name of the method"),
        (EXECUTE.replace(b"\x00\x00\x00\x0cDROP", b"\x7f\xff\xff\xffDROP"), "longer than"),
        (EXECUTE.replace(b"\x00\x00\x00\x0cDROP", b"\xff\xff\xff\xfeDROP"), "negative"),
        (EXECUTE[:28] + b"\x0c\x00\x01" * 40, "within each other"),
        (EXECUTE[:28] + b"\x0f\x00\x01\x0b\x00\xff\xff\xff", "longer than"),
        (EXECUTE[:28] + b"\x0f\x00\x01\x01\x00\x00\x00\x03", "unknown values"),
        (EXECUTE[:28] + b"\x11\x00\x01", "unknown type"),
        (EXECUTE.replace(b"\x80\x01\x00\x01", b"\x80\x01\x00\x02"), "not a call"),
    ],
)
def test_a_damaged_message_is_refused_before_anything_is_allocated(content: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        thrift.read_message(BodySource(content), 10_000)


def test_a_message_of_very_many_small_values_is_refused_before_they_take_memory() -> None:
    content = EXECUTE[:28] + b"\x0f\x00\x01\x0c\x00\x10\x00\x00" + bytes(1 << 21)
    with pytest.raises(ProtocolError, match="more than 100000 values"):
        thrift.read_message(BodySource(content), 4 << 20)
