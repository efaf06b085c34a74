"""Delegation tokens of HDFS in a container's token file, found by the name node's host name, too.

Hadoop writes the address of a name node into its tokens (`hadoop.security.token.service.use_ip`) and resolves
names before it looks for one; hdfs-native compares texts. The layout is that of Hadoop's `Credentials`.
"""

from __future__ import annotations

import atexit
import os
import socket
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_VARIABLE: Final = "HADOOP_TOKEN_FILE_LOCATION"
_KIND: Final = b"HDFS_DELEGATION_TOKEN"
# The magic, and the version of the layout that YARN and Spark write.
_HEAD: Final = b"HDTS\x00"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Token:
    alias: bytes
    identifier: bytes
    password: bytes
    kind: bytes
    service: bytes


def find_token_by_name(authority: str) -> None:
    """Let hdfs-native find the token of the name node `host:port` that Hadoop would find.

    If this process has a token file with a token of the host's address and none of its name, the process is
    given a copy of the file that has both, until it ends. Does nothing otherwise, also for a file in another
    layout.
    """
    host, _, port = authority.rpartition(":")
    location = os.environ.get(_VARIABLE)
    if not location or not host or not port.isdigit():
        return
    with _lock, suppress(OSError, ValueError, IndexError):
        content = Path(os.environ[_VARIABLE]).read_bytes()
        tokens, rest = _read(content)
        if any(token.service == authority.encode() for token in tokens):
            return
        addresses = {address_info[4][0] for address_info in socket.getaddrinfo(host, int(port))}
        services = {f"{address}:{port}".encode() for address in addresses}
        found = next((token for token in tokens if token.kind == _KIND and token.service in services), None)
        if found is not None:
            named = replace(found, alias=authority.encode(), service=authority.encode())
            os.environ[_VARIABLE] = _write([*tokens, named], rest)
            atexit.register(_remove, os.environ[_VARIABLE], os.getpid())


def _read(content: bytes) -> tuple[list[_Token], bytes]:
    """The tokens of a file, and the bytes behind them (secret keys). Raises ValueError, IndexError."""
    if not content.startswith(_HEAD):
        raise ValueError("another layout")
    count, at = _number(content, len(_HEAD))
    tokens = []
    for _ in range(count):
        parts = []
        for _ in range(5):
            length, at = _number(content, at)
            parts.append(content[at : at + length])
            at += length
        tokens.append(_Token(*parts))
    return tokens, content[at:]


def _write(tokens: list[_Token], rest: bytes) -> str:
    """Write a token file that only this user can read; its path."""
    content = bytearray(_HEAD + _encoded(len(tokens)))
    for token in tokens:
        for part in (token.alias, token.identifier, token.password, token.kind, token.service):
            content += _encoded(len(part)) + part
    handle, path = tempfile.mkstemp(prefix="hudisql-tokens-")
    with os.fdopen(handle, "wb") as file:
        file.write(content + rest)
    return path


def _remove(path: str, owner: int) -> None:
    """Remove a copy, but not from a child process that was forked later."""
    if os.getpid() == owner:
        with suppress(OSError):
            Path(path).unlink()


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A number of Hadoop's `WritableUtils.readVInt`, and the place behind it."""
    first = content[at] - 256 if content[at] > 127 else content[at]
    if first >= -112:
        return first, at + 1
    if first < -120:
        raise ValueError("a negative length")
    end = at + 1 - (first + 112)
    return int.from_bytes(content[at + 1 : end], "big"), end


def _encoded(number: int) -> bytes:
    """A number as Hadoop's `WritableUtils.writeVInt` writes it."""
    if number <= 127:
        return bytes([number])
    length = (number.bit_length() + 7) // 8
    return bytes([256 - 112 - length]) + number.to_bytes(length, "big")
