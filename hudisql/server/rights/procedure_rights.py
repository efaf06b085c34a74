"""What a CALL needs: the right on the tables that its arguments name; all other procedures are for admins.

An argument that is not listed as plain names a path, runs an expression, reaches another system or gives
settings: it needs an admin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import hudisql.sql.procedure_call  # noqa: F401 (declares procedures)
from hudisql.config.config_key import split_names
from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.registry import Arguments, Procedure, field_of, find_procedure
from hudisql.server.rights.rights_file import Right, UserRights
from hudisql.server.rights.table_names import NamedTables

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.sql.text.statements import CallStatement

_READ: Final = frozenset(
    {
        *("show_commits", "show_commits_metadata", "show_commit_extra_metadata", "show_commit_files"),
        *("show_commit_partitions", "show_commit_write_stats", "show_archived_commits"),
        *("show_archived_commits_metadata", "show_bootstrap_mapping", "show_bootstrap_partitions"),
        *("show_clean_plans", "show_cleans", "show_cleans_metadata", "show_clustering", "show_compaction"),
        *("show_file_status", "show_fsview_all", "show_fsview_latest", "show_indexes", "show_ingest"),
        *("show_ingest_partitions", "show_metadata_column_stats_overlap"),
        *("show_metadata_table_column_stats", "show_metadata_table_files"),
        *("show_metadata_table_partitions", "show_metadata_table_stats", "show_rollback_detail"),
        *("show_rollbacks", "show_savepoints", "show_services", "show_table_properties", "show_timeline"),
        *("stats_file_sizes", "stats_wa", "validate_metadata_table_files", "verify_bootstrap"),
        *("verify_iceberg", "check_readers", "copy_to_table", "copy_to_temp_view"),
    }
)
_WRITTEN: Final = frozenset(
    {
        *("archive_commits", "bootstrap_table", "create_index", "create_metadata_table", "create_savepoint"),
        *("delete_marker", "drop_index", "refresh_index"),
        *("delete_metadata_table", "delete_savepoint", "downgrade_table", "drop_ingest", "drop_partition"),
        *("hive_sync", "pause_ingest", "repair_add_partition_meta", "repair_corrupted_clean_files"),
        *("resume_ingest", "resync_bootstrap", "rewrite_bootstrap_files", "rollback_bootstrap"),
        *("rollback_to_instant", "rollback_to_savepoint", "run_clean", "run_clustering", "run_compaction"),
        *("run_rollback_inflight_tableservice", "run_ttl", "sync_iceberg", "truncate_table"),
        *("upgrade_table",),
    }
)
_OF_THE_DATABASE: Final = frozenset({"migrate_table", "revert_migration"})
"""They make and rename further tables of the database."""
_OF_SEVERAL_TABLES: Final = frozenset({"delete_metadata_table"})
_PLAIN: Final = frozenset(
    {
        *("table", "limit", "start_ts", "end_ts", "startTime", "endTime", "showArchived", "desc", "sort_by"),
        *("file_ids", "partition", "partitions", "partition_path", "file", "max_instant", "include_max"),
        *("include_in_flight", "include_inflight", "exclude_compaction", "path_regex", "merge"),
        *("targetColumns", "metadata_key", "instant_time", "commit_time", "user", "comments", "dry_run"),
        *("op", "instants", "selected_partitions", "partition_regex_pattern", "order", "order_strategy"),
        *("show_involved_partition", "timestamp", "schedule_in_line", "clean_policy", "retain_commits"),
        *("hours_retained", "file_versions_retained", "trigger_strategy", "trigger_max_commits"),
        *("skip_locking", "ttl_policy", "retain_days", "min_commits", "max_commits", "enable_metadata"),
        *("to_version", "verbose", "level", "fail_on_error", "pending_instant"),
        *("delete_request_instant_file", "force", "only_unsafe", "mode", "key_check", "on_schema_drift"),
        *("on_unsafe_type", "on_partition_mismatch", "record_key", "table_type", "table_version"),
        *("precombine", "parallelism", "bloom_entries", "bloom_fpp", "skeleton_encoding"),
        *("verify", "resume", "sync", "begin_instance_time", "end_instance_time", "as_of_instant"),
        *("query_type", "save_mode", "replace", "view_name", "new_table", "source_table"),
        *("index", "indexes", "indexed_columns", "if_exists", "if_not_exists", "is_partitioned", "reader"),
        "expression",
        "format_version",
    }
)
_MARKS_OF_PATHS: Final = ("..", "\\", ":/")


def require_call(
    context: Context, rights: UserRights, tables: NamedTables, statement: CallStatement, database: str
) -> None:
    """Raise RightMissingError unless the user may make the call.

    Raises NoSuchProcedureError, InvalidArgumentError as the call does, NoSuchTableError.
    """
    procedure = find_procedure(statement.procedure)
    name = procedure.name.lower()
    arguments = bind_arguments(procedure, statement.positional, statement.named)
    if name == "help":
        return
    _refuse_arguments(rights, procedure, arguments)
    pairs = list(_tables_named(context, procedure, arguments))
    named = dict(pairs)
    if "table" not in named or name not in _READ | _WRITTEN | _OF_THE_DATABASE:
        raise rights.refuse(f"call {name}" if "table" in named else f"call {name} without a table")
    table = named["table"]
    if name in _OF_THE_DATABASE:
        rights.require(Right.WRITER, table[0])
    elif name in _WRITTEN:
        for parameter_name, written in pairs:
            if parameter_name == "table":
                tables.require_writing(written, database, exists=False)
    else:
        tables.require_reading(table, database, temporary=False)
    if "source_table" in named:
        tables.require_reading(named["source_table"], database, temporary=False)
    if "new_table" in named:
        tables.require_writing(named["new_table"], database, exists=False)


def _refuse_arguments(rights: UserRights, procedure: Procedure, arguments: Arguments) -> None:
    for name in sorted(arguments.given):
        value = getattr(arguments, field_of(name))
        if value is not None and name not in _PLAIN:
            raise rights.refuse(f"give {procedure.name} the argument {name}")
        if any(mark in text or text.startswith("/") for text in _texts_of(value) for mark in _MARKS_OF_PATHS):
            raise rights.refuse(f"give {procedure.name} a path ({name})")


def _tables_named(
    context: Context, procedure: Procedure, arguments: Arguments
) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in ("table", "source_table", "new_table"):
        value = getattr(arguments, name, None) if procedure.parameter(name) is not None else None
        is_list = name == "table" and procedure.name.lower() in _OF_SEVERAL_TABLES
        for part in split_names(value or "") if is_list else (value,):
            if part:
                yield name, context.qualify_table_name(part)


def _texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts_of([*value.keys(), *value.values()])
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts_of(item)
