"""A table of version 8 or 9 that Apache Hudi 1.2, on its defaults, and hudisql change in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudisql.format.timeline.instant import Instant
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import Shape, noted_rows

# 1.2 reads with data skipping off: by its own statistics it leaves out files that have matching rows.
WITHOUT_SKIPPING = {"hoodie.enable.data.skipping": "false"}


@dataclass
class NewerTable:
    """The table at `path`, in hudisql's session called `name`; `notes` are what its rows must hold, by seq.

    The harness makes 1.2 write version 6 without a metadata table; here it has its own defaults.
    """

    oracle: HudiOracle
    session: Any
    path: str
    name: str
    shape: Shape
    version: int = 9
    notes: dict[int, str | None] = field(default_factory=dict)

    def theirs(self, start: int, stop: int, note: str, options: Mapping[str, str] | None = None) -> None:
        """1.2 upserts the rows of these seqs with this note."""
        self.oracle.upsert(noted_rows(self.shape, start, stop, note), self.path, self.options(options))
        self.notes |= dict.fromkeys(range(start, stop), note)

    def options(self, options: Mapping[str, str] | None = None) -> dict[str, str]:
        """What 1.2 is told when it writes."""
        return {
            **self.shape.write_options(),
            "hoodie.table.name": self.name.rpartition(".")[2],
            "hoodie.write.table.version": str(self.version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "true",
            **(options or {}),
        }

    def call_theirs(
        self, procedure: str, arguments: str = "", options: Mapping[str, str] | None = None
    ) -> pa.Table:
        """Call a procedure of 1.2's, of those that take a path and options."""
        told = ",".join(f"{key}={value}" for key, value in (options or {}).items())
        given = f"path => '{self.path}'{', ' if arguments else ''}{arguments}"
        return self.oracle.sql(f"call {procedure}({given}, options => '{told}')")

    def call_by(self, writer: str, procedure: str) -> None:
        """Call a procedure that takes the table alone, of `hudisql` or of `hudi`."""
        if writer == "hudisql":
            self.call_ours(procedure)
        else:
            self.oracle.sql(f"call {procedure}(path => '{self.path}')")

    def ours(self, note: str, seqs: Iterable[int]) -> None:
        """hudisql updates the rows of these seqs."""
        chosen = sorted(seqs)
        listed = ", ".join(str(each) for each in chosen)
        self.session.sql(f"UPDATE {self.name} SET note = '{note}' WHERE seq IN ({listed})")
        self.notes |= dict.fromkeys(chosen, note)

    def ours_deleted(self, *seqs: int) -> None:
        """hudisql deletes the rows of these seqs."""
        self.session.sql(f"DELETE FROM {self.name} WHERE seq IN ({', '.join(map(str, seqs))})")
        for each in seqs:
            del self.notes[each]

    def call_ours(self, procedure: str, arguments: str = "") -> pa.Table:
        """Call a procedure of hudisql's."""
        given = f"table => '{self.name}'{', ' if arguments else ''}{arguments}"
        return self.session.sql(f"CALL {procedure}({given})").arrow()

    def check(self) -> None:
        """Both read the same rows and meta columns, those of `notes`, also with a filter."""
        theirs = self.oracle.read(self.path, options=WITHOUT_SKIPPING)
        assert_same_rows(self.session.sql(f"SELECT * FROM {self.name}").arrow(), theirs, sort_by=["seq"])
        found = dict(zip(theirs["seq"].to_pylist(), theirs["note"].to_pylist(), strict=True))
        assert found == self.notes
        note = next(note for _, note in sorted(self.notes.items()) if note is not None)
        filtered = self.oracle.read(self.path, options=WITHOUT_SKIPPING, where=f"note = '{note}'")
        assert set(filtered["seq"].to_pylist()) == {seq for seq, each in self.notes.items() if each == note}

    def opened(self) -> HudiTable:
        """The table as it is now."""
        table = open_at(self.path)
        assert table.version == self.version
        return table

    def pending(self) -> list[Instant]:
        """What is pending on its timeline."""
        return list(self.opened().timeline.pending)

    def completed(self, action: str) -> list[Instant]:
        """The completed instants of an action, which all tell when they were completed."""
        found = [each for each in self.opened().timeline.completed if each.action == action]
        assert all(each.completion_time > each.timestamp or each.action == "savepoint" for each in found)
        return found


def new_table(
    oracle: HudiOracle, session: Any, directory: Path, shape: Shape, name: str, version: int = 9
) -> NewerTable:
    """A table of 60 rows that 1.2 makes below `directory`."""
    made = NewerTable(oracle, session, str(directory / "table"), name, shape, version)
    made.theirs(0, 60, "first")
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{made.path}'")
    return made
