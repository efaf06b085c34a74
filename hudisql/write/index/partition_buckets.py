"""The numbers of buckets by partition that a table stores, as Hudi 1.2 does for its simple bucket index.

Follows `PartitionBucketIndexHashingConfig` of Hudi 1.2: each rescaling, a replacecommit, adds a file of its
instant before it completes, and a table may be made with a first one. The newest one counts whose instant is
completed. A rollback deletes the file of its instant first.
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import NoSuchPathError
from hudisql.format.keys.bucket_rules import FIRST_RULES, BucketRules, rules_from_json
from hudisql.format.timeline.timeline_layout import bucket_rules_directory
from hudisql.storage import Storage, join
from hudisql.table.meta_client import TableMetaClient

_SUFFIX: Final = ".hashing_config"


def stored_bucket_rules(table: TableMetaClient) -> BucketRules | None:
    """The rules that count now; None if the table stores none. Raises CorruptTableError, StorageError."""
    instants = _completed(table)
    return _read(table, instants[-1]) if instants else None


def all_bucket_rules(table: TableMetaClient) -> list[BucketRules]:
    """The rules that count and those before them, oldest first, then what Hudi has archived.

    Raises CorruptTableError, StorageError.
    """
    archived = _instants(table, archived=True)
    return [
        *(_read(table, instant_time) for instant_time in _completed(table)),
        *(_read(table, instant_time, archived=True) for instant_time in archived),
    ]


def has_bucket_rules(table: TableMetaClient, instant_time: str) -> bool:
    """True if the instant has set, or is going to set, the numbers of buckets. Raises StorageError."""
    return table.storage.exists(_file(table.base_path, instant_time))


def store_bucket_rules(storage: Storage, base_path: str, rules: BucketRules) -> None:
    """Store the rules under their instant. Raises PathExistsError, StorageError."""
    storage.create(_file(base_path, rules.instant_time), rules.to_json())


def remove_bucket_rules(storage: Storage, base_path: str, instant_time: str) -> None:
    """Delete the rules of an instant, if it has any. Raises StorageError."""
    storage.delete_file(_file(base_path, instant_time))


def _completed(table: TableMetaClient) -> list[str]:
    instants = _instants(table)
    return [instant for instant in instants if instant == FIRST_RULES or table.timeline.is_visible(instant)]


def _instants(table: TableMetaClient, *, archived: bool = False) -> list[str]:
    try:
        names = table.storage.list_file_names(bucket_rules_directory(table.base_path, archived=archived))
    except NoSuchPathError:
        return []
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def _read(table: TableMetaClient, instant_time: str, *, archived: bool = False) -> BucketRules:
    path = _file(table.base_path, instant_time, archived=archived)
    return rules_from_json(table.storage.read(path), path)


def _file(base_path: str, instant_time: str, *, archived: bool = False) -> str:
    return join(bucket_rules_directory(base_path, archived=archived), instant_time + _SUFFIX)
