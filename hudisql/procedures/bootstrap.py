"""`CALL bootstrap_table` and Hudi's own `run_bootstrap`: declarations, and the mapping to one request.

Names and output of `run_bootstrap` are Hudi's (`RunBootstrapProcedure`); what it asks for beyond a
metadata-only bootstrap of parquet is refused by name. The work itself is in `hudisql.bootstrap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.plan.bootstrap_mode import (
    METADATA_ONLY_SELECTOR,
    REGEX_MODE_OPTION,
    REGEX_OPTION,
    REGEX_SELECTOR,
    SELECTOR_OPTION,
    BootstrapMode,
    PartitionMismatchPolicy,
    UnsafeTypePolicy,
    choose_mode,
    parse_partition_mismatch_policy,
    parse_unsafe_type_policy,
)
from hudisql.bootstrap.plan.request import (
    BootstrapRequest,
    apply_options,
    parse_table_type,
)
from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.source.partition_columns import parse_partition_by
from hudisql.errors import InvalidArgumentError, TableExistsError, UnsupportedTableError
from hudisql.format.table_properties import HFILE_BOOTSTRAP_INDEX, parse_properties
from hudisql.procedures.registry import (
    FAIL_ON_ERROR,
    Arguments,
    CheckedRows,
    Column,
    Parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
    from hudisql.bootstrap.run.run_bootstrap import BootstrapResult
    from hudisql.bootstrap.run.time_estimate import TimeEstimate
    from hudisql.context import Context

TOTAL: Final = "TOTAL"
WHOLE_TABLE: Final = "(table)"
_HUDI: Final = "org.apache.hudi"
_SIMPLE_KEY_GENERATOR: Final = f"{_HUDI}.keygen.SimpleKeyGenerator"
_KEY_GENERATORS: Final = ("SimpleKeyGenerator", "ComplexKeyGenerator", "NonpartitionedKeyGenerator")
_FULL_INPUT_PROVIDER: Final = f"{_HUDI}.bootstrap.SparkParquetBootstrapDataProvider"
_PAYLOAD: Final = f"{_HUDI}.common.model.OverwriteWithLatestAvroPayload"
_OUTPUT: Final = (
    Column("partition", "string"),
    Column("mode", "string"),
    Column("files", "bigint"),
    Column("rows", "bigint"),
    Column("source_bytes", "bigint"),
    Column("written_bytes", "bigint"),
    Column("seconds", "double"),
    Column("warnings", "string"),
    Column("blockers", "string"),
)


@procedure(
    name="bootstrap_table",
    summary="Makes a Hudi table of a parquet directory or Hive table without rewriting it.",
    parameters=(
        Parameter("table", "string", help="the table to be, database.name; the database is made if absent"),
        Parameter("source", "string", None, "directory of the parquet files"),
        Parameter("source_table", "string", None, "Hive table of the metastore, instead of source"),
        Parameter(
            "record_key",
            "array<string>",
            None,
            "key columns, 'id' or 'a,b' or array('a', 'b.c'); default: each row gets a generated key",
        ),
        Parameter("target_path", "string", None, "where the table lies; default: the database's directory"),
        Parameter("table_type", "string", "COPY_ON_WRITE", "COPY_ON_WRITE or MERGE_ON_READ"),
        Parameter("precombine", "string", None, "ordering column: of two rows of a key the greater stays"),
        Parameter(
            "partition_by",
            "string",
            None,
            "partition columns of a path source, 'dt', 'dt date', 'year int, month int'; default: read from"
            " key=value directories, as strings; names the directories of layouts like 2024/03/01",
        ),
        Parameter(
            "mode",
            "string",
            BootstrapMode.METADATA_ONLY.value,
            "metadata_only (skeletons beside the source's files) or full_record (all rows rewritten)",
        ),
        Parameter(
            "full_record_where",
            "string",
            None,
            "SQL predicate over the partition columns: these are rewritten, the others get skeletons",
        ),
        Parameter(
            "on_unsafe_type",
            "string",
            UnsafeTypePolicy.FAIL.value,
            "columns stored so that Apache Hudi or Hive breaks on them: fail, warn, or full_record (their"
            " partitions are rewritten)",
        ),
        Parameter(
            "on_partition_mismatch",
            "string",
            PartitionMismatchPolicy.FAIL.value,
            "files that hold a partition column themselves, with another value than the directory's: fail,"
            " or warn (the directory's value counts)",
        ),
        Parameter("partition_filter", "string", None, "SQL predicate over the partition columns: only these"),
        Parameter(
            "key_check",
            "string",
            "unique",
            "what stops the run before the commit: unique (keys twice in a partition, null or empty),"
            " unique_global (twice in the table, null or empty), nulls (null or empty), none",
        ),
        Parameter(
            "on_schema_drift",
            "string",
            "fail",
            "files whose columns differ: fail, widen (null where a column is missing, the widest of int and"
            " bigint, float and double, decimals of one scale), report (only names each file that differs)",
        ),
        Parameter(
            "protect_source",
            "boolean",
            False,
            "make a managed source table external first, so DROP keeps files",
        ),
        Parameter("parallelism", "int", None, "number of Spark tasks; default: by the number of cores"),
        Parameter("bloom_entries", "int", None, "keys a file's bloom filter is made for; default: its rows"),
        Parameter("bloom_fpp", "double", 1e-3, "false positives of the bloom filters"),
        Parameter("compression", "string", "gzip", "gzip (every reader) or compact (zstd; not for Hive 2.3)"),
        Parameter("verify", "boolean", True, "compare counts and a sample with the source after the commit"),
        Parameter(
            "resume",
            "boolean",
            False,
            "go on where a run that was killed or failed has stopped; if this one fails, keep what is done",
        ),
        Parameter(
            "dry_run",
            "boolean",
            False,
            "only show the plan; written_bytes and the total's seconds are then estimates",
        ),
        replace(FAIL_ON_ERROR, help=f"a dry run with blockers: {FAIL_ON_ERROR.help}"),
        Parameter("sync", "boolean", True, "register the table in the metastore"),
        Parameter("options", "map", None, "hoodie.* settings, map('key', 'value') or 'key=value,key=value'"),
    ),
    output=_OUTPUT,
)
def bootstrap_table(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per partition and a total; a dry run adds a row for each finding about the whole table.

    One row says so if the very table stands already. Raises BootstrapBlockedError with every blocker, which
    a dry run gives as the error of its rows; TableExistsError if another table is there,
    VerificationFailedError.
    """
    from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap
    from hudisql.bootstrap.run.already_bootstrapped import finalize_bootstrap
    from hudisql.bootstrap.run.time_estimate import estimate_time

    database, name = context.qualify_table_name(arguments.table)
    request = BootstrapRequest(
        database=database,
        name=name,
        record_key=_record_key(arguments),
        source_path=arguments.source,
        source_table=None
        if arguments.source_table is None
        else context.qualify_table_name(arguments.source_table),
        target_path=arguments.target_path,
        table_type=parse_table_type(arguments.table_type),
        precombine=arguments.precombine,
        partition_by=None if arguments.partition_by is None else parse_partition_by(arguments.partition_by),
        partition_filter=arguments.partition_filter,
        mode=choose_mode(arguments.mode, arguments.full_record_where),
        on_unsafe_type=parse_unsafe_type_policy(arguments.on_unsafe_type),
        on_partition_mismatch=parse_partition_mismatch_policy(arguments.on_partition_mismatch),
        key_check=arguments.key_check.strip().lower(),
        on_schema_drift=arguments.on_schema_drift.strip().lower(),
        protect_source=arguments.protect_source,
        parallelism=arguments.parallelism,
        bloom_entries=arguments.bloom_entries,
        bloom_fpp=arguments.bloom_fpp,
        compression=arguments.compression.strip().lower(),
        sync=arguments.sync,
        resume=arguments.resume,
        options=arguments.options or {},
    )
    given = frozenset(name for name in arguments.as_dict() if arguments.is_given(name))
    request, findings = apply_options(request, given)
    finished = _describe_finished(context, request, is_dry_run=arguments.dry_run)
    if finished is not None:
        if request.resume and not arguments.dry_run:
            finished = finalize_bootstrap(context, request)
        return [(WHOLE_TABLE, None, None, None, None, None, None, finished, None)]
    plan = plan_bootstrap(context, request, findings)
    if arguments.dry_run:
        return _checked_plan(plan, estimate_time(context, plan), fails=arguments.fail_on_error)
    if request.on_schema_drift == SchemaDrift.REPORT:
        return _checked_plan(plan, None, fails=arguments.fail_on_error)
    result = _run(context, plan)
    notices = _verify(context, plan) if arguments.verify else ()
    return list(_result_rows(plan, result, notices))


