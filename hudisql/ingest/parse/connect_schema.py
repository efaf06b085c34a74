"""The schema that Kafka Connect's JSON converter sends with each message (`schema` beside `payload`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hudisql.ingest.parse.avro_resolution import EPOCHS
from hudisql.ingest.parse.json_program import Encoding

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"


def column_encodings(schema_text: bytes, default: Encoding) -> Mapping[str, Encoding]:
    """The encodings of the row's columns, by the schema of an envelope's `after`; `default` for others."""
    try:
        document = json.loads(schema_text)
    except ValueError:
        return {}
    return {
        str(field["field"]): Encoding(
            EPOCHS.get(str(field.get("name")), default.epoch_unit), _decimal_scale(field, default)
        )
        for field in _row_fields(document)
        if isinstance(field, dict) and "field" in field
    }


def _row_fields(document: Any) -> list[Any]:
    fields = document.get("fields") if isinstance(document, dict) else None
    for field in fields or []:
        if isinstance(field, dict) and field.get("field") == "after":
            return list(field.get("fields") or [])
    return []


def _decimal_scale(field: Mapping[str, Any], default: Encoding) -> int | None:
    if field.get("name") != _DECIMAL:
        return None if field.get("type") in ("string", "double") else default.decimal_scale
    parameters = field.get("parameters") or {}
    return int(parameters.get("scale", 0))
