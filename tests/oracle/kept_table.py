"""Tables whose metadata table both engines keep, with statements and filters for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.opened import open_kept
from tests.oracle.client import BY_LISTING, BY_METADATA, HudiOracle
from tests.oracle.shapes import Shape, noted_rows

# Of every type of column, of meta columns, with AND, OR, nulls and the partition column.
FILTERS = (
    "seq >= 100",
    "seq = 14",
    "id = 'k000014'",
    "fare = 17.5",
    "total > 400000000000",
    "price > 5.0 AND seq < 60",
    "day > date'2024-03-01' OR seq < 3",
    "at >= timestamp'2020-01-01 12:36:00' AND is_even",
    "note = 'ours'",
    "note = 'theirs'",
    "note IS NULL",
    "note IS NOT NULL AND seq > 50",
    "_hoodie_record_key = 'k000014' AND seq = 14",
    "_hoodie_commit_time = '00000000000001' AND seq >= 15",
    "_hoodie_commit_time > '00000000000001'",
    "_hoodie_record_key >= 'k000100' OR note = 'ours'",
)
OURS = (
    "UPDATE {t} SET note = 'ours' WHERE seq IN (3, 14, 77)",
    "DELETE FROM {t} WHERE seq = 20",
    "UPDATE {t} SET note = NULL, price = -seq WHERE seq IN (4, 31, 78)",
)
OURS_OF_PARTITIONS = (
    "INSERT OVERWRITE {t} PARTITION (dt = '2024-03-02') SELECT id, seq, total, fare, price, is_even, day, "
    "at, 'ours', place, labels, extra FROM {t} WHERE dt = '2024-03-02' AND seq < 60",
    "ALTER TABLE {t} DROP PARTITION (dt = '2024-03-03')",
)
SERVICE_OF = {
    "COPY_ON_WRITE": "CALL run_clustering(table => '{t}')",
    "MERGE_ON_READ": "CALL run_compaction(op => 'scheduleandexecute', table => '{t}')",
}


@dataclass
class TableWithMetadata:
    """A table in hudisql's session called `name`; all `readers` must read it as hudisql does."""

    by_metadata: ClassVar[Mapping[str, str]] = BY_METADATA
    """With these options Hudi reads by the metadata table."""

    readers: tuple[HudiOracle, ...]
    session: Any
    path: str
    name: str
    shape: Shape
    filters: Sequence[str] = field(default=FILTERS, kw_only=True)

    def ours(self, statement: str) -> None:
        """The metadata table is kept by the statement, and lists what the storage has."""
        self.session.sql(statement.replace("{t}", self.name))
        self.check_kept()
        assert self.wrong_files() == []

    def wrong_files(self) -> list[tuple[Any, ...]]:
        """The files that the metadata table lists and the storage has otherwise, or the reverse."""
        call = f"CALL validate_metadata_table_files(table => '{self.name}')"
        return [tuple(row) for row in self.session.sql(call).rows]

    def check_kept(self) -> None:
        """hudisql keeps the metadata table."""
        open_kept(self.path)

    def upsert(self, writer: HudiOracle, start: int, stop: int, options: Mapping[str, str]) -> None:
        """Apache Hudi upserts rows of the shape."""
        given = {**self.shape.write_options(), "hoodie.metadata.enable": "true", **options}
        given["hoodie.table.name"] = self.name.rpartition(".")[2]
        writer.upsert(noted_rows(self.shape, start, stop, "theirs"), self.path, given)

    def check(self) -> None:
        """Filters lose no row by the metadata table, and no key has two rows."""
        ours = self.our_rows()
        for reader in self.readers:
            assert self.rows_of_filters(reader, BY_LISTING) == ours
            assert self.rows_of_filters(reader, self.by_metadata) == ours
            whole = reader.read(self.path, options=BY_LISTING)
            assert {*Counter(whole["_hoodie_record_key"].to_pylist()).values()} == {1}

    def lost(self, reader: HudiOracle) -> int:
        """The number of filters of which the reader does not find all rows."""
        found, expected = (
            self.rows_of_filters(reader, options) for options in (self.by_metadata, BY_LISTING)
        )
        return sum(mine != theirs for mine, theirs in zip(found, expected, strict=True))

    def our_rows(self) -> list[tuple[int, ...]]:
        """What `rows_of_filters` gives of Hudi, of hudisql."""
        return sorted(tuple(row) for row in self.session.sql(self._counts_of(self.name)).rows)

    def rows_of_filters(self, reader: HudiOracle, options: Mapping[str, str]) -> list[tuple[int, ...]]:
        """For each filter its number, and the count and the sum of `seq` of its rows."""
        reader.view("kept", self.path, options=options)
        rows = reader.sql(self._counts_of("kept")).to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def _counts_of(self, relation: str) -> str:
        return " UNION ALL ".join(
            f"SELECT {number} AS filter, count(*) AS found, coalesce(sum(seq), 0) AS total FROM {relation} "
            f"WHERE {where}"
            for number, where in enumerate(self.filters)
        )
