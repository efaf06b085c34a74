"""The table of a feed as it is now, and what depends on its columns: the parser and the partition paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.known_partitions import KnownPartitions
from hudisql.ingest.parse.parsed_batch import ParsedBatch, RecordParser
from hudisql.table.hudi_table import HudiTable

OpenTarget = Callable[[], IngestTarget]
AddColumns = Callable[[pa.Schema], None]


class FeedTarget:
    """Opens the table by `open_target`; `add_columns` gives it the columns that only the events have."""

    def __init__(
        self,
        open_target: OpenTarget,
        make_parser: Callable[[HudiTable], RecordParser],
        add_columns: AddColumns | None,
    ) -> None:
        self._open_target = open_target
        self._make_parser = make_parser
        self._add_columns = add_columns
        self._tried_columns: set[str] = set()
        self._partitions = KnownPartitions()
        self.current = self._open()
        self._parser = make_parser(self.table)
        self.paths = self._partitions.paths(self.current, ())

    @property
    def table(self) -> HudiTable:
        """The table as it was opened last."""
        return self.current.table

    def reopen(self, used: Sequence[str] = ()) -> None:
        """Open the table as it is now; `used` are the partitions of the rows that follow."""
        schema = self.table.schema
        self.current = self._open()
        if not schema.equals(self.table.schema):
            self._parser = self._make_parser(self.table)
        self.paths = self._partitions.paths(self.current, used)

    def parse(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> ParsedBatch:
        """Parse events; the table gets their new columns first."""
        parsed = self._parser.parse(values, keys)
        new = pa.schema([column for column in parsed.new_columns if column.name not in self._tried_columns])
        if self._add_columns is None or not len(new):
            return parsed
        self._add_columns(new)
        self._tried_columns |= set(new.names)
        self.reopen()
        return self._parser.parse(values, keys)

    def committed(self, paths: Sequence[str], instant_time: str) -> None:
        """The feed has committed rows of these partitions at this instant."""
        self._partitions.committed(self.table, paths, instant_time)

    def _open(self) -> IngestTarget:
        target = self._open_target()
        return replace(target, table=target.table.listed_once())
