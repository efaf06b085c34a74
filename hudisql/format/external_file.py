"""The bootstrap source file that a skeleton points to, as the bootstrap index records it (RFC-12)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A bootstrap source file, with the length (bytes) and mtime (epoch ms) the bootstrap index recorded."""

    path: str
    length: int
    modification_time_ms: int
