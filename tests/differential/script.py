"""A differential script: SQL that two engines run, and what its comments say of the comparison.

Comment lines before the first statement are the header, `-- name: value` each:
`shows` (required), `oracle` (hudi-0.15, delta or none), `meta` (compared meta columns; `commit` stands for
the rank of a row's commit among those of the table's rows), `rows NAME` (hudisql's rows of that table, or of
`query N`, as JSON lists, where they differ from the oracle's or where there is none) and `why` (required with
`rows`). A comment `-- fails: both`, `-- fails: oracle` or `-- fails: hudisql TEXT` on the line above a
statement says who refuses it. `WRITE operation INTO table [OPTIONS ('k' = 'v', …)] query` is a DataFrame
written.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudisql.sql.text.script import split_script

SCRIPTS = Path(__file__).parent / "scripts"
ORACLES = ("hudi-0.15", "delta", "none")
META_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path")
_HEADER = re.compile(r"^--\s*(\w+)(?:\s+(\w+(?: \d+)?))?:\s*(.*)$")
_WRITE = re.compile(
    r"WRITE\s+(?P<operation>\w+)\s+INTO\s+(?P<table>\w+)(?:\s+OPTIONS\s*\((?P<options>[^)]*)\))?\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"'([^']+)'\s*=\s*'([^']*)'")
_MADE = re.compile(
    r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\b.*\bUSING\s+hudi", re.IGNORECASE | re.DOTALL
)
_VIEW = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(\w+)", re.IGNORECASE)
_SETTING = re.compile(r"SET\s+([\w.]+)\s*=", re.IGNORECASE)
_DROPPED = re.compile(r"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?(\w+)", re.IGNORECASE)
_RENAMED = re.compile(r"ALTER\s+TABLE\s+(\w+)\s+RENAME\s+TO\s+(\w+)", re.IGNORECASE)
_QUERY = re.compile(r"(SELECT|WITH|SHOW)\b", re.IGNORECASE)


@dataclass(frozen=True)
class FrameWrite:
    """A DataFrame written: the rows of `query` into `table` by a Hudi operation."""

    operation: str
    table: str
    options: dict[str, str]
    query: str


@dataclass(frozen=True)
class Step:
    """One statement. `fails` says who refuses it: '' (nobody), both, oracle or hudisql; `said` by what."""

    text: str
    fails: str = ""
    said: str = ""

    @property
    def is_query(self) -> bool:
        """True if its rows are compared."""
        return _QUERY.match(self.text) is not None

    @property
    def write(self) -> FrameWrite | None:
        """The DataFrame write that it stands for, if it does."""
        found = _WRITE.match(self.text)
        if found is None:
            return None
        options = dict(_OPTION.findall(found["options"] or ""))
        return FrameWrite(found["operation"], found["table"], options, found["query"])

    def fails_in(self, engine: str) -> bool:
        """True if this engine (`hudisql`, or else the oracle) must refuse it."""
        return self.fails in ("both", "hudisql" if engine == "hudisql" else "oracle")


@dataclass(frozen=True)
class DifferentialScript:
    """A script as read from its file. `rows` are hudisql's where they are not the oracle's."""

    name: str
    shows: str
    oracle: str
    meta: tuple[str, ...]
    rows: dict[str, list[list[Any]]]
    steps: tuple[Step, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The Hudi tables that it made and that are there in the end."""
        names: list[str] = []
        for step in self.steps:
            if step.fails:
                continue
            if found := _MADE.match(step.text):
                names.append(found[1])
            if found := _DROPPED.match(step.text):
                names.remove(found[1])
            if found := _RENAMED.match(step.text):
                names[names.index(found[1])] = found[2]
        return tuple(names)

    @property
    def views(self) -> tuple[str, ...]:
        """The temporary views that it leaves behind."""
        return tuple(dict.fromkeys(found[1] for step in self.steps if (found := _VIEW.match(step.text))))

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that it leaves behind."""
        return tuple(dict.fromkeys(found[1] for step in self.steps if (found := _SETTING.match(step.text))))


def read_scripts() -> list[DifferentialScript]:
    """All scripts of the directory, by name."""
    return [read_script(path) for path in sorted(SCRIPTS.glob("*.sql"))]


def read_script(path: Path) -> DifferentialScript:
    """Read one script. Raises ValueError if its header does not say what it must."""
    text = path.read_text()
    lines = text.splitlines()
    header: dict[str, str] = {}
    rows: dict[str, list[list[Any]]] = {}
    for line in lines:
        if not line.startswith("--"):
            break
        found = _HEADER.match(line)
        if found is None:
            raise ValueError(f"{path.name}: the header line '{line}' is not '-- name: value'")
        if found[1] == "rows":
            rows[found[2]] = json.loads(found[3])
        else:
            header[found[1]] = f"{header[found[1]]} {found[3]}" if found[1] in header else found[3]
    oracle = header.get("oracle", ORACLES[0])
    if "shows" not in header or oracle not in ORACLES or bool(rows) != ("why" in header):
        raise ValueError(
            f"{path.name}: 'shows' is required, 'oracle' is one of {ORACLES}, 'rows' go with 'why'"
        )
    meta = tuple(header["meta"].replace(",", " ").split()) if "meta" in header else META_COLUMNS
    return DifferentialScript(
        name=path.stem,
        shows=header["shows"],
        oracle=oracle,
        meta=meta if oracle == "hudi-0.15" else (),
        rows=rows,
        steps=tuple(_read_step(each.text, lines[each.line - 2]) for each in split_script(text)),
    )


def _read_step(text: str, line_above: str) -> Step:
    found = re.match(r"--\s*fails:\s*(both|oracle|hudisql)\b\s*(.*)", line_above)
    return Step(text) if found is None else Step(text, found[1], found[2].strip())
