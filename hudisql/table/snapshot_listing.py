"""What was listed of one state of a table, remembered while a statement runs.

Stands for the file system view that Hudi's `HoodieTable` caches. `partitions` and `snapshot` fill it; a table
without one lists again each time it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudisql.table.file_slice import FileSlice
    from hudisql.table.partitions import TablePartition
    from hudisql.table.registered_partitions import RegisteredPartitions


@dataclass(slots=True)
class SnapshotListing:
    """The table's partitions and register-only ones (None: not listed yet), and the latest file slices by
    partition path.
    """

    partitions: tuple[TablePartition, ...] | None = None
    registered: RegisteredPartitions | None = None
    file_slices: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)
