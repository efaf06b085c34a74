"""The records of the index `record_index`: in which file group the row of a record key is.

Follows `HoodieRecordIndexInfo`, `HoodieMetadataPayload.createRecordIndexUpdate` and
`HoodieTableMetadataUtil.getLocationFromRecordIndexInfo` of Hudi 0.15 and 1.2. The value of a record does not
name its key, so the records of all keys that a commit puts into one file group are alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX, chosen_cells, decode_values
from hudisql.format.paths.file_names import FileGroup

NOT_FOUND: Final = -1
_UUID_ENCODING, _TEXT_ENCODING = 0, 1
_NO_INDEX: Final = -1
_FILE_ID: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9]\d{0,8}))?", re.ASCII)
_HALF: Final = 64
_SIGN: Final = 1 << (_HALF - 1)


@dataclass(frozen=True, slots=True)
class RecordLocations:
    """Where keys are: for each the number of its file group among `groups`, NOT_FOUND for an unknown key.

    `inserted` is when the key came, in milliseconds since 1970 by the writer's clock.
    """

    groups: tuple[FileGroup, ...]
    numbers: npt.NDArray[np.int64]
    inserted: npt.NDArray[np.int64]


def location_value(group: FileGroup, inserted: int) -> dict[str, Any]:
    """The Avro record of a key's location."""
    path, file_id = group
    stored: dict[str, Any] = {"partitionName": path, "instantTime": inserted, "position": None}
    matched = _FILE_ID.fullmatch(file_id)
    if matched is None:
        return {
            **stored,
            **dict.fromkeys(("fileIdHighBits", "fileIdLowBits", "fileIndex"), -1),
            "fileId": file_id,
            "fileIdEncoding": _TEXT_ENCODING,
        }
    number = UUID(matched[1]).int
    return {
        **stored,
        "fileIdHighBits": _signed(number >> _HALF),
        "fileIdLowBits": _signed(number & ((1 << _HALF) - 1)),
        "fileIndex": _NO_INDEX if matched[2] is None else int(matched[2]),
        "fileId": "",
        "fileIdEncoding": _UUID_ENCODING,
    }


@dataclass(frozen=True, slots=True)
class LocatedKeys:
    """Keys of one HFile, each once, with their locations."""

    keys: pa.Array
    locations: RecordLocations


def read_located_keys(reader: HFileReader, name: str, keys: pa.Array | None = None) -> LocatedKeys:
    """The keys in an HFile of the index; only those of `keys` if given, by the blocks that may hold them.

    `name` stands in errors. Raises CorruptTableError, UnsupportedTableError.
    """
    cells = chosen_cells(reader, keys)
    encoded = cells.values.dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    values = decode_values(reader, RECORD_INDEX, name, encoded.dictionary.cast(pa.large_binary())).to_pylist()
    if None in values:
        raise CorruptTableError(f"cannot read {name}: it has records of another index than {RECORD_INDEX}")
    inserted = np.array([value["instantTime"] or 0 for value in values], np.int64)
    groups = tuple(_group_of(value) for value in values)
    return LocatedKeys(cells.keys, RecordLocations(groups, numbers, inserted[numbers]))


def _group_of(value: Mapping[str, Any]) -> FileGroup:
    if value["fileIdEncoding"] != _UUID_ENCODING:
        return value["partitionName"], value["fileId"]
    high, low = (value[name] % (1 << _HALF) for name in ("fileIdHighBits", "fileIdLowBits"))
    file_id = str(UUID(int=high << _HALF | low))
    index = value["fileIndex"]
    return value["partitionName"], file_id if index == _NO_INDEX else f"{file_id}-{index}"


def _signed(number: int) -> int:
    return number - (1 << _HALF) if number & _SIGN else number
