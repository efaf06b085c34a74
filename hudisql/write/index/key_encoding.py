"""The encoding of a table's record keys: the plain value, or `column:value` pairs.

Follows `KeyGenUtils` of Hudi. A complex key generator with one key column wrote `id:k` up to Hudi 0.14.0 and
from 1.1 on, and `k` in between, so the encoding is detected from the table's own files. A table of version 9
without files gets `id:k`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage.parallel_reads import read_small
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partitions_at, walk_partitions
from hudisql.table.properties.version_properties import NEW_TABLE_VERSIONS
from hudisql.table.timeline.instant_files import read_commits
from hudisql.write.index.slice_key_lookup import SliceLookup, read_key_footer, read_keys

_NEWEST_COMMITS: Final = 2
_PARTITIONS_OF_A_COMMIT: Final = 2
_KEYS: Final = pa.schema([META_SCHEMA.field(RECORD_KEY)])


def uses_complex_key_encoding(table: HudiTable, slices: Iterable[FileSlice] | None = None) -> bool:
    """True if keys are `column:value` pairs, as detected from one of `slices` of each instant.

    Without `slices` a few partitions are listed if necessary: the first with files, and those of the newest
    commits. Raises UnsupportedTableError if the files do not agree.
    """
    fields = table.properties.record_key_fields
    if len(fields) != 1:
        return len(fields) > 1
    generator = (table.properties.key_generator_class or "").rsplit(".", 1)[-1]
    is_complex = generator.startswith("Complex") or (table.properties.key_generator_type or "").startswith(
        "COMPLEX"
    )
    # Keys that no file has are compared with nothing of another writer.
    if not is_complex or not table.properties.populate_meta_fields:
        return False
    slices = _telling_slices(table) if slices is None else slices
    prefix = f"{fields[0]}:"
    forms = {key.startswith(prefix) for key in _sample_keys_of_table(table, list(slices), prefix)}
    if len(forms) > 1:
        raise UnsupportedTableError(
            f"the record keys of the Hudi table at {table.base_path} are written as '{prefix}value' in "
            "some files and as the plain value in others",
            hint="writers of several Hudi versions have mixed them; rewrite the table with one of them",
        )
    return forms == {True} or (not forms and table.version == NEW_TABLE_VERSIONS[-1])


def _telling_slices(table: HudiTable) -> list[FileSlice]:
    """The slices of the first partition that has any, and of some that the newest commits wrote to.

    Another Hudi version may have written the newest keys than the oldest ones.
    """
    file_slices = next(
        (some for partition in walk_partitions(table) if (some := load_file_slices(table, partition))), []
    )
    newest = [commit for commit in table.timeline.commits if commit.timestamp not in BOOTSTRAP_INSTANT_TIMES]
    paths: set[str] = set()
    for metadata in read_commits(table, newest[-_NEWEST_COMMITS:]):
        paths |= set(sorted(metadata.partition_to_write_stats)[:_PARTITIONS_OF_A_COMMIT])
    return [*file_slices, *load_file_slices(table, partitions_at(table, paths))]


def _sample_keys_of_table(table: HudiTable, slices: list[FileSlice], prefix: str) -> list[str]:
    """Keys of a base file of each instant, or without base files of the newest log files with rows."""
    samples = {
        file_slice.base_instant_time: file_slice for file_slice in slices if file_slice.base_file is not None
    }
    if samples:
        keys = read_small(lambda each: _sample_keys(table, each, prefix), samples.values(), table.base_path)
        return list(chain.from_iterable(keys))
    config = log_merge_config_of(table) if slices else None
    for file_slice in sorted(slices, key=lambda file_slice: file_slice.base_instant_time, reverse=True):
        for batch in read_keys(table.storage, SliceLookup(file_slice, log_merge_config=config)):
            if batch.num_rows:
                return _one_of_each_form(batch.column(0), prefix)
    return []


def _sample_keys(table: HudiTable, file_slice: FileSlice, prefix: str) -> list[str]:
    """Keys of the slice that show whether it has pairs, plain values or both.

    If the footer's least and greatest key have the same prefix, all keys have it. The same holds without the
    prefix, unless keys with the prefix sort between them.
    """
    assert file_slice.base_file is not None
    footer = read_key_footer(table.storage, file_slice.base_file.path)
    ends = [key for key in (footer.min_key, footer.max_key) if key is not None]
    if len(ends) == 2 and not ends[0] < prefix < ends[1]:
        return ends
    # Writers of one version wrote both base file and log files: the base file is enough.
    read = SliceRead(replace(file_slice, log_files=()), _KEYS)
    batch = next(iter(read_file_slice(table.storage, read)), None)
    return ends if batch is None else [*ends, *_one_of_each_form(batch.column(0), prefix)]


def _one_of_each_form(keys: pa.StringArray, prefix: str) -> list[str]:
    is_pair = pc.starts_with(keys, prefix)
    return [part[0].as_py() for part in (keys.filter(is_pair), keys.filter(pc.invert(is_pair))) if len(part)]
