"""Apache Hudi as one of those who change a table and run its services."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.services.rollback.savepoint import read_savepoint
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import WRITTEN_VERSION
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from tests.life.model import Values
from tests.life.table import LivingTable, assert_same, by_id
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.newer_tables import WITHOUT_SKIPPING

METADATA = {"hoodie.metadata.enable": "true"}
INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
BY_METADATA = {**METADATA, "hoodie.enable.data.skipping": "true"}
NOT_AT_ONCE = re.compile("HoodieWriteConflictException|HoodieLockException|Unable to acquire lock")
NOT_IN_ORDER = re.compile("please rollback greater commits first")
"""A restore that Apache Hudi refuses once it has planned it, beside a commit in flight."""
WITHOUT_SCHEMA = re.compile("HoodieRollbackException.*Schema string cannot be null or empty", re.DOTALL)
"""A delete that has no schema to read keys with for a new record index."""
BESIDE = {
    "hoodie.write.lock.wait_time_ms": "100",
    "hoodie.write.lock.num_retries": "1",
    "hoodie.write.lock.wait_time_ms_between_retry": "10",
}


@contextmanager
def noting_refusal(table: LivingTable, message: re.Pattern[str]) -> Iterator[list[str]]:
    """Note among the table's refusals an error of Apache Hudi with this message; the list then holds it."""
    refused: list[str] = []
    try:
        yield refused
    except OracleError as error:
        if not message.search(str(error)):
            raise
        refused.append(f"Apache Hudi: {error}")
        table.refusals += refused