def _record_key(arguments: Arguments) -> tuple[str, ...]:
    """The columns of the record key; none if keys are generated. Raises InvalidArgumentError for ''."""
    if arguments.record_key is None:
        return ()
    if not arguments.record_key:
        raise InvalidArgumentError("record_key names no column", hint="such as 'id' or 'customer,order_id'")
    return tuple(arguments.record_key)


def _describe_finished(
    context: Context, request: BootstrapRequest, *, is_dry_run: bool = False
) -> str | None:
    from hudisql.bootstrap.run.already_bootstrapped import describe_existing_bootstrap

    try:
        finished = describe_existing_bootstrap(context, request)
    except (TableExistsError, UnsupportedTableError):
        if is_dry_run:
            return None  # the plan has it among its blockers
        raise
    if finished is not None:
        context.console.info(finished)
    return finished


def _verify(context: Context, plan: BootstrapPlan) -> tuple[str, ...]:
    """What a look at counts and a sample gives to know. Raises VerificationFailedError if they differ."""
    from hudisql.bootstrap.verify.verify_bootstrap import VerifyLevel, verify_bootstrap
    from hudisql.table.hudi_table import open_table

    table = open_table(context.storage, plan.target_path)
    verified = verify_bootstrap(context, table, VerifyLevel.SAMPLE, check_new_source_directories=False)
    verified.raise_if_bad(plan.request.full_name)
    context.console.info(f"Verified: {verified.describe()}")
    return tuple(f"{each.kind}: {each.path} ({each.detail})" for each in verified.discrepancies)


