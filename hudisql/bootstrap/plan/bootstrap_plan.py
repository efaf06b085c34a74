"""The plan of a bootstrap: everything that is known before a byte is written.

`plan_bootstrap` reads (metastore, directories, every footer) and returns one value with the files to write,
blockers and warnings; a dry run prints it, `plan_execution` runs it. Follows RFC-12's metadata-only
bootstrap; writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, PlanWithFindings, blocker, warning
from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.bootstrap.plan import plan_checks as checks
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode
from hudisql.bootstrap.plan.declared_lengths import declared_lengths
from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.plan.source_scan import scan_source
from hudisql.bootstrap.plan.table_schema import build_table_schema
from hudisql.bootstrap.plan.type_checks import check_int96_conversion, classify_types, describe_types
from hudisql.bootstrap.source.footers import FileFooter, read_footers
from hudisql.bootstrap.source.hive_source import SourceProtection
from hudisql.bootstrap.source.partition_columns import (
    check_partition_values,
    filter_partitions,
    partition_fields,
)
from hudisql.bootstrap.source.source_files import (
    BootstrapSource,
    PartitionColumn,
    SourcePartition,
    TableReadByName,
)
from hudisql.bootstrap.source.table_rows import schema_by_name, settings_that_lose_rows
from hudisql.catalog.metastore_table import NAME_SUFFIXES
from hudisql.catalog.sync_entries import check_omitted_columns, sync_options_from
from hudisql.catalog.table_location import default_table_location
from hudisql.errors import SourceProtectedError, UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.schema.sized_text import SizedText
from hudisql.table.properties.new_table import key_generator_class
from hudisql.table.properties.version_properties import begins_with_key_pairs

if TYPE_CHECKING:
    from hudisql.context import Context

# The size of a skeleton beside keys and filter: footer and partition file per file, sequence numbers per row.
_BYTES_PER_FILE: Final = 3_000
_BYTES_PER_ROW: Final = 1.6


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One source file and the approximate bytes of its file in the table.

    `has_hybrid_calendar` says that only Spark's reader can convert its dates, `has_binary_decimals` that it
    has to read them row by row.
    """

    source: ExternalFile
    rows: int
    row_groups: int
    estimated_bytes: int
    has_hybrid_calendar: bool = False
    footer_hash: str = ""
    has_binary_decimals: bool = False


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition with its files and a short description of findings."""

    source: SourcePartition
    files: tuple[PlannedFile, ...]
    blockers: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    mode: BootstrapMode = BootstrapMode.METADATA_ONLY

    @property
    def path(self) -> str:
        """The partition path in the target."""
        return self.source.path

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(file.rows for file in self.files)

    @property
    def source_bytes(self) -> int:
        """The bytes of its source files."""
        return sum(file.source.length for file in self.files)

    @property
    def estimated_bytes(self) -> int:
        """The approximate bytes of its files in the table."""
        return sum(file.estimated_bytes for file in self.files)


@dataclass(frozen=True)
class BootstrapPlan(PlanWithFindings):
    """The plan of a bootstrap. `record_key` and `precombine` are spelled as in `schema`; without key columns
    each row gets a generated key.

    `schema` has data columns, then partition columns; `protection` must be set on the source table first
    (only with `protect_source`). `file_differences` names each file that differs from the table's columns,
    and how; `unsafe_types` are the columns that stay stored in an incompatible way, with the names of their
    incompatibilities. With `read_by_name` the numbers of rows are unknown, and 0. `column_lengths` are the
    types of the columns that are declared VARCHAR(n) or CHAR(n).
    """

    request: BootstrapRequest
    target_path: str
    base_path: str
    partition_columns: tuple[PartitionColumn, ...]
    is_hive_style: bool
    is_url_encoded: bool
    schema: pa.Schema
    record_key: tuple[str, ...]
    precombine: str | None
    partitions: tuple[PlannedPartition, ...]
    findings: tuple[Finding, ...]
    protection: SourceProtection | None = None
    file_differences: tuple[tuple[str, str], ...] = ()
    unsafe_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read_by_name: TableReadByName | None = None
    column_lengths: Mapping[str, SizedText] = field(default_factory=dict)

    @property
    def skeleton_partitions(self) -> tuple[PlannedPartition, ...]:
        """The partitions whose files stay unchanged."""
        return tuple(
            partition for partition in self.partitions if partition.mode is BootstrapMode.METADATA_ONLY
        )

    @property
    def full_record_partitions(self) -> tuple[PlannedPartition, ...]:
        """The partitions that are rewritten."""
        return tuple(
            partition for partition in self.partitions if partition.mode is BootstrapMode.FULL_RECORD
        )

    @property
    def register_only_partitions(self) -> tuple[PlannedPartition, ...]:
        """The partitions without files of Hudi."""
        return tuple(
            partition for partition in self.partitions if partition.mode is BootstrapMode.REGISTER_ONLY
        )

    @property
    def uses_complex_key_encoding(self) -> bool:
        """True if keys are rendered as `a:1,b:2`."""
        generator = key_generator_class(self.record_key, self.partition_columns)
        return begins_with_key_pairs(self.request.table_version, generator, self.record_key)

    @property
    def key_check(self) -> str:
        """The check of the record keys: none for generated ones."""
        return self.request.key_check if self.record_key else "none"

    @property
    def refusal(self) -> str:
        """What the blockers stop."""
        return f"{self.request.full_name} cannot be bootstrapped"


def plan_bootstrap(
    context: Context, request: BootstrapRequest, findings: Sequence[Finding] = ()
) -> BootstrapPlan:
    """Read the source and make the plan; `findings` are those known already.

    Raises SourceError or NoSuchTableError if there is no source to plan with, InvalidArgumentError for a bad
    partition filter, MetastoreUnavailableError, StorageError. All other problems are blockers.
    """
    # A bad value must fail before the commit.
    options = sync_options_from(request.sync_options)
    check_omitted_columns(options, is_merge_on_read=request.is_merge_on_read)
    found = list(findings)
    found += _check_target_entry(context, request)
    target = target_path_of(context, request)
    found += _check_other_sources(context, request, target)
    source, protection, more = scan_source(context, request)
    found += more
    found += source.findings
    found += checks.check_target(context.storage, target, source, resumes=request.resume)
    found += check_partition_values(source.partition_columns, source.partitions)
    found += checks.check_url_encoding(source)
    found += _check_layout_options(request, source)
    content = _read_columns(context, request, source) or _read_files(context, request, source)
    found += content.findings
    schema = content.schema
    record_key = tuple(_spelled(path, schema) for path in request.record_key)
    checks.check_key_generator(request.key_generator_class, record_key, source.partition_columns)
    precombine = None if request.precombine is None else _spelled(request.precombine, schema)
    keys = [name for name in (*record_key, precombine) if name is not None]
    lengths, more = declared_lengths(source.declared_columns or (), schema, keys)
    found += more
    return BootstrapPlan(
        request,
        target,
        source.base_path,
        source.partition_columns,
        source.is_hive_style,
        source.is_url_encoded,
        schema,
        record_key,
        precombine,
        content.partitions or tuple(map(_plan_read_by_name, source.partitions)),
        tuple(found),
        protection,
        content.file_differences,
        content.unsafe_types,
        source.read_by_name,
        lengths,
    )


@dataclass(frozen=True)
class _Content:
    """What the files of a source hold, and the findings about it."""

    schema: pa.Schema
    findings: tuple[Finding, ...]
    partitions: tuple[PlannedPartition, ...] = ()
    file_differences: tuple[tuple[str, str], ...] = ()
    unsafe_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _read_columns(context: Context, request: BootstrapRequest, source: BootstrapSource) -> _Content | None:
    """The columns of a table that Spark reads by name; its rows are read by the run alone."""
    table, partition_columns = source.read_by_name, source.partition_columns
    if table is None:
        return None
    try:
        schema = schema_by_name(context.spark, table, partition_columns)
    except UnsupportedTableError as error:
        return _Content(pa.schema(partition_fields(partition_columns)), (blocker(error.message),))
    findings = [
        warning(
            f"{table.full_name} is {table.kind}: Spark reads its rows, and counts them as they are written"
        )
    ]
    findings += [
        blocker(
            f"{name} is true: rows of files that Spark cannot read would be lost", hint=f"SET {name} = false"
        )
        for name in settings_that_lose_rows(context.spark)
    ]
    findings += checks.check_column_names((), schema)
    findings += checks.check_written_files(request.skeleton_encoding, request.codec)
    findings += _check_requested_keys(request, partition_columns, schema)
    return _Content(schema, tuple(findings))


def _plan_read_by_name(partition: SourcePartition) -> PlannedPartition:
    files = tuple(PlannedFile(file, 0, 1, file.length) for file in partition.files)
    return PlannedPartition(partition, files, mode=BootstrapMode.FULL_RECORD)


def _read_files(context: Context, request: BootstrapRequest, source: BootstrapSource) -> _Content:
    """What the footers of parquet files say."""
    findings: list[Finding] = []
    files = [file for partition in source.partitions for file in partition.files]
    footers = read_footers(
        context.spark,
        context.storage,
        files,
        request.record_key,
        context.console,
        request.parallelism,
        [column.name for column in source.partition_columns],
    )
    drift = SchemaDrift(request.on_schema_drift)
    table = build_table_schema(footers, source.declared_columns, source.partition_columns, drift)
    findings += checks.check_footers(footers)
    findings += table.findings
    schema = table.schema
    by_partition = _by_partition(source.partitions, footers)
    verdict = classify_types(
        by_partition, _choose_modes(context, request, source), request.on_unsafe_type, schema
    )
    if any(footer.problem is None for footer in footers):
        file_footers = _left_as_they_are(by_partition, verdict.modes)
        findings += checks.check_file_names(file_footers)
        findings += checks.check_column_names(footers, schema)
        findings += checks.check_inside_values(
            source.partitions, by_partition, source.partition_columns, request.on_partition_mismatch
        )
        findings += verdict.findings
        findings += check_int96_conversion(context.spark, footers)
        findings += checks.check_encodings(file_footers)
        findings += checks.check_written_files(request.skeleton_encoding, request.codec)
        findings += _check_keys(request, source, footers, schema)
        findings += _check_register_only(verdict.modes)
    partitions = tuple(
        _plan_partition(request, partition, own, mode)
        for partition, own, mode in zip(source.partitions, by_partition, verdict.modes, strict=True)
    )
    return _Content(schema, tuple(findings), partitions, table.file_differences, verdict.unsafe)


def _check_keys(
    request: BootstrapRequest, source: BootstrapSource, footers: Sequence[FileFooter], schema: pa.Schema
) -> Iterator[Finding]:
    columns = source.partition_columns
    yield from _check_requested_keys(request, columns, schema)
    data_fields = list(schema)[: len(schema) - len(columns)]
    yield from checks.check_keys_in_files(request.record_key, footers, pa.schema(data_fields))
    if request.key_check != "none":
        yield from checks.check_key_statistics(request.record_key, footers)


def _check_requested_keys(
    request: BootstrapRequest, columns: Sequence[PartitionColumn], schema: pa.Schema
) -> Iterator[Finding]:
    if not request.record_key:
        yield warning(
            "no record_key is given: each row gets a generated key, so later upserts do not match any row;"
            " UPDATE, DELETE and MERGE with a condition do"
        )
    yield from checks.check_key_columns(request.record_key, request.precombine, schema, columns)


def _choose_modes(
    context: Context, request: BootstrapRequest, source: BootstrapSource
) -> list[BootstrapMode]:
    """The mode of each partition by the request."""
    choice = request.mode
    modes = choice.of_paths([partition.path for partition in source.partitions])
    for predicate, mode in (
        (choice.where, BootstrapMode.FULL_RECORD),
        (choice.register_only_where, BootstrapMode.REGISTER_ONLY),
    ):
        if predicate is None:
            continue
        values = [partition.values for partition in source.partitions]
        parameter = f"{mode.value}_where"
        taken = filter_partitions(
            context.spark, predicate, source.partition_columns, values, parameter=parameter
        )
        modes = [mode if is_taken else other for is_taken, other in zip(taken, modes, strict=True)]
    return modes


def _check_register_only(modes: Sequence[BootstrapMode]) -> Iterator[Finding]:
    """Findings on register-only partitions; a table with no others would have no commit."""
    count = modes.count(BootstrapMode.REGISTER_ONLY)
    if count and count == len(modes):
        yield blocker(
            "register_only_where takes all partitions: the table would have no commit",
            hint="leave out the partitions that are written to",
        )
    elif count:
        yield warning(
            f"{count:,} partition{' is' if count == 1 else 's are'} register-only: hudisql and Hive read"
            " their rows, and Spark with Apache Hudi gives none of them, without an error; other writers than"
            " hudisql must not write into them (docs/services/resync.md); their record keys are checked when"
            " they are lifted"
        )


def _spelled(path: str, schema: pa.Schema) -> str:
    resolved = checks.resolve_column(path, schema)
    return path if resolved is None else resolved[0]


def _check_target_entry(context: Context, request: BootstrapRequest) -> list[Finding]:
    if not request.sync:
        return []
    suffixes = NAME_SUFFIXES if request.is_merge_on_read else ("",)
    taken = [
        f"{request.full_name}{suffix}"
        for suffix in suffixes
        if context.metastore.get_table(request.database, request.name + suffix) is not None
    ]
    return [
        blocker(
            f"the metastore has a table {name} already", hint="choose another name, or drop that table first"
        )
        for name in taken
    ]


def _check_other_sources(context: Context, request: BootstrapRequest, target: str) -> list[Finding]:
    if not request.sync:
        return []  # without a sync the metastore is not involved
    try:
        refuse_touching_sources(context, [target], "the table would lie", except_of=target)
    except SourceProtectedError as error:
        return [blocker(error.message, hint="choose another target_path")]
    return []


def target_path_of(context: Context, request: BootstrapRequest) -> str:
    """The directory of the new table."""
    if request.target_path is not None:
        return context.storage.qualify(request.target_path)
    return default_table_location(
        context.storage, context.metastore, context.warehouse, request.database, request.name
    )


def _check_layout_options(request: BootstrapRequest, source: BootstrapSource) -> list[Finding]:
    """The directories determine the partition paths; an option that contradicts them is an error."""
    actual = {
        keys.HIVE_STYLE_PARTITIONING: source.is_hive_style,
        keys.URL_ENCODE_PARTITIONING: source.is_url_encoded,
    }
    return [
        blocker(f"option {name}={request.options[name]} contradicts the source's directories")
        for name, value in actual.items()
        if source.partition_columns
        and name in request.options
        and request.options[name].lower() != str(value).lower()
    ]


def _by_partition(
    partitions: Sequence[SourcePartition], footers: Sequence[FileFooter]
) -> list[list[FileFooter]]:
    remaining = iter(footers)
    return [[next(remaining) for _ in partition.files] for partition in partitions]


def _left_as_they_are(
    by_partition: Sequence[Sequence[FileFooter]], modes: Sequence[BootstrapMode]
) -> list[FileFooter]:
    """The footers of files that stay unchanged for readers of the new table."""
    return [
        footer
        for footers, mode in zip(by_partition, modes, strict=True)
        if mode is not BootstrapMode.FULL_RECORD
        for footer in footers
    ]


def _plan_partition(
    request: BootstrapRequest, partition: SourcePartition, footers: Sequence[FileFooter], mode: BootstrapMode
) -> PlannedPartition:
    files = tuple(
        _plan_file(request, file, footer, mode) for file, footer in zip(partition.files, footers, strict=True)
    )
    blockers, warnings = describe_types(footers, mode, request.on_unsafe_type)
    return PlannedPartition(
        partition, files, (*checks.describe_unreadable(footers), *blockers), warnings, mode
    )


def _plan_file(
    request: BootstrapRequest, file: ExternalFile, footer: FileFooter, mode: BootstrapMode
) -> PlannedFile:
    if footer.problem is not None:
        return PlannedFile(file, 0, 0, 0)
    if mode is BootstrapMode.REGISTER_ONLY:
        return PlannedFile(file, footer.rows, footer.row_groups, 0, footer_hash=footer.footer_hash)
    filter_bits = (request.bloom_entries or footer.rows) * -math.log(request.bloom_fpp) / math.log(2) ** 2
    # A generated key has the form of a sequence number.
    key_bytes = footer.key_bytes if request.record_key else footer.rows * _BYTES_PER_ROW
    estimate = _BYTES_PER_FILE + filter_bits / 8 * 4 / 3 + footer.rows * _BYTES_PER_ROW + key_bytes
    if mode is BootstrapMode.FULL_RECORD:
        estimate += file.length
    return PlannedFile(
        file,
        footer.rows,
        footer.row_groups,
        round(estimate),
        footer.has_hybrid_calendar,
        footer.footer_hash,
        any("binary_decimal" in column.incompatibilities for column in footer.schema.columns),
    )
