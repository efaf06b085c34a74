"""What a check of a publication finds: the kinds of problems, and one problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BEHIND: Final = "behind"
NOT_COMPARED: Final = "not compared"
FOREIGN: Final = "foreign snapshot"
METADATA_MOVED: Final = "metadata of another place"
METADATA_WRONG: Final = "metadata wrong"
MANIFEST_MISSING: Final = "manifest missing"
MANIFEST_WRONG: Final = "manifest wrong"
FILE_MISSING: Final = "file missing"
FILE_CHANGED: Final = "file changed"
FILE_NOT_PUBLISHED: Final = "file not published"
FILE_NOT_IN_TABLE: Final = "file not in the table"
FILE_UNREADABLE: Final = "file unreadable"
FILE_MISREAD: Final = "file misread"
SOURCE_CHANGED: Final = "source changed"
PARTITION_WRONG: Final = "partition wrong"
DELETES_WRONG: Final = "deletes wrong"
ROWS_DIFFER: Final = "rows differ"
ENTRY_WRONG: Final = "entry wrong"

_NOTICES: Final = frozenset({BEHIND, NOT_COMPARED})


@dataclass(frozen=True)
class PublicationProblem:
    """One problem; `path` is the file or directory that it is found in, `partition` None if it is in none."""

    kind: str
    partition: str | None
    path: str
    detail: str

    @property
    def is_error(self) -> bool:
        """False for what the next publication brings up to date by itself."""
        return self.kind not in _NOTICES
