"""The registry and the help that is made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import hudisql
from hudisql.errors import NoSuchProcedureError
from hudisql.procedures.help import explain_procedure, list_procedures
from hudisql.procedures.registry import (
    PARAMETER_TYPES,
    Arguments,
    Procedure,
    find_procedure,
    load_procedures,
    parameter,
)
from hudisql.procedures.unsupported import UNSUPPORTED
from hudisql.sql import procedure_call  # noqa: F401 (declares the procedures of `sql`)
from hudisql.sql.dml import rewrite_bootstrap_files


@dataclass(frozen=True, kw_only=True)
class DoArguments(Arguments):
    table: str = parameter(help="which one")
    limit: int = parameter(10)
    mode: str = parameter("fast")
    dry_run: bool = parameter(False)
    keys: tuple[str, ...] = parameter(("a", "b"))
    options: Mapping[str, str] | None = parameter(None)
    note: str | None = parameter(None)


@dataclass(frozen=True)
class DoRow:
    rows: int


def test_procedures_of_all_modules_are_found_in_any_case() -> None:
    procedures = load_procedures()
    assert procedures["rewrite_bootstrap_files"].run is rewrite_bootstrap_files.rewrite_bootstrap_files
    assert find_procedure("Show_Commits") is find_procedure("system.show_commits")
    package = Path(hudisql.__file__).parent
    declaring = {
        ".".join(("hudisql", *path.relative_to(package).with_suffix("").parts))
        for path in package.rglob("*.py")
        if "\n@procedure(" in path.read_text()
    }
    assert {declared.run.__module__ for declared in procedures.values()} == declaring
    # Procedures that need a statement's scope stand beside the statements.
    assert {name for name in declaring if not name.startswith("hudisql.procedures.")} == {
        "hudisql.sql.dataframe.copy_procedures",
        "hudisql.sql.ddl.partition_procedures",
        "hudisql.sql.dml.resync_bootstrap",
        "hudisql.sql.dml.rewrite_bootstrap_files",
    }


HUDIS_PROCEDURES = [
    "run_bootstrap",
    "show_bootstrap_mapping",
    "show_bootstrap_partitions",
    "hdfs_parquet_import",
    "hive_sync",
    "sync_validate",
    "copy_to_table",
    "copy_to_temp_view",
    "upgrade_table",
    "downgrade_table",
    "run_compaction",
    "show_compaction",
    "run_clustering",
    "show_clustering",
    "run_clean",
    "show_cleans",
    "show_cleans_metadata",
    "show_clean_plans",
    "archive_commits",
    "run_ttl",
    "run_rollback_inflight_tableservice",
    "partition_bucket_index_manager",
    "show_timeline",
    "show_commits",
    "show_commits_metadata",
    "show_archived_commits",
    "show_archived_commits_metadata",
    "show_commit_files",
    "show_commit_partitions",
    "show_commit_write_stats",
    "show_commit_extra_metadata",
    "commits_compare",
    "export_instants",
    "rollback_to_instant",
    "show_rollbacks",
    "show_rollback_detail",
    "delete_marker",
    "create_savepoint",
    "delete_savepoint",
    "rollback_to_savepoint",
    "show_savepoints",
    "create_metadata_table",
    "init_metadata_table",
    "delete_metadata_table",
    "sync_iceberg",
    "verify_iceberg",
    "show_metadata_table_files",
    "show_metadata_table_partitions",
    "show_metadata_table_stats",
    "show_metadata_table_column_stats",
    "show_metadata_column_stats_overlap",
    "validate_metadata_table_files",
    "show_fsview_all",
    "show_fsview_latest",
    "show_file_status",
    "show_logfile_metadata",
    "show_logfile_records",
    "show_fs_path_detail",
    "show_invalid_parquet",
    "stats_file_sizes",
    "stats_wa",
    "repair_add_partition_meta",
    "repair_migrate_partition_meta",
    "repair_corrupted_clean_files",
    "repair_deduplicate",
    "repair_overwrite_hoodie_props",
    "drop_partition",
    "truncate_table",
    "show_table_properties",
    "set_audit_lock",
    "show_audit_lock_status",
    "validate_audit_lock",
    "cleanup_audit_lock",
    "help",
]
"""All procedures of Hudi 0.15 and 1.2."""


def test_every_procedure_of_hudi_is_there_or_refused_by_name() -> None:
    procedures = load_procedures()
    assert [name for name in HUDIS_PROCEDURES if (name in procedures) == (name in UNSUPPORTED)] == []
    assert set(UNSUPPORTED) <= set(HUDIS_PROCEDURES)
    for name, (reason, alternative) in UNSUPPORTED.items():
        with pytest.raises(NoSuchProcedureError, match=f"does not have Hudi's procedure {name}: ") as caught:
            find_procedure(f"system.{name}")
        assert reason in caught.value.message
        assert caught.value.hint == alternative


@pytest.mark.parametrize("prefix", ["", "system.", "SYSTEM.", "spark_catalog.system.", "a.b.c."])
def test_a_prefix_of_a_procedures_name_is_ignored_as_in_hudi(prefix: str) -> None:
    assert find_procedure(f"{prefix}show_commits").name == "show_commits"


def test_an_unknown_procedure_brings_the_nearest_names() -> None:
    with pytest.raises(NoSuchProcedureError) as caught:
        find_procedure("bootstrap_tabel")
    assert "bootstrap_table" in (caught.value.hint or "")
    with pytest.raises(NoSuchProcedureError) as caught:
        find_procedure("zzz")
    assert caught.value.hint == "CALL help() lists all procedures"


def test_every_declaration_is_whole() -> None:
    for declared in load_procedures().values():
        assert declared.summary.endswith("."), declared.name
        assert declared.output, declared.name
        names = [each.name.lower() for each in declared.parameters]
        assert len(set(names)) == len(names), declared.name
        for each in declared.parameters:
            assert each.type in PARAMETER_TYPES
            assert re.fullmatch(r"\w+", each.name)


def test_the_list_has_a_line_for_each_procedure() -> None:
    text = list_procedures()
    for declared in load_procedures().values():
        assert re.search(rf"^{declared.name}\s+{re.escape(declared.summary)}$", text, re.MULTILINE)


def test_an_explanation_shows_types_defaults_help_and_output() -> None:
    declared = Procedure("do_it", "Does it.", DoArguments, DoRow, lambda _context, _arguments: [])
    assert explain_procedure(declared) == (
        "do_it: Does it.\n"
        "\n"
        "parameters:\n"
        "  table    string, required\n"
        "             which one\n"
        "  limit    int, default 10\n"
        "  mode     string, default 'fast'\n"
        "  dry_run  boolean, default false\n"
        "  keys     array<string>, default array('a', 'b')\n"
        "  options  map, optional\n"
        "  note     string, optional\n"
        "\n"
        "output:\n"
        "  rows: bigint\n"
        "\n"
        "CALL do_it(table => …)"
    )
