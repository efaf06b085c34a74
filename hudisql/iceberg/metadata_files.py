"""The metadata files of an Iceberg table: the newest one, and the commit of the next.

Follows the Iceberg spec, "File System Tables": the commit is the creation of `v<n+1>.metadata.json`, in which
one writer succeeds; `version-hint.text` is a pointer that may be late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hudisql.errors import CorruptTableError, NoSuchPathError, StorageError, UnsupportedTableError
from hudisql.iceberg.earlier_manifests import manifest_list_name
from hudisql.iceberg.iceberg_location import (
    data_directory,
    iceberg_location,
    metadata_directory,
    reader_uri,
)
from hudisql.iceberg.manifest_files import FORMAT_VERSION
from hudisql.iceberg.published_state import PublishedState, state_from
from hudisql.iceberg.recent_files import keep_content, recent_content
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

IDS_PROPERTY: Final = "hudisql.column-ids"
STATE_PROPERTY: Final = "hudisql.published-state"
CLEAN_PROPERTY: Final = "hudisql.latest-clean"
"""The properties with the ids of columns by path, the state of the last publication, and the time of the
newest clean whose deleted files no snapshot names.
"""
INSTANT: Final = "hudi.instant"
STATE: Final = "hudi.state"
"""What a snapshot's summary has: the newest commit that it shows, and the mark that hudisql wrote it."""
_KEPT_VERSIONS: Final = 10
_METADATA_FILE: Final = re.compile(r"v(\d+)\.metadata\.json")
_SNAPSHOT_FILE: Final = re.compile(r"(?:snap-)?(\d+)-v(\d+)(?:-m\d+)?\.avro")


@dataclass(frozen=True)
class LastMetadata:
    """The newest metadata and its version, 0 and None if there is none; `names` are all metadata files.

    Metadata of the place from which the table was moved or copied counts as none, since it names files there,
    but for its `format_version`.
    """

    version: int = 0
    document: Mapping[str, Any] | None = None
    names: Sequence[str] = ()
    format_version: int = FORMAT_VERSION

    @property
    def ids(self) -> Mapping[str, int]:
        """The ids of columns by their paths."""
        found: dict[str, int] = json.loads(self.document["properties"][IDS_PROPERTY]) if self.document else {}
        return found

    @property
    def snapshots(self) -> Sequence[Mapping[str, Any]]:
        """The snapshots, oldest first; the last one is the current one."""
        return () if self.document is None else list(self.document["snapshots"])

    @property
    def summary(self) -> Mapping[str, str]:
        """The summary of the current snapshot."""
        found: Mapping[str, str] = self.snapshots[-1]["summary"] if self.snapshots else {}
        return found

    @property
    def state(self) -> PublishedState | None:
        """The state of the Hudi table that the last publication shows; None if it is unknown."""
        return (
            None if self.document is None else state_from(self.document["properties"].get(STATE_PROPERTY, ""))
        )


def metadata_path(table: HudiTable, version: int) -> str:
    """The metadata file of this version."""
    return join(metadata_directory(table), f"v{version}.metadata.json")


def version_data_directory(table: HudiTable, version: int) -> str:
    """The directory of the files of slices that the publication of this version writes."""
    return join(data_directory(table), f"v{version}")


