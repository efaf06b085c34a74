"""The schemas of completed commits, and how far their record index is complete, read once in a process.

A completed commit never changes, and its instant time is used once. Only bootstraps have fixed ones, so what
they say is kept with the opened table alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES, Instant

SchemaTexts = dict[str, str | None]
"""The schemas in a commit's extra metadata, and INDEXED_COMMITS, by their keys."""

_MOST_COMMITS: Final = 128
_known: Final[OrderedDict[tuple[str, Instant], SchemaTexts]] = OrderedDict()
_lock: Final = threading.Lock()


def known_schema_texts(base_path: str, commit: Instant) -> SchemaTexts | None:
    """The schemas of a commit that this process has read or written; None if they are not kept."""
    with _lock:
        texts = _known.get((base_path, commit))
        if texts is not None:
            _known.move_to_end((base_path, commit))
        return texts


def keep_schema_texts(base_path: str, commit: Instant, texts: SchemaTexts) -> None:
    """Keep the schemas of a completed commit; those used least recently go for them."""
    if commit.timestamp in BOOTSTRAP_INSTANT_TIMES:
        return
    with _lock:
        _known[base_path, commit] = texts
        if len(_known) > _MOST_COMMITS:
            _known.popitem(last=False)


def forget_schema_texts() -> None:
    """Keep nothing, as in a new process."""
    with _lock:
        _known.clear()
