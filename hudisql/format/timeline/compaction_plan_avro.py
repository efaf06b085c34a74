"""The Avro form of compaction plans, of tables and of metadata tables.

Follows `HoodieCompactionPlan` of Hudi 0.15. Values and bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hudisql.format.avro.avro_container import load_codec

_PLAN_VERSION: Final = 2


def render_compaction_plan(operations: Sequence[Mapping[str, Any]]) -> bytes:
    """The content of `<t>.compaction.requested`; `operations` are records of `HoodieCompactionOperation`."""
    record = {
        "operations": [dict(operation) for operation in operations],
        "extraMetadata": None,
        "version": _PLAN_VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
    }
    return load_codec("HoodieCompactionPlan").encode(record)