def latest_metadata(table: HudiTable) -> LastMetadata:
    """The newest metadata, whatever the hint says.

    Raises UnsupportedTableError if another engine has written to the Iceberg table, CorruptTableError,
    StorageError.
    """
    names: list[str] = []
    with suppress(NoSuchPathError):
        names = table.storage.list_file_names(metadata_directory(table))
    documents = [name for name in names if name.endswith(".metadata.json")]
    foreign = [name for name in documents if not _METADATA_FILE.fullmatch(name)]
    versions = [int(matched[1]) for name in names if (matched := _METADATA_FILE.fullmatch(name))]
    if foreign:
        raise _written_by_others(table, foreign[0])
    if not versions:
        return LastMetadata(names=names)
    path = metadata_path(table, max(versions))
    try:
        metadata = _recent_metadata(path, names) or json.loads(table.storage.read(path))
        current, snapshots = metadata["current-snapshot-id"], metadata["snapshots"]
        marks = [snapshot["snapshot-id"] for snapshot in snapshots if STATE in snapshot["summary"]]
        location, format_version = metadata["location"], int(metadata["format-version"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(
            f"{path} is not the metadata of an Iceberg table: {error!r}",
            hint=f"delete the directory {iceberg_location(table)} and publish again",
        ) from error
    if len(marks) < len(snapshots) or not marks or marks[-1] != current:
        raise _written_by_others(table, path)
    is_here = location == reader_uri(table, iceberg_location(table))
    return LastMetadata(max(versions), metadata if is_here else None, names, format_version)


def _recent_metadata(path: str, names: Collection[str]) -> dict[str, Any] | None:
    """The metadata file, if it is kept and the list of its current snapshot is still among the names."""
    content = recent_content(path)
    metadata: dict[str, Any] | None = None if content is None else json.loads(content)
    if metadata is None or manifest_list_name(metadata["snapshots"][-1]) not in names:
        return None
    return metadata


def _written_by_others(table: HudiTable, name: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"another engine has written to the Iceberg table of {table.base_path} ({name}): its rows are not in "
        "the Hudi table",
        hint=f"read what it wrote if you need it, then delete the directory {iceberg_location(table)} and "
        "publish again",
    )


def write_hint(table: HudiTable, version: int) -> None:
    """Let `version-hint.text` name this version. Raises StorageError."""
    table.storage.write(hint_path(table), str(version).encode())


def hint_path(table: HudiTable) -> str:
    """The file that names the newest version to readers of the directory."""
    return join(metadata_directory(table), "version-hint.text")


def commit_metadata(
    table: HudiTable, last: LastMetadata, document: Mapping[str, Any], written: Collection[str] | None = ()
) -> int:
    """Create the metadata file that follows the last one, and point to it; its version.

    Then outdated metadata files go, and what a killed publication of this version has left: `written` are the
    names of the files of slices of this one, None if no publication was killed. Raises PathExistsError if
    another process was faster, StorageError.
    """
    version = last.version + 1
    log: list[Mapping[str, Any]] = []
    if last.document is not None:
        before = {
            "timestamp-ms": last.document["last-updated-ms"],
            "metadata-file": reader_uri(table, metadata_path(table, last.version)),
        }
        log = [*last.document["metadata-log"], before][-(_KEPT_VERSIONS - 1) :]
    content = json.dumps({**document, "metadata-log": log}, ensure_ascii=False).encode()
    table.storage.create(metadata_path(table, version), content)
    keep_content(metadata_path(table, version), content)
    write_hint(table, version)
    current = document["current-snapshot-id"]
    kept = _KEPT_VERSIONS if last.document is not None else 1
    outdated = [name for name in last.names if _is_outdated(name, version, current, kept)]
    delete_unneeded(table, [join(metadata_directory(table), name) for name in outdated])
    if table.is_merge_on_read and written is not None:
        directory = data_directory(table) if kept == 1 else version_data_directory(table, version)
        left: list[str] = []
        with suppress(StorageError):
            left = [file.path for file in table.storage.list_files(directory)]
        delete_unneeded(table, [path for path in left if path.rpartition("/")[2] not in written])
    return version


def delete_unneeded(table: HudiTable, paths: Iterable[str]) -> None:
    """Delete the files; those that cannot be deleted are harmless, since no metadata names them."""
    with suppress(StorageError):
        table.storage.delete_files(sorted(paths))


def _is_outdated(name: str, version: int, snapshot_id: int, kept: int) -> bool:
    """True for all but the last `kept` metadata files, and for the files of a killed publication.

    A killed publication has the version of the one that succeeded, and another snapshot. If one version alone
    is kept, all other snapshots go.
    """
    if matched := _METADATA_FILE.fullmatch(name):
        return int(matched[1]) <= version - kept
    matched = _SNAPSHOT_FILE.fullmatch(name)
    if matched is None or int(matched[1]) == snapshot_id:
        return False
    return kept == 1 or int(matched[2]) == version
