"""The size of file slices up to which a refresh reads and writes on the driver."""

from __future__ import annotations

from hudisql.config.hudi_config import DRIVER_MAX_BYTES, REFRESH_DRIVER_MAX_BYTES
from hudisql.sql.dml.statement_scope import StatementScope


def refresh_driver_bytes(scope: StatementScope) -> int:
    """The session's limit for refreshes; 0 if statements do not read files on the driver."""
    return scope.settings.get(REFRESH_DRIVER_MAX_BYTES) if scope.settings.get(DRIVER_MAX_BYTES) else 0
