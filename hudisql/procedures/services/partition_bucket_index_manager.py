"""`partition_bucket_index_manager`, with the name, parameters and columns of Hudi's procedure.

Follows `PartitionBucketIndexManager` of Hudi 1.2, without the rescaling itself. `path` is hudisql's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.keys.bucket_rules import REGEX, BucketRules, bucket_rules
from hudisql.options.table_call import TableCall, open_table_call
from hudisql.procedures.registry import Arguments, parameter, path_parameter, procedure, table_parameter

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class PartitionBucketIndexManagerArguments(Arguments):
    """The parameters of `partition_bucket_index_manager`."""

    table: str | None = table_parameter()
    overwrite: str | None = parameter(None, help="the new rules: pattern,number;pattern,number")
    bucket_number: int = parameter(-1, help="buckets of the other partitions; -1: as many as now")
    add: str | None = parameter(None, help="rules that go before those of the table")
    dry_run: bool = parameter(True, help="only show the partitions that get another number of buckets")
    rollback: str | None = parameter(None, help="not supported: CALL rollback_to_instant")
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


@procedure("Shows the numbers of buckets by partition of a bucket index, and what other rules would change.")
def partition_bucket_index_manager(
    context: Context, arguments: PartitionBucketIndexManagerArguments
) -> Iterable[PartitionBucketIndexManagerRow]:
    """A row; `details` are the stored rules, or the partitions with their new numbers.

    Raises InvalidArgumentError, NoSuchTableError, SettingsError, UnsupportedTableError, CorruptTableError,
    StorageError.
    """
    from hudisql.write.index.partition_buckets import all_bucket_rules

    call = open_table_call(context, arguments.table, arguments.path, arguments.options)
    if arguments.show_config:
        details = ";".join(_shown(rules) for rules in all_bucket_rules(call.table))
        return [PartitionBucketIndexManagerRow("SUCCESS", "SHOW_CONFIG", details)]
    if arguments.rollback is not None:
        raise UnsupportedTableError(
            "partition_bucket_index_manager does not roll back",
            hint=f"CALL rollback_to_instant(table => '…', instant_time => '{arguments.rollback}') takes the "
            "numbers of buckets back with the rows",
        )
    if arguments.overwrite is None and arguments.add is None:
        raise InvalidArgumentError(
            "partition_bucket_index_manager needs one of show_config, overwrite and add",
        )
    if not arguments.dry_run:
        raise UnsupportedTableError(
            f"hudisql does not move the rows of {call.table.base_path} into other numbers of buckets",
            hint="CALL it in Apache Hudi 1.2; hudisql's writes then follow",
        )
    return [PartitionBucketIndexManagerRow("SUCCESS", "DRY_RUN_OVERWRITE", _changes(call, arguments))]


def _changes(call: TableCall, arguments: PartitionBucketIndexManagerArguments) -> str:
    """The partitions with another number of buckets, each with the new one, in Hudi's form."""
    from hudisql.table.partitions.listed_partitions import list_partitions

    buckets = call.write_options().index.buckets
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
        rules = bucket_rules(expressions, default, rule)
    except ValueError as error:
        raise InvalidArgumentError(f"'{expressions}' cannot be followed: {error}") from None
    paths = sorted(partition.path for partition in list_partitions(call.table))
    changed = [path for path in paths if rules.count(path) != buckets.count_of(path)]
    return ";".join(f"\n{path} => {rules.count(path)}\n" for path in changed)


def _shown(rules: BucketRules) -> str:
    return (
        f"PartitionBucketIndexHashingConfig(expressions={rules.expressions}, defaultBucketNumber="
        f"{rules.default}, rule={rules.rule}, version={rules.version}, instant={rules.instant_time})"
    )
