"""A partition that Apache Hudi 1.2 has deleted from its metadata table, and that hudisql writes to again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import FILES
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.write.metadata_table import metadata_compaction
from tests.opened import open_kept
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.indexed_table import SETTINGS
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

CLEAN = (
    "CALL run_clean(table => '{}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)"
)


@pytest.mark.parametrize(
    ("table_type", "version"),
    parameters([("cow", 9), ("mor", 9), ("cow", 6), ("mor", 6)], in_ci=[("mor", 9), ("cow", 6)]),
)
def test_hudi_lists_none_of_the_files_that_it_has_cleaned(
    session: Any,
    oracle_120: HudiOracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_type: str,
    version: int,
) -> None:
    name, path = f"oracle.deleted_partitions_{table_type}_{version}", tmp_path / "t"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} (id INT, n INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', type = '{table_type}', "
        f"'hoodie.write.table.version' = '{version}')"
    )
    settings = {**SETTINGS, **BY_METADATA, "hoodie.write.table.version": str(version)}
    with oracle_120.settings(settings):
        oracle_120.sql(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'b')")
        oracle_120.sql(f"ALTER TABLE {name} DROP PARTITION (dt = 'a')")
        # The base file of the index then names the files of the dropped partition.
        with monkeypatch.context() as patched:
            patched.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
            patched.setattr(metadata_compaction, "_MOST_LOG_FILES", 1)
            for number in (4, 5):
                session.sql(f"INSERT INTO {name} VALUES ({number}, 1, 'b')")
        (compacted,) = open_kept(str(path)).read_layers_of_keys(FILES, ["dt=a"])
        assert compacted[0].keys.to_pylist() == ["dt=a"]
        oracle_120.sql(CLEAN.format(name))
        assert not list(path.glob("dt=a/*.parquet"))
        # Each with a record on top of the deletion.
        for key in (1, 2):
            session.sql(f"INSERT INTO {name} VALUES ({key}, 2, 'a')")
        listed = oracle_120.sql(f"CALL show_metadata_table_files(table => '{name}', partition => 'dt=a')")
        stored = sorted(each.name for each in path.glob("dt=a/*.parquet"))
        assert sorted(listed["file_path"].to_pylist()) == stored
        assert not any(found.differs for found in compare_listings(open_kept(str(path))))
        oracle_120.sql(f"REFRESH TABLE {name}")
        oracle_120.sql(f"UPDATE {name} SET n = 3 WHERE id = 1")
        found = oracle_120.sql(f"SELECT id, n, dt FROM {name} ORDER BY id").to_pylist()
    rows = [(1, 3, "a"), (2, 2, "a"), (3, 1, "b"), (4, 1, "b"), (5, 1, "b")]
    assert found == [dict(zip(("id", "n", "dt"), row, strict=True)) for row in rows]
    assert session.sql(f"SELECT id, n, dt FROM {name} ORDER BY id").arrow().to_pylist() == found
    session.sql(f"DROP TABLE {name}")
