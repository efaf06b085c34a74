"""A random life with a metadata table: its indexes agree with the storage, and filters lose no row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis.stateful import invariant, precondition

from hudisql.errors import UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, RECORD_INDEX
from hudisql.format.paths.file_names import is_log_file
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.incomplete_groups import incomplete_groups
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.write.transaction.markers import marked_files
from hudisql.write.transaction.uncommitted_files import instants_of_log_file
from tests.life.machine import RandomLife
from tests.life.model import Values
from tests.life.steps import DONE, REFUSED, failing, step
from tests.life.table import LivingTable
from tests.write.metadata_table.kept_indexes import assert_bounds_hold, groups_with_left_out_keys

Holds = Callable[[Values], bool]
"""Whether a filter holds of a row."""

FILTERS: Mapping[str, Holds] = {
    "id = 3": lambda row: row["id"] == 3,
    "_hoodie_record_key IN ('4', '11') AND price > 5": lambda row: row["id"] in (4, 11) and row["price"] > 5,
    "note IS NULL": lambda row: row["note"] is None,
    "price < 12.5 AND dt = '2024-03-01'": lambda row: row["price"] < 12.5 and row["dt"] == "2024-03-01",
    "ts > 120 OR id < 3": lambda row: row["ts"] > 120 or row["id"] < 3,
    "_hoodie_commit_time > '1' AND price >= 30": lambda row: row["price"] >= 30,
}


class IndexedLife(RandomLife):
    """Statements keep the metadata table, or drop it; a step makes it again."""

    checked = 0

    @step()
    @precondition(lambda self: find_kept(self.table.opened) is None)
    def make_metadata_table(self) -> str:
        return self.made_metadata_table()

    @invariant()
    def indexes_agree_with_the_storage(self) -> None:
        if not hasattr(self, "table"):
            return
        with failing(self):
            indexes = check_indexes(self.table)
            for index in indexes:
                self.counts.checks[f"states of {index}"] += 1
            self.checked += 1
            condition = [*FILTERS][self.checked % len(FILTERS)]
            check_filter(self.table, condition)
            self.counts.checks["filters"] += 1

    def begun(self) -> None:
        """The table has all indexes that random lives keep."""
        self.made_metadata_table()

    def made_metadata_table(self) -> str:
        made = "CALL create_metadata_table(table => '{t}', indexes => 'record_index')"
        return DONE if self.table.run(made, refusals=(UnsupportedTableError,)) else REFUSED

    def end(self) -> None:
        """Filters of hudisql and Apache Hudi lose no row, either."""
        super().end()
        for condition in FILTERS:
            check_filter(self.table, condition)
        if self.hudi is not None:
            if incomplete_groups(self.table.opened) != frozenset():
                # Apache Hudi loses the rows whose keys it has left out.
                self.made_metadata_table()
            self.hudi.check_filters(self.table, FILTERS)


def check_indexes(table: LivingTable) -> tuple[str, ...]:
    """The indexes of a metadata table that is kept agree with the storage; gives their names."""
    metadata = find_kept(table.opened)
    if metadata is None:
        return ()
    slices = load_file_slices(metadata.table)
    files = [file for found in slices for file in (found.base_file, *found.log_files) if file is not None]
    live_groups = {found.file_group for found in slices}
    # Version 6 names log files by their slice: those of a writer that was killed look like the others.
    begun = {
        path.rpartition("/")[2]
        for instant in metadata.table.timeline.pending
        for path in marked_files(metadata.table.storage, metadata.table.base_path, instant.timestamp)
    }
    # Those of a commit that is being rolled back have no markers.
    begun |= {
        path.rpartition("/")[2]
        for found in slices
        for path in (log_file.path for log_file in found.log_files)
        if instants_of_log_file(metadata.table.storage, path)
        <= {instant.timestamp for instant in metadata.table.timeline.pending}
    }
    live = {file.path.rpartition("/")[2] for file in files}
    # Hudi 0.15 lists the log file of a write that it rolled back with one byte.
    different = [
        found
        for found in compare_listings(metadata)
        if found.differs and not (is_log_file(found.name) and found.stored_bytes and found.listed_bytes == 1)
    ]
    # A writer that was killed leaves files in the storage alone, a clean or rollback in the listing alone.
    is_interrupted = bool(metadata.table.timeline.pending)
    wrong = [
        found
        for found in different
        if (found.name in live and not (found.name in begun and found.listed_bytes is None))
        or (found.listed_bytes is not None and not is_interrupted)
    ]
    assert not wrong, wrong
    if RECORD_INDEX in metadata.indexes:
        incomplete = incomplete_groups(metadata.table, metadata)
        # Where it is not known Apache Hudi may have left out any key.
        assert groups_with_left_out_keys(metadata) <= (live_groups if incomplete is None else incomplete)
    if COLUMN_STATS in metadata.indexes:
        assert_bounds_hold(metadata)
    return tuple(metadata.indexes)


def check_filter(table: LivingTable, condition: str) -> None:
    """A query with this filter gives the rows of the model."""
    found = table.session.sql(f"SELECT id FROM {table.name} WHERE {condition}").rows
    expected = sorted(id_ for id_, row in table.state.rows.items() if FILTERS[condition](row))
    assert sorted(row[0] for row in found) == expected, condition