def _run(context: Context, plan: BootstrapPlan) -> BootstrapResult:
    from hudisql.bootstrap.run.run_bootstrap import run_bootstrap

    return run_bootstrap(context, plan)


def _checked_plan(plan: BootstrapPlan, estimate: TimeEstimate | None, *, fails: bool) -> CheckedRows:
    rows = list(_plan_rows(plan, estimate))
    if not plan.blockers or not fails:
        return CheckedRows(rows, None)
    hint = "nothing was written; fail_on_error => false gives the plan alone"
    return CheckedRows(rows, plan.describe_blockers(hint))


def _plan_rows(plan: BootstrapPlan, estimate: TimeEstimate | None) -> Iterator[Sequence[object]]:
    for partition in plan.partitions:
        yield (
            partition.path,
            partition.mode.value,
            len(partition.files),
            partition.rows,
            partition.source_bytes,
            partition.estimated_bytes,
            None,
            _joined(partition.warnings),
            _joined(partition.blockers),
        )
    yield (
        TOTAL,
        _mode_of_all(plan),
        sum(len(partition.files) for partition in plan.partitions),
        sum(partition.rows for partition in plan.partitions),
        sum(partition.source_bytes for partition in plan.partitions),
        sum(partition.estimated_bytes for partition in plan.partitions),
        None if estimate is None else round(estimate.seconds, 3),
        None if estimate is None else str(estimate),
        None,
    )
    for finding in (*plan.blockers, *plan.warnings):
        texts = (None, str(finding)) if finding.is_blocker else (str(finding), None)
        yield (WHOLE_TABLE, None, None, None, None, None, None, *texts)
    for path, difference in plan.file_differences:
        yield (WHOLE_TABLE, None, 1, None, None, None, None, f"{path}: {difference}", None)


