"""Writers of Hudi 1.2 on their defaults make no statistics of skeletons, which would lose rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE, update_table_properties
from tests.opened import open_at, open_kept
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.kept_table import FILTERS, OURS, TableWithMetadata
from tests.oracle.shapes import SHAPES, bootstrap_shape
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE_OF = {shape.name: shape for shape in SHAPES}
DEFAULTS = {"hoodie.write.table.version": "9"}
"""The oracle writes version 6 unless it is told otherwise; Hudi 1.2 on its defaults upgrades to version 9."""
IN_A_SESSION = {
    **DEFAULTS,
    "hoodie.metadata.enable": "true",
}
THEIRS = (
    "UPDATE {t} SET note = 'theirs' WHERE seq IN (5, 50)",
    "DELETE FROM {t} WHERE seq = 21",
    "MERGE INTO {t} t USING (SELECT 'k000032' AS id, 32 AS seq, 'theirs' AS note) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET seq = s.seq, note = s.note",
    "CALL run_clustering(table => '{t}', op => 'scheduleAndExecute')",
    "CALL run_clean(table => '{t}', retain_commits => 1)",
)
MORE_FILTERS = (*FILTERS, "_hoodie_record_key = 'k000014' AND fare > 1.0", "note = 'theirs' AND seq > 1")


def _table(
    session: Any, oracle: HudiOracle, tmp_path: Path, name: str, suffix: str, **arguments: Any
) -> TableWithMetadata:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE_OF[name], name=f"safe_{name}_{suffix}")
    made = bootstrap_shape(session, shape, tmp_path / "made", **arguments)
    return TableWithMetadata(
        (oracle,), session, made.path, f"oracle.{shape.name}", shape, filters=MORE_FILTERS
    )


def _by_name(table: TableWithMetadata, oracle: HudiOracle, statement: str) -> None:
    with oracle.settings(IN_A_SESSION):
        oracle.sql(f"REFRESH TABLE {table.name}")
        oracle.sql(statement.replace("{t}", table.name))


@pytest.mark.parametrize(
    "name", parameters(["partitioned", "not_partitioned", "merge_on_read"], in_ci=["partitioned"])
)
def test_an_upgrade_by_hudi_12_makes_no_statistics_of_skeletons(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, name: str
) -> None:
    """Of a table of version 6, with its first write; hudisql makes right ones, which it keeps."""
    table = _table(session, oracle_120, tmp_path, name, "upgraded")
    table.upsert(oracle_120, 30, 34, DEFAULTS)
    upgraded = open_at(table.path)
    assert upgraded.version == 9
    assert upgraded.properties.metadata_partitions == (FILES,)
    table.check()
    table.ours(OURS[0])
    assert open_kept(table.path).indexes == (FILES,)
    for option in ("true", "false"):
        with pytest.raises(OracleError, match="Config conflict"):
            table.upsert(oracle_120, 34, 36, {**DEFAULTS, COLUMN_STATS_ENABLE: option})
        if option == "true":
            table.ours("CALL create_metadata_table(table => '{t}')")
    table.upsert(oracle_120, 36, 38, DEFAULTS)
    assert COLUMN_STATS in open_kept(table.path).indexes
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["partitioned", "merge_on_read"])
def test_statements_of_hudi_12_make_no_statistics_of_skeletons(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, name: str
) -> None:
    """By the table's name, which the metastore tells Hudi; the first one upgrades the table."""
    table = _table(session, oracle_120, tmp_path, name, "by_name")
    # Hudi 1.2 has no partial updates of bootstrapped merge-on-read tables.
    statements = [text for text in THEIRS if name == "partitioned" or "MERGE" not in text]
    for statement in statements:
        _by_name(table, oracle_120, statement)
        assert open_at(table.path).properties.metadata_partitions == (FILES,)
        table.check()
    table.ours(OURS[0])
    _by_name(table, oracle_120, THEIRS[0])
    table.check()


@pytest.mark.soak
def test_version_9_without_a_metadata_table_and_one_bootstrapped_before(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """A table whose properties do not say it yet gets them by the next change of hudisql."""
    table = _table(session, oracle_120, tmp_path, "partitioned", "deleted", table_version="9")
    table.ours(OURS[1])
    session.sql(f"CALL delete_metadata_table(table => '{table.name}')")
    table.upsert(oracle_120, 30, 34, DEFAULTS)
    table.check()

    opened = open_at(table.path)
    update_table_properties(opened.storage, table.path, {COLUMN_STATS_ENABLE: None})
    table.upsert(oracle_120, 34, 36, DEFAULTS)
    assert table.lost(oracle_120) > 3
    table.ours(OURS[0])
    assert open_at(table.path).properties.metadata_partitions == (FILES,)
    table.check()
    table.upsert(oracle_120, 36, 38, DEFAULTS)
    table.check()


@pytest.mark.soak
def test_a_table_that_was_bootstrapped_before_is_safe_after_a_change(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    """It has neither a metadata table nor the property."""
    table = _table(session, oracle_120, tmp_path, "partitioned", "before")
    opened = open_at(table.path)
    update_table_properties(opened.storage, table.path, {COLUMN_STATS_ENABLE: None})
    session.sql(OURS[0].replace("{t}", table.name))
    table.upsert(oracle_120, 34, 36, DEFAULTS)
    assert open_at(table.path).properties.metadata_partitions == (FILES,)
    table.check()
