"""The measured behaviour of each reader on a table in a given state (docs/readers.md, docs/facts.md).

A reader is one declaration: its name, the settings that it needs, and rules. The first rule whose condition
holds decides; a table that matches none is read correctly. Tests compare the answers with what the readers
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hudisql.bootstrap.type_safety import CODEC_INCOMPATIBILITIES
from hudisql.catalog.metastore_table import MetastoreTable, is_read_optimized
from hudisql.compatibility.reader_state import ReaderState
from hudisql.format.log_file.log_block import BlockType
from hudisql.table.metadata_table.kept_metadata_table import NEWEST_VERSION
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE

_HIVE_INPUT_FORMAT: Final = "hive.input.format=org.apache.hadoop.hive.ql.io.HiveInputFormat"
_SPARK_SETTINGS: Final = (
    "spark.serializer=org.apache.spark.serializer.KryoSerializer, "
    "spark.kryo.registrator=org.apache.spark.HoodieSparkKryoRegistrar, "
    "spark.sql.extensions=org.apache.spark.sql.hudi.HoodieSparkSessionExtension, "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.hudi.catalog.HoodieCatalog"
)
_MEASURED_VERSIONS: Final = frozenset({6, 8, 9})
_UPGRADES: Final = (
    "writers upgrade the table to version 9, which hudisql and Hudi 1.x read, unless they have "
    "hoodie.write.table.version={version}"
)
_MAKE_STATISTICS: Final = (
    f"writers need {COLUMN_STATS_ENABLE}=false, or filtered reads lose rows, until a change of hudisql puts "
    "that into the table's properties"
)
_NO_SKIPPING: Final = "hoodie.enable.data.skipping=false"
_SCHEMA_ON_READ: Final = "hoodie.schema.on.read.enable=true"


class Reads(StrEnum):
    """The result of a reader."""

    RIGHT = "right"
    WRONG = "wrong"
    """Wrong rows, or NULLs, without an error."""
    FAILS = "fails"
    IN_PART = "in part"
    """Correct but for the named columns, which it cannot read."""
    UNKNOWN = "unknown"
    """Not measured."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a reader reads a table: the `settings` it needs, and the reason or a note."""

    reader: str
    reads: Reads
    name: str | None = None
    settings: str | None = None
    why: str | None = None


Verdict = tuple[Reads, str]
Rule = Callable[[ReaderState], Verdict | None]


def answers(state: ReaderState) -> Iterator[Answer]:
    """An answer for each reader, and for Hive one for each name of the table."""
    name = state.entries[0].full_name if state.entries else None
    verdict = _first(state, _hudisql)
    yield Answer("hudisql", verdict[0], name, None, verdict[1] or None)
    yield from _hive_answers(state)
    for reader, rules, settings in _SPARK_READERS:
        reads, why = _first(state, *rules)
        yield Answer(reader, reads, name, _with_ids(state, settings), why or None)
    yield _with_statistics(state, name)
    yield Answer("PySpark 4 with hudisql, by path", verdict[0], None, None, verdict[1] or None)
    yield Answer(
        "PySpark 4 with hudisql, by name",
        Reads.FAILS,
        name,
        None,
        "Spark does not tell a Python data source where a table of the catalog lies: read it by path, or by a"
        " temporary view of that",
    )
    for reader, rules in _OTHER_READERS:
        reads, why = _first(state, *rules)
        yield Answer(reader, reads, None, None, why or None)


def _first(state: ReaderState, *rules: Rule) -> Verdict:
    return next((found for rule in rules if (found := rule(state)) is not None), (Reads.RIGHT, ""))


def _hudisql(state: ReaderState) -> Verdict | None:
    return None if state.version_problem is None else (Reads.FAILS, state.version_problem)


def _later_version(state: ReaderState) -> Verdict | None:
    if state.version <= 6:
        return None
    return Reads.FAILS, f"table version {state.version}: Hudi 0.15 reads up to 6"


def _short_binary_decimals(state: ReaderState) -> Verdict | None:
    if columns := state.columns_with("binary_decimal"):
        return Reads.IN_PART, f"decimals of up to 18 digits stored as BYTE_ARRAY: {', '.join(columns)}"
    return None


def _names_without_extension(state: ReaderState) -> Verdict | None:
    if any(not footer.path.endswith(".parquet") for footer in state.footers):
        return Reads.FAILS, "source files whose names do not end in .parquet"
    return None


def _with_statistics(state: ReaderState, name: str | None) -> Answer:
    """Hudi 1.x: correct, but for its own column statistics of partitions with skeletons."""
    reader, settings = "Spark 3.5 + Hudi 1.x bundle", _with_ids(state, _SPARK_SETTINGS)
    if state.version not in _MEASURED_VERSIONS:
        return Answer(reader, Reads.UNKNOWN, name, settings, f"table version {state.version}: not measured")
    if (verdict := _first(state, _register_only, _skeletons_with_ids))[0] is not Reads.RIGHT:
        return Answer(reader, verdict[0], name, settings, verdict[1])
    if state.version_problem is None and not state.bootstrapped:
        return Answer(reader, Reads.RIGHT, name, settings)
    if state.has_own_statistics:
        why = (
            "the metadata table has column statistics, which know no data column of skeletons: without the"
            " setting filtered reads lose rows"
        )
        return Answer(reader, Reads.RIGHT, name, f"{settings}, {_NO_SKIPPING}", why)
    has_right = state.has_statistics_of_sources
    notes = []
    if state.version < NEWEST_VERSION and not (has_right and state.makes_statistics):
        notes.append(_UPGRADES.format(version=state.version))
    if state.makes_statistics is not has_right and not (has_right and state.version == NEWEST_VERSION):
        notes.append(_MAKE_STATISTICS)
    return Answer(reader, Reads.RIGHT, name, settings, "; ".join(notes) or None)


