"""The position of an incremental table in its sources, stored in the commits of its refreshes.

The value is a JSON object: the definition, and the `Place` in each source by its base path. The newest commit
that has it counts, so that a rollback or restore resets the position together with the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.sql.incremental_tables.definition import IncrementalDefinition
from hudisql.table.history.taken_changes import Place
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.rows_checkpoint import find_newest

CHECKPOINT_KEY: Final = "hudisql.incremental.table"
"""Key of the extra metadata."""


@dataclass(frozen=True)
class RefreshPlace:
    """The position of the newest refresh in each source (by base path), and the definition's hash.

    `always` says why the query must be run even if no source has changed; empty if it need not. `views` has a
    hash of the definition of each view that the query reads.
    """

    definition: Mapping[str, object]
    sources: Mapping[str, Place]
    always: str = ""
    views: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RefreshCheckpoint:
    """What the commit of a refresh stores; `previous` is the position with which it was planned."""

    definition: IncrementalDefinition
    sources: Mapping[str, Place]
    previous: RefreshPlace | None
    always: str = ""
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The commit's extra metadata."""
        bootstraps = {path: place.bootstrap for path, place in self.sources.items() if place.bootstrap}
        content = {
            **self.definition.document,
            "sources": {path: place.until for path, place in self.sources.items()},
            "always": self.always,
            **({"bootstraps": bootstraps} if bootstraps else {}),
            **({"views": dict(self.views)} if self.views else {}),
        }
        return {CHECKPOINT_KEY: json.dumps(content, sort_keys=True)}

    def check(self, target: HudiTable) -> None:
        """Raise WriteConflictError if another refresh moved the position since. Raises CorruptTableError."""
        if find_place(target) != self.previous:
            raise WriteConflictError(
                f"another refresh of the incremental table at {target.base_path} was faster: this one wrote "
                "nothing",
                hint="refresh it again",
            )


def find_place(target: HudiTable) -> RefreshPlace | None:
    """The position of the newest refresh; None before the first. Raises CorruptTableError, StorageError."""

    def place_of(text: str) -> RefreshPlace:
        try:
            content = json.loads(text)
            always = str(content.pop("always", ""))
            bootstraps = content.pop("bootstraps", {})
            sources = {
                str(path): Place(str(until), str(bootstraps.get(path, "")))
                for path, until in content.pop("sources").items()
            }
            views = {str(name): str(value) for name, value in content.pop("views", {}).items()}
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise CorruptTableError(
                f"a commit of {target.base_path} has an invalid place '{text}' of a refresh: {error}",
                hint="REFRESH INCREMENTAL TABLE … FULL ignores it",
            ) from error
        return RefreshPlace(content, sources, always, views)

    return find_newest(target, CHECKPOINT_KEY, place_of)
