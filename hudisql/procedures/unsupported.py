"""Procedures of Apache Hudi that hudisql does not have, each with the reason and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_METADATA_TABLE: Final = (
    "hudisql makes and keeps metadata tables in one form only",
    "CALL it in Apache Hudi; CALL create_metadata_table makes one here",
)
_AUDIT: Final = ("hudisql takes no part in Hudi's audit of storage locks", "CALL it in Apache Hudi")

UNSUPPORTED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "hdfs_parquet_import": (
            "Hudi's own is deprecated, and copies all rows",
            "CALL bootstrap_table takes the files in place; mode => 'full_record' copies them, as does "
            "INSERT INTO table SELECT … FROM parquet.`/path`",
        ),
        "init_metadata_table": _METADATA_TABLE,
        "set_audit_lock": _AUDIT,
        "show_audit_lock_status": _AUDIT,
        "validate_audit_lock": _AUDIT,
        "cleanup_audit_lock": _AUDIT,
        "sync_validate": (
            "Hudi's own asks HiveServer2 to count the rows, with a password in the statement",
            "CALL commits_compare compares the commits of two tables, SELECT count(*) their rows; "
            "CALL hive_sync makes an entry agree with its table",
        ),
        "repair_migrate_partition_meta": (
            "hudisql writes the text files that every reader takes (.hoodie_partition_metadata)",
            "do not CALL it in Apache Hudi either: even its dry run sets "
            "hoodie.partition.metafile.use.base.format, and hudisql then refuses to write",
        ),
        "repair_deduplicate": (
            "Hudi's own writes repaired files into another directory, to be moved by hand",
            "INSERT OVERWRITE the partition: SELECT … FROM (SELECT *, row_number() OVER (PARTITION BY key "
            "ORDER BY _hoodie_commit_time DESC) AS n FROM table) WHERE n = 1, in one commit",
        ),
    }
)
"""For each unsupported procedure the reason, and what to do instead."""
