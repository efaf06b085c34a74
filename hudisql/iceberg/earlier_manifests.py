"""The manifests of the last publication: what the next one keeps of them.

A manifest whose files are all still there is kept as it is; the entries of files that are still there in
others are written into new manifests as EXISTING, with their own snapshot and sequence numbers. So the footer
of a file is read once. Small manifests are written again, so that they do not become many.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.iceberg.manifest_files import ADDED, EXISTING, read_records
from hudisql.storage import Storage, join

_READERS_AT_ONCE: Final = 16


@dataclass(frozen=True)
class EarlierManifests:
    """What is kept: `manifests` as they stand in the manifest list with `their_entries`, and `entries` of
    others; `dropped` names the manifests that are not kept.
    """

    manifests: tuple[dict[str, Any], ...] = ()
    their_entries: tuple[dict[str, Any], ...] = ()
    entries: tuple[dict[str, Any], ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def data_files(self) -> list[dict[str, Any]]:
        """The data files and delete files that are kept, as the entries have them."""
        return [entry["data_file"] for entry in chain(self.their_entries, self.entries)]


def read_earlier_manifests(
    storage: Storage, directory: str, list_name: str, lengths: Mapping[str, int], least_entries: int
) -> EarlierManifests:
    """What the manifest list `list_name` in the metadata directory has of the files with these lengths.

    `lengths` are the files of the new state by their URI; manifests of fewer than `least_entries` entries are
    not kept whole. Raises CorruptTableError, StorageError.
    """
    manifests = _records(storage, join(directory, list_name))
    names = [str(manifest["manifest_path"]).rsplit("/", 1)[-1] for manifest in manifests]
    with ThreadPoolExecutor(_READERS_AT_ONCE) as pool:
        contents = list(pool.map(lambda name: _records(storage, join(directory, name)), names))
    kept: list[dict[str, Any]] = []
    kept_entries: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    dropped: list[str] = []
    for manifest, name, records in zip(manifests, names, contents, strict=True):
        current = [record for record in records if _is_current(record["data_file"], lengths)]
        if len(current) == len(records) >= least_entries:
            kept.append(manifest)
            kept_entries += current
        else:
            dropped.append(name)
            entries += [_as_existing(record, manifest) for record in current]
    return EarlierManifests(tuple(kept), tuple(kept_entries), tuple(entries), tuple(dropped))


def _is_current(data_file: Mapping[str, Any], lengths: Mapping[str, int]) -> bool:
    length: int = data_file["file_size_in_bytes"]
    return lengths.get(data_file["file_path"]) == length


def _as_existing(entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as another snapshot's; an added one takes its sequence numbers from its manifest."""
    if entry["status"] != ADDED:
        return dict(entry)
    sequence = manifest["sequence_number"]
    numbers = {"sequence_number": sequence, "file_sequence_number": sequence}
    return {**entry, "status": EXISTING, **numbers}


def _records(storage: Storage, path: str) -> list[dict[str, Any]]:
    try:
        return read_records(storage.read(path))
    except ValueError as error:
        raise CorruptTableError(
            f"{path} is not a manifest of Iceberg: {error}",
            hint="delete the table's directory .hoodie/iceberg and publish again",
        ) from error
