"""The place of an incremental pull, stored in the commits of its target table.

A commit with the rows of a pull stores in its extra metadata the last instant of the source, so that rows and
place become visible in one step. The value is a JSON object by source, with the rest of the `Place`; a commit
has only its own entry, and the newest commit with an entry is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.table.history.taken_changes import Place
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.rows_checkpoint import find_newest

CHECKPOINT_KEY: Final = "hudisql.incremental.checkpoint"
"""Key of the extra metadata; Hudi Streamer's `deltastreamer.checkpoint.key` names no source."""
_BOOTSTRAP: Final = "bootstrap"


@dataclass(frozen=True, slots=True)
class PullCheckpoint:
    """A pull from the Hudi table at `source` up to and with the instant `end`.

    `previous` is the target's place when the pull was planned, None before the first pull.
    """

    source: str
    previous: Place | None
    end: Place

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the commit."""
        bootstrap = {_BOOTSTRAP: self.end.bootstrap} if self.end.bootstrap else {}
        return {CHECKPOINT_KEY: json.dumps({self.source: self.end.until, **bootstrap})}

    def check(self, target: HudiTable) -> None:
        """Raise WriteConflictError if another pull has moved the place since. Raises CorruptTableError."""
        place = find_checkpoint(target, self.source)
        if place != self.previous:
            raise WriteConflictError(
                f"another pull from the Hudi table at {self.source} into the one at {target.base_path} took "
                f"the changes up to {_time_of(place)}: this one began after {_time_of(self.previous)}, and "
                "nothing was written",
                hint="begin a new pull",
            )


def _time_of(place: Place | None) -> str:
    return "no commit" if place is None else place.until


def find_checkpoint(target: HudiTable, source: str) -> Place | None:
    """The instant of the source up to which the table's commits have taken changes; None before the first.

    Reads commits from the newest on until one has a place, then archived ones. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """

    def end_of(text: str) -> Place | None:
        try:
            content = json.loads(text)
            end, bootstrap = content.get(source), str(content.get(_BOOTSTRAP, ""))
        except (ValueError, AttributeError) as error:
            raise CorruptTableError(
                f"a commit of {target.base_path} has the checkpoint '{text}', which is not valid: {error}"
            ) from error
        return None if end is None else Place(str(end), bootstrap)

    return find_newest(target, CHECKPOINT_KEY, end_of)
