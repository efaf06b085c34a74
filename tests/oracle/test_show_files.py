"""The procedures that show files, log files and sizes give what those of Hudi 0.15 give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
COMPACTION = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
CALLS = (
    "stats_file_sizes(table => '{t}')",
    "stats_file_sizes(table => '{t}', partition_path => 'dt=2024-03-01')",
    "stats_file_sizes(table => '{t}', partition_path => 'dt=1999-*')",
    "stats_wa(table => '{t}')",
    "show_fsview_all(table => '{t}', limit => 100)",
    "show_fsview_all(table => '{t}', limit => 100, path_regex => 'dt=*-01')",
    "show_fsview_latest(table => '{t}', partition_path => 'dt=2024-03-01')",
    "show_fsview_latest(table => '{t}', partition_path => 'dt=2024-03-02', merge => false)",
    "show_fs_path_detail(path => '{p}', is_sub => true)",
    "show_fs_path_detail(path => '{p}/dt=*', sort => false)",
    "show_invalid_parquet(path => '{p}')",
    "commits_compare(table => '{t}', path => '{p}')",
)
DECIMALS = ("price", "total")
# What 0.15 does at a delete block is to fail.
LOGS = "{p}/*/.*.log.1_*"
LOG_CALLS = (
    f"show_logfile_metadata(table => '{{t}}', log_file_path_pattern => '{LOGS}', limit => 100)",
    f"show_logfile_records(table => '{{t}}', log_file_path_pattern => '{LOGS}', limit => 100)",
)
# 0.15 merges log files of tables only that have a commit.
MERGED = (
    "show_logfile_records(table => '{t}', limit => 100, merge => true, "
    "log_file_path_pattern => '{p}/*/.*_00000000000001.log.1_*')"
)


@pytest.mark.soak
def test_files_are_shown_as_hudi_shows_them(session: Any, oracle_015: HudiOracle, tmp_path: Path) -> None:
    made, name = bootstrap_shape(session, SHAPE, tmp_path), f"oracle.{SHAPE.name}"
    session.sql(f"UPDATE {name} SET note = 'updated' WHERE seq % 5 = 0")
    torn = next(Path(made.path).glob("dt=2024-03-03/*.parquet"))
    torn.with_name(f"torn_0-0-0_{'1' * 17}.parquet").write_bytes(b"no parquet at all")
    for call in (*CALLS, *LOG_CALLS):
        _compare(session, oracle_015, call.format(t=name, p=made.path))
    planned = f"run_compaction(op => 'schedule', table => '{name}', options => '{COMPACTION}')"
    session.sql(f"CALL {planned}")
    session.sql(f"DELETE FROM {name} WHERE seq = 0")
    overwrite = f"INSERT OVERWRITE {name} PARTITION (dt = '2024-03-02')"
    session.sql(f"{overwrite} SELECT * EXCEPT (dt) FROM {name} WHERE seq = 1")
    # Without inflight instants 0.15 leaves out the log files that came after the plan; readers see them.
    later = [call.replace("')", "', include_inflight => true)") for call in CALLS[6:7]]
    for call in (*CALLS[3:6], *later, CALLS[7]):
        _compare(session, oracle_015, call.format(t=name, p=made.path))
    _compare(
        session, oracle_015, f"show_fsview_all(table => '{name}', limit => 100, include_in_flight => true)"
    )
    session.sql(f"CALL run_compaction(op => 'run', table => '{name}')")
    _compare(session, oracle_015, MERGED.format(t=name, p=made.path))


def _compare(session: Any, oracle: HudiOracle, call: str) -> None:
    result = session.sql(f"CALL {call}")
    theirs = oracle.sql(f"CALL {call}")
    ours = result.arrow()
    assert ours.column_names == theirs.column_names, call
    unlike = "quota" in ours.column_names
    rows = [sorted(_comparable(row, unlike) for row in found.to_pylist()) for found in (ours, theirs)]
    assert rows[0] == rows[1], call


def _comparable(row: dict[str, Any], is_path_detail: bool) -> list[str]:
    if is_path_detail:
        # Hudi has exchanged the values of these two columns.
        row = {key: value for key, value in row.items() if key not in ("quota", "space_consumed")}
    values = [f"{value:.9g}" if isinstance(value, float) else value for value in row.values()]
    return [json.dumps(_parsed(value), sort_keys=True) for value in values]


def _parsed(value: Any) -> Any:
    if not (isinstance(value, str) and value.startswith("{")):
        return value
    # Decimals are bytes in Hudi's text of a record.
    return {key: each for key, each in json.loads(value).items() if key not in DECIMALS}


@pytest.mark.usefixtures("lake_database")
def test_invalid_parquet_files_of_partitions_and_instants_are_those_of_hudi(
    session: Any, oracle_120: HudiOracle, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    session.sql(
        "CREATE TABLE lake.torn (id INT, year STRING, month STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (year, month) LOCATION '{path}'"
    )
    session.sql("INSERT INTO lake.torn VALUES (1, '2022', '01'), (2, '2022', '02'), (3, '2023', '01')")
    for number, directory in enumerate(sorted(path.glob("year=*/month=*"))):
        (directory / f"f{number}-0_0-0-0_2024030100000000{number}.parquet").write_bytes(b"torn")
    for arguments, count in (
        ("", 3),
        (", partitions => 'year=2022'", 2),
        (", partitions => 'year=2022/month=0'", 0),
        (", partitions => 'year=2022/month=01,year=2023/month=01'", 2),
        (", instants => '20240301000000001,20240301000000002'", 2),
        (", partitions => 'year=2022', instants => '20240301000000002'", 0),
    ):
        call = f"CALL show_invalid_parquet(path => '{path}'{arguments})"
        ours, theirs = (
            sorted(row["path"] for row in rows)
            for rows in (session.sql(call).arrow().to_pylist(), oracle_120.sql(call).to_pylist())
        )
        assert (ours, len(ours)) == (theirs, count), arguments
