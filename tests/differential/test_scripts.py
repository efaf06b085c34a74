"""Every script of `scripts/`: hudisql leaves its oracle's rows, but where the script says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.difference import find_differences
from tests.differential.engines import Hudisql, Outcome, run_script
from tests.differential.script import DifferentialScript, read_scripts
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


# Each does what another script does, on the other type of table or with another type of column, or what
# tests without Apache Hudi compare with plain Spark.
IN_SOAK = (
    "conditions_functions_and_case",
    "ctas_from_hudi_table",
    "delete_by_condition_cow",
    "delete_with_subqueries",
    "generated_keys",
    "insert_text_as_number_refused",
    "is_deleted_by_sql_upsert",
    "keys_composite",
    "keys_composite_partitioned",
    "keys_double",
    "keys_empty_text_refused",
    "keys_null_refused",
    "keys_timestamp",
    "merge_condition_range",
    "merge_delete_only",
    "merge_empty_source",
    "merge_from_another_hudi_table",
    "merge_insert_only",
    "merge_nested_field",
    "merge_on_false",
    "merge_partition_moved",
    "overwrite_mor",
    "partitions_two_columns",
    "partitions_typed_int",
    "payload_default_keeps_newer_cow",
    "queries_joins_and_windows",
    "truncate_table",
    "types_dates_as_ordering",
    "types_decimals_small",
    "update_by_condition_cow",
    "update_nested_field",
    "update_swaps_columns",
    "update_with_subquery",
    "upsert_rows_of_one_key_cow",
)
SCRIPTS = read_scripts()
IN_CI = [script.name for script in SCRIPTS if script.name not in IN_SOAK]


@pytest.mark.parametrize("script", parameters(SCRIPTS, in_ci=IN_CI), ids=lambda script: script.name)
def test_hudisql_does_as_the_oracle(
    script: DifferentialScript,
    hudisql_engine: Hudisql,
    hudisql_directory: Path,
    oracle_outcome: Callable[[DifferentialScript], Outcome | None],
) -> None:
    ours = run_script(hudisql_engine, script, hudisql_directory)
    theirs = oracle_outcome(script)
    assert not (differences := find_differences(script, ours, theirs)), "\n".join(differences)
