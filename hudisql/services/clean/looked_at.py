"""How far the table's cleans have looked where they found nothing to delete.

A clean that deletes something records on the timeline how far it has looked. One that finds nothing leaves no
instant, and the next process would look at all partitions again: so it leaves a file of hudisql in the
table's `.aux` directory, which Apache Hudi does not read. The file only saves requests.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from hudisql.errors import StorageError
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

RECORD_FILE: Final = f"{METADATA_DIRECTORY}/.aux/.hudisql-clean"
_COMMITS_BETWEEN: Final = 5


def read_looked_at(table: HudiTable) -> str:
    """The instant time before which no slice was superfluous, with the savepoints of now; "" if unknown."""
    try:
        recorded = json.loads(table.storage.read(join(table.base_path, RECORD_FILE)))
        is_valid = recorded["savepoints"] == sorted(table.timeline.savepoints)
        return str(recorded["until"]) if is_valid else ""
    except (StorageError, ValueError, KeyError, TypeError):
        return ""


def record_looked_at(table: HudiTable, before: str, until: str) -> None:
    """Record that no slice before `until` is superfluous, some commits after `before`, the last record.

    A store that refuses the file costs only the next clean its requests.
    """
    first = table.timeline.first_active_time
    between = sum(before <= commit.timestamp < until for commit in table.timeline.commits)
    if until <= before or (first is not None and first <= before and between < _COMMITS_BETWEEN):
        return
    content = {"until": until, "savepoints": sorted(table.timeline.savepoints)}
    with suppress(StorageError):
        table.storage.write(join(table.base_path, RECORD_FILE), json.dumps(content).encode())
