"""Variable-length numbers: base-128 varints (protobuf, Avro) and those of Hadoop's `WritableUtils`."""

from __future__ import annotations


def encode_protobuf_varint(value: int) -> bytes:
    """A base-128 varint of a number >= 0."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_zigzag_varint(value: int) -> bytes:
    """A base-128 varint of any number, as Avro and Thrift's compact protocol write it."""
    return encode_protobuf_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def decode_protobuf_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """The varint at `position` and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def encode_hadoop_varint(value: int) -> bytes:
    """A number >= 0 as Hadoop's `WritableUtils.writeVInt` writes it."""
    # Hadoop's WritableUtils: one byte up to 127, else a byte with the number of big-endian bytes.
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def decode_hadoop_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number >= 0 at `position` and the position after it."""
    first = data[position]
    if first <= 127:
        return first, position + 1
    size = 256 - 112 - first
    return int.from_bytes(data[position + 1 : position + 1 + size], "big"), position + 1 + size