@dataclass(frozen=True)
class HudiActor:
    """Changes tables by Apache Hudi and takes over what that committed.

    `with_metadata` says whether it keeps metadata tables, and reads by them.
    """

    oracle: HudiOracle
    with_metadata: bool = False

    def upsert(self, table: LivingTable, rows: list[Values], number: int) -> None:
        """Upsert rows; the number says which services run after it."""
        self.oracle.upsert(table.rows_of(rows), table.path, self._options(table, number))

    def upgrade(self, table: LivingTable, version: int, rows: list[Values]) -> None:
        """Upsert rows in another table version, as 1.x does unless it is told not to."""
        options = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "true"}
        self.oracle.upsert(table.rows_of(rows), table.path, {**self._options(table, 1), **options})

    def upsert_beside(
        self, table: LivingTable, rows: list[Values], number: int, shared: Mapping[str, str]
    ) -> bool:
        """Upsert rows while another writer is at work; False if that was refused."""
        options = {**self._options(table, number), **shared, **BESIDE}
        with noting_refusal(table, NOT_AT_ONCE) as refused:
            self.oracle.upsert(table.rows_of(rows), table.path, options)
        return not refused

    def delete(self, table: LivingTable, rows: list[Values], number: int) -> bool:
        """Delete the rows with these keys, in their partitions.

        False if Apache Hudi 1.2 has a rollback to end first, and makes a record index for that.
        """
        options = {**self._options(table, number), "hoodie.datasource.write.operation": "delete"}
        with noting_refusal(table, WITHOUT_SCHEMA) as refused:
            self.oracle.write(table.rows_of(rows), table.path, options)
        return not refused

    def compact(self, table: LivingTable, op: str) -> None:
        options = f"{self._service_options(table)},hoodie.compact.inline.max.delta.commits=1"
        self._call(table, f"run_compaction(op => '{op}', path => '{table.path}', options => '{options}')")

    def cluster(self, table: LivingTable, op: str) -> None:
        options = self._service_options(table)
        self._call(table, f"run_clustering(op => '{op}', path => '{table.path}', options => '{options}')")

    def clean(self, table: LivingTable, retained: int) -> None:
        assert may_clean(table)
        self._call(table, f"run_clean(table => '{table.name}', retain_commits => {retained})")

    def archive(self, table: LivingTable, least: int) -> None:
        self._call(
            table,
            f"archive_commits(path => '{table.path}', min_commits => {least}, max_commits => {least + 1}, "
            f"retain_commits => 1, enable_metadata => {str(self.with_metadata).lower()})",
        )

    def restore(self, table: LivingTable, savepoint: str) -> bool:
        """Restore the table; what was committed after the savepoint is gone. False if that was refused.

        Of a metadata table that was made after the savepoint Apache Hudi 1.2 finds no completion time.
        """
        call = f"CALL rollback_to_savepoint(path => '{table.path}', instant_time => '{savepoint}')"
        with (
            self.oracle.settings({"hoodie.metadata.enable": "false"}),
            noting_refusal(table, NOT_IN_ORDER) as refused,
        ):
            self.oracle.sql(call)
        return not refused

    def check(self, table: LivingTable) -> None:
        """Apache Hudi reads the rows of the model."""
        assert_same(
            by_id(self.oracle.read(table.path, options=WITHOUT_SKIPPING)),
            table.state.as_read(),
            "read by Apache Hudi",
        )

    def check_filters(self, table: LivingTable, filters: Mapping[str, Callable[[Values], bool]]) -> None:
        """By the metadata table Apache Hudi gives the rows of the model for which each filter holds."""
        for condition, holds in filters.items():
            found = self.oracle.read(table.path, where=condition, options=BY_METADATA)["id"].to_pylist()
            expected = [id_ for id_, row in table.state.rows.items() if holds(row)]
            assert sorted(found) == sorted(expected), f"read by Apache Hudi: {condition}"

    def _service_settings(self, table: LivingTable) -> dict[str, str]:
        enabled = str(self.with_metadata).lower()
        return {
            "hoodie.metadata.enable": enabled,
            "hoodie.write.table.version": str(table.version),
            "hoodie.clean.automatic": str(may_clean(table)).lower(),
        }

    def _service_options(self, table: LivingTable) -> str:
        return ",".join(f"{key}={value}" for key, value in self._service_settings(table).items())

    def _call(self, table: LivingTable, call: str) -> None:
        with self.oracle.settings(self._service_settings(table)):
            self.oracle.sql(f"CALL {call}")
        table.take_over()

    def _options(self, table: LivingTable, number: int) -> dict[str, str]:
        return {
            "hoodie.table.name": table.opened.name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.table.type": table.opened.properties.table_type,
            "hoodie.clean.automatic": str(number % 2 == 0 and may_clean(table)).lower(),
            "hoodie.cleaner.commits.retained": "2",
            # Apache Hudi archives what replaced files that a savepoint has kept: it then reads them again.
            "hoodie.archive.automatic": str(number % 3 == 0 and not table.was_saved).lower(),
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
            "hoodie.compact.inline": "false",
            "hoodie.write.table.version": str(table.version),
            "hoodie.write.auto.upgrade": "false",
            **self._metadata_options(table, number),
        }

    def _metadata_options(self, table: LivingTable, number: int) -> dict[str, str]:
        if not self.with_metadata:
            return {
                "hoodie.metadata.enable": str(table.version != WRITTEN_VERSION and number % 4 == 1).lower()
            }
        if number % 8 == 7:
            return {"hoodie.metadata.enable": "false"}
        properties = table.opened.properties
        # Apache Hudi cannot make a record index of skeletons, whose instant times are no dates.
        can_index = RECORD_INDEX in properties.metadata_partitions or not properties.bootstrap_base_path
        # It refuses options that the table's properties deny.
        can_index = can_index and properties.get(COLUMN_STATS_ENABLE) != "false"
        return METADATA | (INDEXES if number % 3 and can_index else {})


def may_clean(table: LivingTable) -> bool:
    """False if a clean of Apache Hudi may delete files of a savepoint.

    It deletes the directories of partitions whose file groups are all replaced, whatever is in them.
    """
    opened = table.opened
    live = {found.partition_path for found in load_file_slices(opened)}
    saved = [read_savepoint(opened, time).files for time in opened.timeline.savepoints]
    return all(path in live for files in saved for path in files)
