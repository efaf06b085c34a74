"""Tables of both engines whose indexes both keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle

# With these the SQL of 1.2 keeps indexes.
SETTINGS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.table.version": "9",
}
COMPACTION = "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')"


@dataclass
class IndexedTable:
    """A table of Apache Hudi and of hudisql's session, called `name` in both."""

    hudi: HudiOracle
    session: Any
    name: str
    path: str

    def ours(self, statement: str) -> None:
        """hudisql's statement keeps the index."""
        self.session.sql(statement.replace("{t}", self.name))
        self.check_index()

    def check_index(self) -> None:
        """hudisql keeps the metadata table, and the index has what it must."""
        raise NotImplementedError


@dataclass
class TableIndexedBySql(IndexedTable):
    """One with a column `label` and an integer `n`, to which 1.2 writes by SQL."""

    def theirs(self, statement: str) -> None:
        """1.2 runs the statement."""
        self.refresh()
        self.hudi.sql(statement.replace("{t}", self.name))

    def refresh(self) -> None:
        """1.2 sees what hudisql wrote."""
        self.hudi.sql(f"REFRESH TABLE {self.name}")

    def check_filters(self, filters: Sequence[str]) -> None:
        """1.2 and hudisql find by the indexes the rows for which hudisql says that each filter holds."""
        self.refresh()
        rows = self.session.sql(f"SELECT id, {', '.join(filters)} FROM {self.name}").rows
        for number, condition in enumerate(filters, start=1):
            found = self._ids(condition)
            assert sorted(found) == sorted(row[0] for row in rows if row[number]), condition
            own = self.session.sql(f"SELECT id FROM {self.name} WHERE {condition}").rows
            assert sorted(row[0] for row in own) == sorted(found), condition

    def check_is_used(self, condition: str) -> None:
        """1.2 does not find the row with the label `only` when it is not where the index says."""
        self.session.sql(f"UPDATE {self.name} SET label = 'only' WHERE n = 10")
        self.refresh()
        assert self._ids(condition) == ["k10"]
        self.hide_the_label()
        self.refresh()
        assert self._ids(condition) == []

    def hide_the_label(self) -> None:
        """By the index no file has the label `only`."""
        raise NotImplementedError

    def _ids(self, condition: str) -> list[str]:
        ids: list[str] = self.hudi.sql(f"SELECT id FROM {self.name} WHERE {condition}")["id"].to_pylist()
        return ids


def create_table(
    hudi: HudiOracle, session: Any, name: str, path: str, columns: str, table_type: str, version: int
) -> None:
    """Create a table with these columns, the key `id`, `n` to order by and the partition column `dt`."""
    hudi.sql(f"SET hoodie.write.table.version={version}")
    # hudisql makes no tables of version 8.
    (hudi if version == 8 else session).sql(
        f"CREATE TABLE {name} (id STRING, label STRING, n INT, {columns}, dt STRING) USING hudi "
        f"PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', "
        f"preCombineField = 'n', type = '{table_type}', 'hoodie.write.table.version' = '{version}')"
    )


def assert_found_by_index(oracle: HudiOracle, path: str, filters: Iterable[str]) -> None:
    """By the indexes Hudi finds the rows that it finds without."""
    for condition in filters:
        found, all_found = (
            sorted(oracle.read(path, columns=["id"], where=condition, options=options)["id"].to_pylist())
            for options in (BY_METADATA, BY_LISTING)
        )
        assert found == all_found, condition
