"""Long matrices: which of their cases run in CI, and which in `make soak` only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

LONG = frozenset(
    {
        "catalog/test_embedded.py::test_a_killed_watcher_takes_its_server_along_and_the_next_user_starts_anew_with_all_data",
        "catalog/test_embedded.py::test_processes_that_start_at_once_share_one_server_and_a_killed_last_user_ends_it",
        "hive/test_readers.py::test_readers_read_as_the_matrix_and_check_readers_say[cow]",
        "ingest/test_broken_sources.py::test_a_topic_that_is_deleted_and_made_again_is_an_error",
        "ingest/test_two_workers.py::test_a_worker_that_was_stopped_at_any_step_does_not_repeat_what_another_one_did",
        "ingest/test_worker_group.py::test_a_worker_that_slept_longer_than_its_session_has_lost_its_tables",
        "oracle/test_bootstrap_upsert.py::test_hudi_120_with_its_defaults_loses_rows_of_skeletons_unless_column_stats_are_off",
        "oracle/test_frames.py::test_hudi_015_goes_on_with_a_table_that_a_frame_made_by_its_options",
        "oracle/test_generated_keys.py::test_hudi_015_and_hudisql_go_on_with_each_other_s_tables_without_a_key",
        "oracle/test_history.py::test_past_states_and_changes_of_a_table_of_hudis_with_clusterings",
        "oracle/test_newer_services.py::test_either_cleans_what_either_has_written",
        "oracle/test_newer_versions.py::test_hudi_12_goes_on_with_tables_that_hudisql_makes_in_version_9[query-partitioned]",
        "oracle/test_partition_values.py::test_any_text_is_a_partition_value_in_every_reader",
        "oracle/test_planned_services.py::test_changes_beside_a_planned_compaction_are_kept_when_hudi_015_runs_it",
        "oracle/test_resync.py::test_both_hudis_read_and_change_what_a_resync_took",
        "oracle/test_restore.py::test_an_interrupted_restore_of_one_is_completed_by_the_other",
        "oracle/test_streams.py::test_micro_batches_are_those_of_apache_hudi",
        "procedures/test_rewrite.py::test_int96_is_right_as_it_is_and_after_a_rewrite_of_its_file_groups",
        "spark/test_cluster.py::test_executors_without_hudisql_bootstrap_and_read",
        "sql/dataframe/test_streams.py::test_a_stream_begins_where_it_is_told",
        "sql/dataframe/test_streams.py::test_a_stream_reads_each_change_once_over_stops_and_failures",
        "sql/dml/test_generated_keys.py::test_rows_are_added_changed_moved_and_removed_under_keys_of_their_own",
        "sql/dml/test_small_statements.py::test_changes_on_the_driver_are_those_of_the_tasks",
        "sql/ingest/test_run_ingest.py::test_events_are_inserted_updated_and_deleted[mor-36500]",
        "test_startup.py::test_spark_refuses_the_same_first_words",
        "test_startup.py::test_the_metastore_starts_for_a_spark_that_runs_without_it",
        "versions/test_versions.py::test_a_table_is_bootstrapped_changed_and_compacted_on_older_pysparks",
    }
)
"""Tests, or cases of them, below `tests` that take long and rarely fail: they run in `make soak` only."""


def is_long(node_id: str) -> bool:
    """True if LONG names the test, or this case of it."""
    name = node_id.removeprefix("tests/")
    return name in LONG or name.partition("[")[0] in LONG


def parameters(values: Iterable[Any], *, in_ci: Collection[Any]) -> list[Any]:
    """Parameters for `parametrize`; values that are not `in_ci` (by `name`, where they have one) are soak."""
    listed = list(values)
    names = [getattr(value, "name", value) for value in listed]
    missing = [name for name in in_ci if name not in names]
    assert not missing, f"no such cases: {missing}"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if name in in_ci else pytest.mark.soak,
        )
        for value, name in zip(listed, names, strict=True)
    ]
