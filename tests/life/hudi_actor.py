"""Apache Hudi as one of those who change a table and run its services."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hudisql.table.hudi_table import WRITTEN_VERSION
from tests.life.model import Values
from tests.life.table import LivingTable, assert_same, by_id
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.newer_tables import WITHOUT_SKIPPING

NO_METADATA = "hoodie.metadata.enable=false"
NOT_AT_ONCE = re.compile("HoodieWriteConflictException|HoodieLockException|Unable to acquire lock")
BESIDE = {
    "hoodie.write.lock.wait_time_ms": "100",
    "hoodie.write.lock.num_retries": "1",
    "hoodie.write.lock.wait_time_ms_between_retry": "10",
}


@dataclass(frozen=True)
class HudiActor:
    """Changes tables by Apache Hudi and takes over what that committed."""

    oracle: HudiOracle

    def upsert(self, table: LivingTable, rows: list[Values], number: int) -> None:
        """Upsert rows; the number says which services run after it."""
        self.oracle.upsert(table.rows_of(rows), table.path, _options(table, number))

    def upgrade(self, table: LivingTable, version: int, rows: list[Values]) -> None:
        """Upsert rows in another table version, as 1.x does unless it is told not to."""
        options = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "true"}
        self.oracle.upsert(table.rows_of(rows), table.path, {**_options(table, 1), **options})

    def upsert_beside(
        self, table: LivingTable, rows: list[Values], number: int, shared: Mapping[str, str]
    ) -> bool:
        """Upsert rows while another writer is at work; False if that was refused."""
        options = {**_options(table, number), **shared, **BESIDE}
        try:
            self.oracle.upsert(table.rows_of(rows), table.path, options)
        except OracleError as error:
            if not NOT_AT_ONCE.search(str(error)):
                raise
            table.refusals.append(f"Apache Hudi: {error}")
            return False
        return True

    def delete(self, table: LivingTable, rows: list[Values], number: int) -> None:
        """Delete the rows with these keys, in their partitions."""
        options = {**_options(table, number), "hoodie.datasource.write.operation": "delete"}
        self.oracle.write(table.rows_of(rows), table.path, options)

    def compact(self, table: LivingTable, op: str) -> None:
        options = f"{NO_METADATA},hoodie.compact.inline.max.delta.commits=1"
        self._call(table, f"run_compaction(op => '{op}', path => '{table.path}', options => '{options}')")

    def cluster(self, table: LivingTable, op: str) -> None:
        self._call(table, f"run_clustering(op => '{op}', path => '{table.path}', options => '{NO_METADATA}')")

    def clean(self, table: LivingTable, retained: int) -> None:
        self._call(table, f"run_clean(table => '{table.name}', retain_commits => {retained})")

    def archive(self, table: LivingTable, least: int) -> None:
        self._call(
            table,
            f"archive_commits(path => '{table.path}', min_commits => {least}, max_commits => {least + 1}, "
            "retain_commits => 1, enable_metadata => false)",
        )

    def restore(self, table: LivingTable, savepoint: str) -> None:
        """Restore the table; what was committed after the savepoint is gone."""
        self.oracle.sql("SET hoodie.metadata.enable = false")
        self.oracle.sql(f"CALL rollback_to_savepoint(path => '{table.path}', instant_time => '{savepoint}')")

    def check(self, table: LivingTable) -> None:
        """Apache Hudi reads the rows of the model."""
        assert_same(
            by_id(self.oracle.read(table.path, options=WITHOUT_SKIPPING)),
            table.state.as_read(),
            "read by Apache Hudi",
        )

    def _call(self, table: LivingTable, call: str) -> None:
        self.oracle.sql("SET hoodie.metadata.enable = false")
        self.oracle.sql(f"CALL {call}")
        table.take_over()


def _options(table: LivingTable, number: int) -> dict[str, str]:
    return {
        "hoodie.table.name": table.opened.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.table.type": table.opened.properties.table_type,
        "hoodie.clean.automatic": str(number % 2 == 0).lower(),
        "hoodie.clean.commits.retained": "2",
        "hoodie.archive.automatic": str(number % 3 == 0).lower(),
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.archive.beyond.savepoint": "false",
        "hoodie.compact.inline": "false",
        "hoodie.write.table.version": str(table.version),
        "hoodie.write.auto.upgrade": "false",
        # hudisql drops the metadata table that versions 8 and 9 then have.
        "hoodie.metadata.enable": str(table.version != WRITTEN_VERSION and number % 4 == 1).lower(),
    }
