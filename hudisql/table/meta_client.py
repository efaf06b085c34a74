"""A table's directory, properties and timeline, for the readers of instant files.

Follows `HoodieTableMetaClient` of Hudi. It knows neither schemas nor partitions: `hudi_table` adds these.
"""

from __future__ import annotations

from dataclasses import dataclass

from hudisql.format.table_properties import TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import Instant
from hudisql.format.timeline.timeline_layout import instant_path
from hudisql.storage import Storage


@dataclass(frozen=True)
class TableMetaClient:
    """A table's files as they stood when it was opened; `base_path` is qualified."""

    base_path: str
    properties: TableProperties
    timeline: Timeline
    storage: Storage

    def instant_path(self, instant: Instant) -> str:
        """The path of the file that stands for the instant in its state."""
        return instant_path(self.base_path, self.timeline.layout, instant)