def _with_ids(state: ReaderState, settings: str) -> str:
    """The settings, and the one by which columns with ids are found in older files."""
    return f"{settings}, {_SCHEMA_ON_READ}" if state.has_column_ids else settings


def _skeletons_with_ids(state: ReaderState) -> Verdict | None:
    if not (state.has_column_ids and state.bootstrapped):
        return None
    return Reads.WRONG, f"{state.bootstrapped:,} bootstrapped file groups: columns that were renamed are NULL"


def _ids_not_measured(state: ReaderState) -> Verdict | None:
    return (
        (Reads.UNKNOWN, "columns with ids (schema-on-read): not measured") if state.has_column_ids else None
    )


def _ids_in_hive(state: ReaderState) -> Verdict | None:
    if state.has_column_ids and state.is_partitioned:
        return (
            Reads.FAILS,
            "columns with ids (schema-on-read) in a partitioned table: NoClassDefFoundError for most queries",
        )
    return _ids_not_measured(state)


def _register_only(state: ReaderState) -> Verdict | None:
    if not state.register_only:
        return None
    partitions = f"{state.register_only:,} register-only partition{'' if state.register_only == 1 else 's'}"
    why = "their rows are missing, without an error: CALL resync_bootstrap(…, lift => …)"
    return Reads.WRONG, f"{partitions}: {why}"


def _skeletons(state: ReaderState) -> Verdict | None:
    if not state.bootstrapped:
        return None
    return Reads.WRONG, f"{state.bootstrapped:,} bootstrapped file groups: their data columns are NULL"


def _logs_not_measured(state: ReaderState) -> Verdict | None:
    return (Reads.UNKNOWN, "log files: not measured") if state.with_logs else None


def _version_not_measured(state: ReaderState) -> Verdict | None:
    return (Reads.UNKNOWN, f"table version {state.version}: not measured") if state.version != 6 else None


def _skeletons_not_supported(state: ReaderState) -> Verdict | None:
    if not state.bootstrapped:
        return None
    return Reads.FAILS, f"{state.bootstrapped:,} bootstrapped file groups: not supported"


def _not_measured(_state: ReaderState) -> Verdict:
    return Reads.UNKNOWN, "not measured; it supports tables without bootstrapped file groups"


_SPARK_READERS: Final[tuple[tuple[str, tuple[Rule, ...], str], ...]] = (
    (
        "Spark 3.5 + Hudi 0.15 bundle",
        (
            _later_version,
            _names_without_extension,
            _register_only,
            _skeletons_with_ids,
            _short_binary_decimals,
        ),
        _SPARK_SETTINGS,
    ),
)
_OTHER_READERS: Final[tuple[tuple[str, tuple[Rule, ...]], ...]] = (
    ("hudi-rs", (_version_not_measured, _register_only, _skeletons, _ids_not_measured, _logs_not_measured)),
    ("Trino", (_skeletons_not_supported, _not_measured)),
    ("Athena", (_skeletons_not_supported, _not_measured)),
)


def _hive_answers(state: ReaderState) -> Iterator[Answer]:
    if not state.entries:
        yield Answer(
            "Hive 2.3", Reads.FAILS, None, None, "the metastore does not know the table: CALL hive_sync"
        )
    for entry in state.entries:
        reads, why = _hive(state, entry)
        note = "Hive's default input format gives wrong rows, without an error"
        yield Answer(
            "Hive 2.3", reads, entry.full_name, _HIVE_INPUT_FORMAT, f"{why}; {note}" if why else note
        )


def _hive(state: ReaderState, entry: MetastoreTable) -> Verdict:
    rules: list[Rule] = [_later_version, _codec, _delta_pages, _ids_in_hive]
    if state.is_merge_on_read and not is_read_optimized(entry):
        rules += [_log_blocks, _base_files_in_newest_commit]
    found = _first(state, *rules)
    if found[0] is not Reads.RIGHT:
        return found
    broken = [*state.columns_with("integer_decimal"), *state.columns_with("int96")]
    if state.bootstrapped:
        broken += [column.name for column in entry.columns if column.type == "timestamp"]
    if broken:
        return Reads.IN_PART, f"it cannot read {', '.join(sorted(set(broken)))} (docs/types.md)"
    shown = sorted({name for kind in _TIMESTAMPS for name in state.columns_with(kind)})
    return Reads.RIGHT, f"timestamps are shown as bigint: {', '.join(shown)}" if shown else ""


_TIMESTAMPS: Final = ("timestamp_micros", "timestamp_millis", "timestamp_ntz")


def _codec(state: ReaderState) -> Verdict | None:
    for codec in sorted(state.codecs & set(CODEC_INCOMPATIBILITIES)):
        return Reads.FAILS, CODEC_INCOMPATIBILITIES[codec]
    return None


def _delta_pages(state: ReaderState) -> Verdict | None:
    if any(footer.has_unreadable_delta_pages for footer in state.footers):
        return Reads.FAILS, "DELTA_BYTE_ARRAY pages of a writer that names no build (PARQUET-246)"
    return None


def _log_blocks(state: ReaderState) -> Verdict | None:
    if BlockType.PARQUET_DATA in state.log_blocks:
        return Reads.FAILS, "log files with parquet blocks, which Hive 2.3 cannot read: CALL run_compaction"
    return None


def _base_files_in_newest_commit(state: ReaderState) -> Verdict | None:
    if not state.newest_commit_wrote_base_files:
        return None
    return (
        Reads.FAILS,
        "the newest commit of this merge-on-read table wrote base files (NoClassDefFoundError); it reads it"
        " again after the next commit that writes log files alone, and by the name _ro at any time",
    )