def _result_rows(
    plan: BootstrapPlan, result: BootstrapResult, notices: Sequence[str]
) -> Iterator[Sequence[object]]:
    for partition, planned in zip(result.partitions, plan.partitions, strict=True):
        yield (
            partition.path,
            partition.mode.value,
            partition.files,
            partition.rows,
            partition.source_bytes,
            partition.written_bytes,
            round(partition.seconds, 3),
            _joined(planned.warnings),
            None,
        )
    yield (
        TOTAL,
        _mode_of_all(plan),
        sum(partition.files for partition in result.partitions),
        sum(partition.rows for partition in result.partitions),
        sum(partition.source_bytes for partition in result.partitions),
        result.written_bytes,
        round(result.seconds, 3),
        _joined(
            [
                *(str(finding) for finding in plan.warnings),
                *_resumed(result),
                *notices,
                *_advice_on_writers(plan),
            ]
        ),
        None,
    )


def _advice_on_writers(plan: BootstrapPlan) -> Iterator[str]:
    """What a writer of Hudi 1.x must be told; see tests/oracle/test_bootstrap_upsert.py."""
    if plan.partition_columns and plan.skeleton_partitions:
        yield (
            "Hudi 1.x writers must set hoodie.metadata.index.column.stats.enable=false, or filtered reads of"
            " Hudi 1.x lose rows of partitions that have skeletons (docs/readers.md)"
        )


def _mode_of_all(plan: BootstrapPlan) -> str:
    """The mode that all partitions have, else `mixed`."""
    modes = {partition.mode.value for partition in plan.partitions} or {plan.request.mode.mode.value}
    return "mixed" if len(modes) > 1 else modes.pop()


def _resumed(result: BootstrapResult) -> Iterator[str]:
    if result.resumed_files:
        yield f"{result.resumed_files:,} of the files were finished by an earlier run"


def _joined(texts: Sequence[str]) -> str | None:
    return "\n".join(texts) or None


