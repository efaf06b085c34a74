"""`CALL check_readers` on tables that Apache Hudi made (tests/golden), without Spark.

tests/hive/test_readers.py compares its answers with what the readers do.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.compatibility.reader_rules import Reads, answers
from hudisql.compatibility.reader_state import ReaderState, read_reader_state
from hudisql.console import SilentConsole
from hudisql.context import Context
from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.registry import find_procedure
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.properties.table_configuration import drop_metadata_table
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table


def _rows(path: str) -> dict[str, dict[str, Any]]:
    context = Context(cast(Any, None), cast(Any, None), console=SilentConsole())
    procedure = find_procedure("check_readers")
    arguments = bind_arguments(procedure, (), [("path", path)])
    names = [column.name for column in procedure.output]
    rows = [dict(zip(names, row, strict=True)) for row in procedure.call(context, arguments).rows]
    return {str(row["reader"]): row for row in rows}


@pytest.mark.parametrize(
    "made",
    [
        "cow_bootstrap_meta",
        "cow_bootstrap_then_upsert_delete",
        "cow_insert_overwrite",
        "cow_archived_bootstrap",
        "mor_bootstrap_meta",
        "mor_compacted",
        "mor_two_log_generations",
    ],
)
def test_the_timeline_tells_what_a_listing_does(golden: Any, made: str) -> None:
    table = open_table(Storage(), golden(made).table)
    state, slices = read_reader_state(table, ()), load_file_slices(table)
    assert state.bootstrapped == sum(each.is_bootstrapped for each in slices)
    assert state.with_logs == sum(each.has_log_files for each in slices)


def test_readers_without_bootstrap_get_nulls_until_every_file_group_is_rewritten(golden: Any) -> None:
    rows = _rows(golden("cow_bootstrap_meta").table)
    assert (rows["hudi-rs"]["reads"], rows["Trino"]["reads"]) == ("wrong", "fails")
    assert rows["hudisql"]["reads"] == rows["Spark 3.5 + Hudi 0.15 bundle"]["reads"] == "right"
    assert rows["PySpark 4 with hudisql, by path"]["reads"] == "right"
    assert "listing" not in rows["hudisql"]["looked_at"]
    assert "listing" in _rows(golden("cow_archived_bootstrap").table)["hudisql"]["looked_at"]
    state = read_reader_state(open_table(Storage(), golden("cow_bootstrap_meta").table), ())
    rewritten = {each.reader: each.reads for each in answers(replace(state, bootstrapped=0))}
    assert rewritten["hudi-rs"] is Reads.RIGHT


def test_statistics_of_1x_on_partitions_with_skeletons_need_a_setting(golden: Any, tmp_path: Path) -> None:
    path = shutil.copytree(golden("cow_bootstrap_meta").table, tmp_path / "t")
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text + "hoodie.table.metadata.partitions=column_stats,files\n")
    row = _rows(str(path))["Spark 3.5 + Hudi 1.x bundle"]
    assert row["settings"].endswith("hoodie.enable.data.skipping=false")
    assert "lose rows" in row["why"]


def test_statistics_of_the_source_files_need_no_setting(golden: Any, tmp_path: Path) -> None:
    path = str(shutil.copytree(golden("v9_cow_bootstrap_meta").table, tmp_path / "t"))
    reader = "Spark 3.5 + Hudi 1.x bundle"
    assert "column.stats.enable=false" in _rows(path)[reader]["why"]
    create_metadata_table(open_table(Storage(), path))
    row = _rows(path)[reader]
    assert row["reads"] == "right"
    assert "skipping" not in row["settings"]
    assert not row["why"]


def test_writers_keep_version_6_and_the_statistics_of_the_source_files(golden: Any, tmp_path: Path) -> None:
    path = str(shutil.copytree(golden("cow_bootstrap_meta").table, tmp_path / "t"))
    create_metadata_table(open_table(Storage(), path))
    row = _rows(path)["Spark 3.5 + Hudi 1.x bundle"]
    assert row["reads"] == "right"
    assert "skipping" not in row["settings"]
    assert not row["why"]
    assert drop_metadata_table(open_table(Storage(), path))
    why = _rows(path)["Spark 3.5 + Hudi 1.x bundle"]["why"]
    assert "hoodie.write.table.version=6" in why
    assert "column.stats" not in why


def test_a_table_of_a_later_version_is_answered_by_its_properties(golden: Any, tmp_path: Path) -> None:
    path = shutil.copytree(golden("cow_insert_overwrite").table, tmp_path / "t")
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(
        "".join(
            "hoodie.table.version=19\n" if line.startswith("hoodie.table.version") else line
            for line in properties.read_text().splitlines(keepends=True)
        )
    )
    rows = _rows(str(path))
    assert {rows[each]["reads"] for each in ("hudisql", "Spark 3.5 + Hudi 0.15 bundle")} == {"fails"}
    assert {rows[each]["reads"] for each in ("hudi-rs", "Spark 3.5 + Hudi 1.x bundle")} == {"unknown"}
    assert rows["hudisql"]["looked_at"] == "hoodie.properties"


def _entry(name: str, *, read_optimized: bool = False) -> MetastoreTable:
    serde = {"hoodie.query.as.ro.table": str(read_optimized).lower()}
    return MetastoreTable("lake", name, "EXTERNAL_TABLE", "/t", (), serde_properties=serde)


def test_hive_reads_a_merge_on_read_table_by_each_name_as_its_newest_commit_lets_it(golden: Any) -> None:
    entries = (_entry("t"), _entry("t_ro", read_optimized=True), _entry("t_rt"))

    def reads(state: ReaderState) -> list[Reads]:
        return [each.reads for each in answers(state) if each.reader == "Hive 2.3"]

    logs = read_reader_state(open_table(Storage(), golden("mor_two_log_generations").table), entries)
    assert reads(logs) == [Reads.RIGHT] * 3
    bases = replace(logs, newest_commit_wrote_base_files=True)
    assert reads(bases) == [Reads.FAILS, Reads.RIGHT, Reads.FAILS]
    parquet = read_reader_state(open_table(Storage(), golden("mor_parquet_log").table), entries)
    assert reads(parquet) == [Reads.FAILS, Reads.RIGHT, Reads.FAILS]


def test_columns_with_ids_need_a_setting_in_spark_and_are_not_read_elsewhere(golden: Any) -> None:
    state = read_reader_state(open_table(Storage(), golden("cow_bootstrap_meta").table), ())
    rewritten = replace(state, has_column_ids=True, bootstrapped=0)
    found = {answer.reader: answer for answer in answers(rewritten)}
    for reader in ("Spark 3.5 + Hudi 0.15 bundle", "Spark 3.5 + Hudi 1.x bundle"):
        assert found[reader].reads is Reads.RIGHT
        assert "hoodie.schema.on.read.enable=true" in str(found[reader].settings)
    assert found["hudi-rs"].reads is Reads.UNKNOWN
    skeletons = {answer.reader: answer for answer in answers(replace(state, has_column_ids=True))}
    assert skeletons["Spark 3.5 + Hudi 0.15 bundle"].reads is Reads.WRONG
