"""Limits for clients of `hudisql serve`; requests beyond them are refused before they take memory."""

from __future__ import annotations

from dataclasses import dataclass

from hudisql.errors import InvalidArgumentError


@dataclass(frozen=True)
class ServerLimits:
    """Seconds and bytes; `statement_seconds` and `result_bytes` of 0 mean no limit."""

    connections: int = 200
    sessions: int = 100
    session_operations: int = 100
    message_bytes: int = 16 << 20
    handshake_seconds: float = 10.0
    message_seconds: float = 30.0
    idle_seconds: float = 3600.0
    statement_seconds: float = 0.0
    result_bytes: int = 0
    drain_seconds: float = 600.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            may_be_zero = name in ("statement_seconds", "result_bytes")
            if value < 0 or (value == 0 and not may_be_zero):
                raise InvalidArgumentError(f"the limit {name} must be positive, not {value}")
