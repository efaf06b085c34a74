"""Makes golden tables with Apache Hudi 0.15: `python -m tests.golden.make_tables [NAME …]`.

Each function below makes one table of the state that its name says, below /tmp/golden, and gives the rows
that must be in it, worked out here and not by Hudi. What Hudi reads is held against them before anything is
stored. The other tables of this directory are older than this script.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle.client import HudiOracle, start_oracle
from tests.oracle.comparison import META_COLUMNS, assert_same_rows, golden_rows
from tests.oracle.sources import put_over, sample_rows, write_source

UNPACKED = Path("/tmp/golden")
STORED = Path(__file__).parent
ROWS = 24
OPTIONS = {
    "hoodie.table.name": "golden",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.compact.inline": "false",
}
COW = {**OPTIONS, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
Make = Callable[[HudiOracle, str, str], pa.Table]


def rows(first: int, last: int, note: str = "first") -> pa.Table:
    """Rows with their day: three days, row by row. Times have milliseconds, all that Spark's toJSON shows."""
    made = sample_rows(first, last, note)
    times = pc.floor_temporal(made["at"], unit="millisecond")
    made = made.set_column(made.schema.get_field_index("at"), "at", times)
    days = [f"2024-03-0{number % 3 + 1}" for number in made["seq"].to_pylist()]
    return made.append_column("dt", pa.array(days))


def cow_archived_bootstrap(hudi: HudiOracle, source: str, path: str) -> pa.Table:
    """The bootstrap's instant is archived, and two days are skeletons still."""
    hudi.bootstrap(source, path, COW)
    expected = rows(0, ROWS)
    archiving = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    for number in range(0, 18, 3):
        changed = rows(number, number + 1, "second")
        hudi.upsert(changed, path, COW | archiving)
        expected = put_over(expected, changed)
    assert not (Path(path) / ".hoodie" / "00000000000001.commit").exists()
    assert len(list(Path(path).glob("*/*_00000000000001.parquet"))) >= 4
    return expected


def cow_insert_overwrite(hudi: HudiOracle, source: str, path: str) -> pa.Table:
    """One day is overwritten, so its skeletons are replaced; then rows are upserted into it."""
    hudi.bootstrap(source, path, COW)
    over = rows(100, 112, "over").filter(pa.array([n % 3 == 1 for n in range(100, 112)]))
    hudi.write(over, path, COW | {"hoodie.datasource.write.operation": "insert_overwrite"})
    changed = put_over(rows(100, 101, "after"), rows(2, 3, "after"))
    hudi.upsert(changed, path, COW)
    kept = rows(0, ROWS).filter(pa.array([number % 3 != 1 for number in range(ROWS)]))
    return put_over(pa.concat_tables([kept, over]), changed)


def cow_clustering_scheduled(hudi: HudiOracle, source: str, path: str) -> pa.Table:
    """A clustering of all file groups is planned and not run."""
    hudi.bootstrap(source, path, COW)
    changed = rows(0, 2, "second")
    hudi.upsert(changed, path, COW)
    hudi.sql(f"CALL run_clustering(path => '{path}', op => 'schedule')")
    assert list((Path(path) / ".hoodie").glob("*.replacecommit.requested"))
    return put_over(rows(0, ROWS), changed)


def mor_compaction_scheduled(hudi: HudiOracle, source: str, path: str) -> pa.Table:
    """A compaction is planned and not run; later log files belong to slices that have no base file."""
    hudi.bootstrap(source, path, MOR)
    first, second = rows(0, 6, "second"), rows(3, 9, "third")
    hudi.upsert(first, path, MOR)
    now = "hoodie.compact.inline.max.delta.commits=1"
    hudi.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{now}')")
    hudi.upsert(second, path, MOR)
    planned = [each.name.split(".")[0] for each in (Path(path) / ".hoodie").glob("*.compaction.requested")]
    assert list(Path(path).glob(f"*/.*_{planned[0]}.log.*"))
    return put_over(put_over(rows(0, ROWS), first), second)


def mor_two_log_generations(hudi: HudiOracle, source: str, path: str) -> pa.Table:
    """Log files of the skeletons and, after a compaction, of the base files that it made, all still there."""
    hudi.bootstrap(source, path, MOR)
    first, second, third = rows(0, 6, "second"), rows(3, 9, "third"), rows(0, 4, "fourth")
    hudi.upsert(first, path, MOR)
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    hudi.upsert(second, path, MOR | compacting)
    hudi.upsert(third, path, MOR)
    fencing_epochs = {each.name.split(".log.")[0].split("_")[-1] for each in Path(path).glob("*/.*.log.*")}
    assert len(fencing_epochs) == 2
    return put_over(put_over(put_over(rows(0, ROWS), first), second), third)


TABLES: dict[str, Make] = {
    make.__name__: make
    for make in (
        cow_archived_bootstrap,
        cow_insert_overwrite,
        cow_clustering_scheduled,
        mor_compaction_scheduled,
        mor_two_log_generations,
    )
}


def make_table(hudi: HudiOracle, name: str) -> None:
    """Make one table, check what Hudi reads of it, and store it with its rows."""
    directory = UNPACKED / name
    shutil.rmtree(directory, ignore_errors=True)
    source = write_source(directory / "source", rows(0, ROWS).drop_columns(["dt"]), _day_directory, files=2)
    path = str(directory / "table")
    expected = TABLES[name](hudi, str(source), path)
    read = hudi.read(path)
    assert_same_rows(read.select(expected.column_names), expected, sort_by=["seq"])
    described = {
        "name": name,
        "hudi_version": hudi.version,
        "base": str(directory),
        "bootstrap_base_path": str(source),
        "n_rows": expected.num_rows,
        "schema": _data_schema(hudi, path),
        "rows": golden_rows(expected),
        "hoodie_meta_rows": read.select(list(META_COLUMNS)).to_pylist(),
    }
    (STORED / f"{name}.json").write_text(json.dumps(described, ensure_ascii=False, indent=None) + "\n")
    with zipfile.ZipFile(STORED / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for each in sorted(directory.rglob("*")):
            archive.write(each, each.relative_to(UNPACKED))


def _day_directory(number: int) -> str:
    return f"dt=2024-03-0{number % 3 + 1}"


def _data_schema(hudi: HudiOracle, path: str) -> dict[str, object]:
    """Spark's schema of the data columns, as JSON."""
    output = Path(tempfile.mkdtemp()) / "rows.arrow"
    answer = hudi.request("read", path=path, output=str(output), options={})
    fields = [field for field in answer["schema"]["fields"] if field["name"] not in META_COLUMNS]
    shutil.rmtree(output.parent)
    return {**answer["schema"], "fields": fields}


def main() -> None:
    """Make the named tables, or all."""
    directory = Path(tempfile.mkdtemp(prefix="golden-"))
    hudi = start_oracle("0.15.0", directory)
    try:
        for name in sys.argv[1:] or TABLES:
            make_table(hudi, name)
            print(f"{name}: made")
    finally:
        hudi.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