@procedure(
    name="run_bootstrap",
    summary="Hudi's own call of a bootstrap; bootstrap_table tells and checks more.",
    parameters=(
        Parameter("table", "string", help="the table to be"),
        Parameter("table_type", "string", help="COPY_ON_WRITE or MERGE_ON_READ"),
        Parameter("bootstrap_path", "string", help="directory of the parquet files"),
        Parameter("base_path", "string", help="where the table lies"),
        Parameter("rowKey_field", "string", help="record key columns, separated by commas"),
        Parameter("base_file_format", "string", "PARQUET", "PARQUET"),
        Parameter("partition_path_field", "string", "", "partition columns, separated by commas"),
        Parameter("bootstrap_index_class", "string", HFILE_BOOTSTRAP_INDEX, "Hudi's HFile index"),
        Parameter(
            "selector_class",
            "string",
            METADATA_ONLY_SELECTOR,
            "Hudi's metadata-only, full-record or regex selector; the latter takes the options"
            " hoodie.bootstrap.mode.selector.regex and .regex.mode",
        ),
        Parameter(
            "key_generator_class", "string", _SIMPLE_KEY_GENERATOR, "simple, complex or nonpartitioned"
        ),
        Parameter("full_bootstrap_input_provider", "string", _FULL_INPUT_PROVIDER, "not used"),
        Parameter("schema_provider_class", "string", "", "not taken: the files give the schema"),
        Parameter("payload_class", "string", _PAYLOAD, "record payload of a MERGE_ON_READ table"),
        Parameter("parallelism", "int", 1500, "most Spark tasks"),
        Parameter("enable_hive_sync", "boolean", False, "register the table in the metastore"),
        Parameter("props_file_path", "string", "", "properties file with more hoodie.* settings"),
        Parameter("bootstrap_overwrite", "boolean", False, "not taken: hudisql deletes no table on the way"),
        Parameter("options", "map", None, "hoodie.* settings, 'key=value,key=value'"),
    ),
    output=(Column("status", "int"),),
)
def run_bootstrap_as_hudi(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """One row with status 0. Raises InvalidArgumentError for what only Apache Hudi does."""
    from hudisql.bootstrap.plan.bootstrap_plan import plan_bootstrap

    _refuse_what_only_hudi_does(arguments)
    database, name = context.qualify_table_name(arguments.table)
    fields = arguments.partition_path_field.strip()
    options = _options_of_file(context, arguments.props_file_path) | dict(arguments.options or {})
    payload = arguments.payload_class
    if payload != _PAYLOAD:
        options.setdefault("hoodie.datasource.write.payload.class", payload)
    if arguments.is_given("selector_class") or SELECTOR_OPTION not in options:
        options[SELECTOR_OPTION] = arguments.selector_class
    if options[SELECTOR_OPTION] != REGEX_SELECTOR:
        # Hudi's other selectors do not look at these.
        options = {
            name: value for name, value in options.items() if name not in (REGEX_OPTION, REGEX_MODE_OPTION)
        }
    request = BootstrapRequest(
        database=database,
        name=name,
        record_key=tuple(field.strip() for field in arguments.rowKey_field.split(",")),
        source_path=arguments.bootstrap_path,
        target_path=arguments.base_path,
        table_type=parse_table_type(arguments.table_type),
        partition_by=parse_partition_by(fields) if fields else None,
        parallelism=arguments.parallelism if arguments.is_given("parallelism") else None,
        # Apache Hudi takes repeated keys and unsafe types, and refuses null keys.
        key_check="nulls",
        on_unsafe_type=UnsafeTypePolicy.WARN,
        sync=arguments.enable_hive_sync,
        options=options,
    )
    request, findings = apply_options(request, frozenset({"table_type"}))
    if _describe_finished(context, request) is not None:
        return [(0,)]
    plan = plan_bootstrap(context, request, findings)
    for warning in plan.warnings:
        context.console.warning(str(warning))
    _check_key_generator(arguments, plan)
    _run(context, plan)
    return [(0,)]


def _refuse_what_only_hudi_does(arguments: Arguments) -> None:
    allowed: Mapping[str, tuple[str, ...]] = {
        "base_file_format": ("PARQUET",),
        "bootstrap_index_class": (
            HFILE_BOOTSTRAP_INDEX,
            f"{_HUDI}.common.bootstrap.index.HFileBootstrapIndex",
        ),
        "schema_provider_class": ("",),
    }
    for name, values in allowed.items():
        value = getattr(arguments, name)
        if value.upper() not in [each.upper() for each in values]:
            hint = f"it can be {values[0]}" if values[0] else "leave it out: the files give the schema"
            raise InvalidArgumentError(f"run_bootstrap: {name} '{value}' is not supported", hint=hint)
    if arguments.bootstrap_overwrite:
        raise InvalidArgumentError(
            "run_bootstrap: bootstrap_overwrite => true would delete the directory at base_path",
            hint="drop the table and remove its directory yourself, then call again",
        )


def _check_key_generator(arguments: Arguments, plan: BootstrapPlan) -> None:
    """Raise if a key generator was asked for that makes other keys or paths than the table needs."""
    from hudisql.table.new_table import key_generator_class

    if not arguments.is_given("key_generator_class"):
        return
    asked = arguments.key_generator_class.rsplit(".", 1)[-1]
    fitting = key_generator_class(plan.record_key, plan.partition_columns)
    # The complex generator makes the simple one's keys and paths of one key and one partition column.
    plain = fitting.rsplit(".", 1)[-1]
    if asked == plain or (plain == "SimpleKeyGenerator" and asked in _KEY_GENERATORS[:2]):
        return
    raise InvalidArgumentError(
        f"run_bootstrap: key_generator_class '{arguments.key_generator_class}' does not fit a table with the"
        f" record key {', '.join(plan.record_key)} and {len(plan.partition_columns)} partition columns",
        hint=f"it needs {fitting}",
    )


def _options_of_file(context: Context, path: str) -> dict[str, str]:
    if not path:
        return {}
    return parse_properties(context.storage.read(context.storage.qualify(path)))
