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


# Each does what another script does, on the other type of table, with another type of column or clause, or
# what tests without Apache Hudi compare with plain Spark.
IN_SOAK = (
    "alter_add_columns_mor",
    "alter_add_columns_then_write",
    "alter_drop_partition",
    "conditions_functions_and_case",
    "conditions_three_valued_logic",
    "ctas_from_hudi_table",
    "delete_by_condition_cow",
    "delete_mor_then_insert_again",
    "delete_one_row_of_a_key",
    "delete_with_subqueries",
    "frame_overwrites",
    "frame_upsert_deletes_by_flag",
    "frame_upsert_mor_late_rows",
    "generated_keys",
    "generated_keys_mor",
    "insert_bulk_insert_operation",
    "insert_column_list",
    "insert_default_with_ordering_column",
    "insert_dup_policy",
    "insert_goes_by_name_into_partitions",
    "insert_insert_operation",
    "insert_modes",
    "insert_text_as_number_refused",
    "insert_write_operation",
    "is_deleted_by_sql_upsert",
    "keys_composite",
    "keys_composite_partitioned",
    "keys_double",
    "keys_empty_text_refused",
    "keys_null_part_of_composite",
    "keys_null_refused",
    "keys_timestamp",
    "merge_cast_in_condition",
    "merge_casts_stored_values",
    "merge_condition_not_on_key",
    "merge_condition_range",
    "merge_delete_only",
    "merge_duplicate_keys_in_target",
    "merge_empty_source",
    "merge_from_another_hudi_table",
    "merge_insert_only",
    "merge_inserts_stored_key",
    "merge_into_two_column_partitions",
    "merge_lower_ordering_value",
    "merge_nested_columns",
    "merge_nested_field",
    "merge_null_keys_in_source",
    "merge_on_false",
    "merge_one_row_of_a_key",
    "merge_partition_moved",
    "merge_partition_moved_mor",
    "merge_source_key_by_another_name",
    "merge_source_reads_target",
    "merge_without_ordering_column",
    "overwrite_mor",
    "overwrite_named_partition",
    "overwrite_partitioned_static",
    "overwrite_with_own_rows",
    "partitions_not_hive_style",
    "partitions_row_moves",
    "partitions_two_columns",
    "partitions_typed_date",
    "partitions_typed_int",
    "payload_default_keeps_newer_cow",
    "payload_default_keeps_newer_mor",
    "queries_joins_and_windows",
    "truncate_table",
    "types_dates_as_ordering",
    "types_decimals_small",
    "types_timestamps_as_ordering",
    "update_by_condition_cow",
    "update_mor_with_lower_ordering_value",
    "update_nested_field",
    "update_rows_of_one_key",
    "update_swaps_columns",
    "update_with_scalar_subquery_value",
    "update_with_subquery",
    "upsert_rows_of_one_key_cow",
    "upsert_rows_of_one_key_mor",
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
