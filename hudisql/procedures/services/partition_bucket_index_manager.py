"""`partition_bucket_index_manager`, with the name, parameters and columns of Hudi's procedure.

Follows `PartitionBucketIndexManager` of Hudi 1.2. `path` is hudisql's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError, NoSuchInstantError, UnsupportedTableError
from hudisql.format.keys.bucket_rules import REGEX, BucketRules, bucket_rules
from hudisql.options.table_call import TableCall, open_table_call
from hudisql.procedures.registry import Arguments, parameter, path_parameter, procedure, table_parameter

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.write.execution.writer_config import WriteOptions


@dataclass(frozen=True, kw_only=True)
class PartitionBucketIndexManagerArguments(Arguments):
    """The parameters of `partition_bucket_index_manager`."""

    table: str | None = table_parameter()
    overwrite: str | None = parameter(None, help="the new rules: pattern,number;pattern,number")
    bucket_number: int = parameter(-1, help="buckets of the other partitions; -1: as many as now")
    add: str | None = parameter(None, help="rules that go before those of the table")
    dry_run: bool = parameter(
        True, help="only show the partitions that get another number of buckets; false: move their rows"
    )
    rollback: str | None = parameter(None, help="the commit of the last rescaling, which is rolled back")
    show_config: bool = parameter(False, help="show the rules that the table stores, and those before them")
    rule: str = parameter(REGEX, help="what the patterns are")
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    path: str | None = path_parameter()


@dataclass(frozen=True)
class PartitionBucketIndexManagerRow:
    """What was done."""

    result: str
    operation: str
    details: str


@procedure("Shows and changes the numbers of buckets by partition of a bucket index.")
def partition_bucket_index_manager(
    context: Context, arguments: PartitionBucketIndexManagerArguments
) -> Iterable[PartitionBucketIndexManagerRow]:
    """A row; `details` are the stored rules, the partitions with their new numbers, or what was done.

    The rows of these partitions move to their new buckets by one commit. Raises InvalidArgumentError,
    NoSuchTableError, NoSuchInstantError, RollbackRefusedError, SettingsError, UnsupportedTableError,
    WriteConflictError, TableLockedError, SyncFailedError, CorruptTableError, StorageError.
    """
    from hudisql.write.execution.bucket_rescaling import rescale_buckets
    from hudisql.write.index.partition_buckets import all_bucket_rules

    call = open_table_call(context, arguments.table, arguments.path, arguments.options)
    if arguments.show_config:
        details = ";".join(_shown(rules) for rules in all_bucket_rules(call.table))
        return [PartitionBucketIndexManagerRow("SUCCESS", "SHOW_CONFIG", details)]
    if arguments.rollback is not None:
        return [_roll_back(call, arguments.rollback)]
    if arguments.overwrite is None and arguments.add is None:
        raise InvalidArgumentError(
            "partition_bucket_index_manager needs one of show_config, rollback, overwrite and add",
        )
    options = call.write_options()
    rules = _new_rules(call, options, arguments)
    changed = _changed(call, options, rules)
    if arguments.dry_run:
        details = ";".join(f"\n{path} => {rules.count(path)}\n" for path in changed)
        return [PartitionBucketIndexManagerRow("SUCCESS", "DRY_RUN_OVERWRITE", details)]
    result = rescale_buckets(context.spark, call.table, rules, changed, options)
    context.console.info(
        f"{call.table.base_path}: commit {result.instant_time} has moved rows of {len(changed):,} partitions"
    )
    call.sync()
    done = f"Expression: {rules.expressions}, Bucket Number: {rules.default}, Dry Run: false"
    return [PartitionBucketIndexManagerRow("SUCCESS", "OVERWRITE", done)]


def _roll_back(call: TableCall, instant_time: str) -> PartitionBucketIndexManagerRow:
    from hudisql.services.rollback.rollback_action import roll_back_commit
    from hudisql.write.index.partition_buckets import has_bucket_rules

    if not has_bucket_rules(call.table, instant_time):
        raise NoSuchInstantError(
            f"{instant_time} has not changed the numbers of buckets of {call.table.base_path}",
            hint="show_config => true shows the instants that have",
        )
    roll_back_commit(call.table, instant_time, call.concurrency())
    call.warn_if_metadata_table_dropped()
    call.sync()
    return PartitionBucketIndexManagerRow("SUCCESS", "ROLLBACK", f"true to rollback {instant_time}")


def _new_rules(
    call: TableCall, options: WriteOptions, arguments: PartitionBucketIndexManagerArguments
) -> BucketRules:
    buckets = options.index.buckets
    if buckets is None or buckets.is_consistent:
        raise UnsupportedTableError(
            f"{call.table.base_path} has no bucket index with fixed numbers of buckets",
            hint="ALTER TABLE … SET TBLPROPERTIES (hoodie.index.type = 'BUCKET', …)",
        )
    expressions, rule = arguments.overwrite, arguments.rule
    if expressions is None:
        if buckets.rules is None:
            raise InvalidArgumentError(
                f"{call.table.base_path} has no rules to add to", hint="overwrite => '…' makes the first ones"
            )
        expressions, rule = f"{arguments.add};{buckets.rules.expressions}", buckets.rules.rule
    default = buckets.count if arguments.bucket_number == -1 else arguments.bucket_number
    try:
        return bucket_rules(expressions, default, rule)
    except ValueError as error:
        raise InvalidArgumentError(f"'{expressions}' cannot be followed: {error}") from None


def _changed(call: TableCall, options: WriteOptions, rules: BucketRules) -> list[str]:
    """The paths of the partitions that get another number of buckets, sorted."""
    from hudisql.table.partitions.listed_partitions import list_partitions

    buckets = options.index.buckets
    assert buckets is not None
    paths = sorted(partition.path for partition in list_partitions(call.table))
    return [path for path in paths if rules.count(path) != buckets.count_of(path)]


def _shown(rules: BucketRules) -> str:
    return (
        f"PartitionBucketIndexHashingConfig(expressions={rules.expressions}, defaultBucketNumber="
        f"{rules.default}, rule={rules.rule}, version={rules.version}, instant={rules.instant_time})"
    )
