"""Answers of `GetInfo` for the values of `TGetInfoType` that drivers request."""

from __future__ import annotations

from typing import Any, Final

from hudisql import __version__
from hudisql.server.thrift_binary import I32, I64, STRING, StructValue

_TEXTS: Final = {2: "hudisql", 13: "hudisql", 14: "\\", 17: "hudisql", 18: __version__, 29: "`", 94: ""}
_LENGTHS: Final = {30: 128, 31: 128, 32: 128, 34: 128, 35: 128, 10005: 128}
_MIXED_CASE_AS_LOWER: Final = 2


def server_info(kind: Any) -> StructValue:
    """The `TGetInfoValue`; empty text for unknown values."""
    if kind in _LENGTHS:
        return ((6, I64, _LENGTHS[kind]),)
    if kind == 28:
        return ((3, I32, _MIXED_CASE_AS_LOWER),)
    return ((1, STRING, _TEXTS.get(kind, "")),)
