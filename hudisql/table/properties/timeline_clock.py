"""The clock of a table's timeline."""

from __future__ import annotations

from datetime import UTC, datetime

from hudisql.table.hudi_table import HudiTable


def now_on_timeline(table: HudiTable) -> datetime:
    """The current time in the timeline's time zone, tagged UTC."""
    if table.properties.timeline_timezone == "UTC":
        return datetime.now(UTC)
    return datetime.now().replace(tzinfo=UTC)
