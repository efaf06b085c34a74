"""Procedures of Apache Hudi that hudisql does not have, each with the reason and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_METADATA_TABLE: Final = (
    "hudisql keeps no metadata table: readers list directories, and the first write drops one that is there",
    "CALL it in Apache Hudi, or set hoodie.metadata.enable=false for the table's other writers",
)
_NOT_YET: Final = "it is not implemented yet"
_AUDIT: Final = ("hudisql takes no part in Hudi's audit of storage locks", "CALL it in Apache Hudi")

UNSUPPORTED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "copy_to_table": ("SQL does the same", "CREATE TABLE new USING hudi AS SELECT … FROM table"),
        "copy_to_temp_view": ("SQL does the same", "CREATE TEMPORARY VIEW name AS SELECT … FROM table"),
        "hdfs_parquet_import": (
            "Hudi's own is deprecated, and copies all rows",
            "CALL bootstrap_table takes the files in place; mode => 'full_record' copies them",
        ),
        "drop_partition": ("SQL does the same", "ALTER TABLE table DROP PARTITION (column = value)"),
        "truncate_table": ("SQL does the same", "TRUNCATE TABLE table"),
        "show_fsview_all": ("a table function shows it", "SELECT * FROM hudi_filesystem_view('table')"),
        "show_fsview_latest": ("a table function shows it", "SELECT * FROM hudi_filesystem_view('table')"),
        "upgrade_table": ("hudisql reads and writes table version 6 alone", "CALL it in Apache Hudi"),
        "downgrade_table": ("hudisql reads and writes table version 6 alone", "CALL it in Apache Hudi"),
        "create_metadata_table": _METADATA_TABLE,
        "init_metadata_table": _METADATA_TABLE,
        "delete_metadata_table": _METADATA_TABLE,
        "show_metadata_table_files": _METADATA_TABLE,
        "show_metadata_table_partitions": _METADATA_TABLE,
        "show_metadata_table_stats": _METADATA_TABLE,
        "show_metadata_table_column_stats": _METADATA_TABLE,
        "show_metadata_column_stats_overlap": _METADATA_TABLE,
        "validate_metadata_table_files": _METADATA_TABLE,
        "set_audit_lock": _AUDIT,
        "show_audit_lock_status": _AUDIT,
        "validate_audit_lock": _AUDIT,
        "cleanup_audit_lock": _AUDIT,
        "partition_bucket_index_manager": (
            "hudisql knows bucket indexes of one number of buckets for all partitions",
            "CALL it in Apache Hudi",
        ),
        "run_ttl": (_NOT_YET, "ALTER TABLE table DROP PARTITION (column = value) for each old partition"),
        "sync_validate": (_NOT_YET, "CALL hive_sync makes the entry agree with the table"),
        "commits_compare": (_NOT_YET, "CALL show_commits of both tables"),
        "export_instants": (_NOT_YET, "the files of .hoodie hold them; CALL show_timeline lists them"),
        "delete_marker": (_NOT_YET, "the next commit deletes markers of completed and failed commits"),
        "show_file_status": (_NOT_YET, "SELECT * FROM hudi_filesystem_view('table')"),
        "show_logfile_metadata": (_NOT_YET, "CALL it in Apache Hudi"),
        "show_logfile_records": (_NOT_YET, "SELECT … FROM table merges log files"),
        "show_fs_path_detail": (_NOT_YET, "SELECT * FROM hudi_filesystem_view('table')"),
        "show_invalid_parquet": (_NOT_YET, "CALL verify_bootstrap checks the files of a bootstrapped table"),
        "stats_file_sizes": (_NOT_YET, "SELECT * FROM hudi_filesystem_view('table')"),
        "stats_wa": (_NOT_YET, "CALL show_commits gives the rows and bytes that each commit wrote"),
        "repair_add_partition_meta": (_NOT_YET, "CALL it in Apache Hudi"),
        "repair_migrate_partition_meta": (_NOT_YET, "CALL it in Apache Hudi"),
        "repair_corrupted_clean_files": (_NOT_YET, "CALL it in Apache Hudi"),
        "repair_deduplicate": (_NOT_YET, "CALL it in Apache Hudi"),
        "repair_overwrite_hoodie_props": (_NOT_YET, "ALTER TABLE table SET TBLPROPERTIES"),
    }
)
"""By the procedure's name: why hudisql does not have it, and what to do instead."""
