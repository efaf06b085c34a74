"""The registry and the help that is made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

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


def test_procedures_of_all_families_are_found_in_any_case() -> None:
    procedures = load_procedures()
    assert procedures["rewrite_bootstrap_files"].run is rewrite_bootstrap_files.rewrite_bootstrap_files
    assert {each.family for each in procedures.values()} == {
        "bootstrap",
        "run_bootstrap",
        "verify",
        "rollback",
        "show",
        "sync",
        "help",
        "rewrite_bootstrap_files",
        "archive",
        "clean",
        "clustering",
        "compaction",
        "instant_rollback",
        "savepoint",
        "show_archived",
    }
    assert find_procedure("SYSTEM.Bootstrap_Table") is procedures["bootstrap_table"]
    expected = {
        "bootstrap_table",
        "run_bootstrap",
        "verify_bootstrap",
        "rollback_bootstrap",
        "rewrite_bootstrap_files",
        "hive_sync",
        "show_bootstrap_mapping",
        "show_bootstrap_partitions",
        "show_table_properties",
        "show_commits",
        "show_timeline",
        "help",
    }
    assert expected <= set(procedures)


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
    declared = Procedure("do_it", "Does it.", DoArguments, DoRow, lambda _context, _arguments: [], "test")
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
