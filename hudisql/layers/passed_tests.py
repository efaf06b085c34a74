"""Which tests have passed on which rows, stored with the tables, so that a restart runs only the others.

Each table has fingerprints in a property of its metastore entry: of a test's query, and of the completed
commits of each table that it reads. Tests whose result depends on anything else have none and always run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import is_hudi_table
from hudisql.errors import MetastoreError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.layers.declared_tests import DataTest
from hudisql.layers.project import Project
from hudisql.sql.incremental_tables.definition import PREFIX
from hudisql.sql.query.target_table import open_hudi_entry

if TYPE_CHECKING:
    from hudisql.context import Context

_PROPERTY: Final = f"{PREFIX}tested"
_MOST: Final = 200
_DIGITS: Final = 16
_OF_THE_MOMENT: Final = re.compile(
    r"\b(current_\w+|localtimestamp|session_user|tablesample)\b"
    r"|\b(now|curdate|unix_timestamp|user|uuid|rand|randn|random|randstr|uniform|shuffle|version|reflect"
    r"|java_method|try_reflect|monotonically_increasing_id|spark_partition_id|input_file_\w+)\s*\("
    r"|['\"]\s*(now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
"""Clock, randomness and the like: a needless word makes a test run once more, a missing one skips it wrongly.
"""


@dataclass
class PassedTests:
    """The fingerprints of the project's tests, read from and written to the last model that a test reads."""

    context: Context
    project: Project
    _new: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fingerprint(self, test: DataTest) -> str | None:
        """The fingerprint of the test and of its current rows; None if it must run in any case.

        It must if its text has such functions, or if it reads anything but Hudi tables named in it: views,
        table functions, register-only partitions. Raises MetastoreError, CorruptTableError, StorageError.
        """
        if not test.names_all_tables or varies_by_moment(test.statement.text):
            return None
        states: list[str] = []
        for name in sorted(test.reads):
            entry = self.context.metastore.get_table(*name.split("."))
            if entry is None or not is_hudi_table(entry):
                return None
            table = open_hudi_entry(self.context, entry)
            if table.properties.has_register_only_partitions:
                return None
            states.append(f"{name} {hash_of_commits(table.timeline)}")
        return _hash([test.statement.text, states])

    def has_passed(self, test: DataTest, fingerprint: str | None) -> bool:
        """True if the test has passed on these rows."""
        owner = self._owner(test)
        entry = None if owner is None else self.context.metastore.get_table(*owner.split("."))
        return entry is not None and fingerprint in _listed(entry.parameters)

    def add(self, test: DataTest, fingerprint: str | None) -> None:
        """Record that the test has passed; `save` stores it."""
        owner = self._owner(test)
        if owner is not None and fingerprint is not None:
            with self._lock:
                self._new.setdefault(owner, {})[test.name] = fingerprint

    def save(self) -> None:
        """Store the passed tests. If the metastore fails, a warning says that the tests run again."""
        for owner, passed in self._new.items():
            try:
                entry = self.context.metastore.get_table(*owner.split("."))
                if entry is None:
                    continue
                # Fingerprints of older rows are removed at the end.
                kept = dict.fromkeys([*passed.values(), *_listed(entry.parameters)])
                value = ",".join(list(kept)[:_MOST])
                parameters = {**entry.parameters, _PROPERTY: value}
                alter_guarded(self.context.metastore, entry, replace(entry, parameters=parameters))
            except MetastoreError as error:
                self.context.console.warning(
                    f"the passed tests of {owner} are not stored and run again next time: {error.message}"
                )
        self._new.clear()

    def _owner(self, test: DataTest) -> str | None:
        own = self.project.models_of(test)
        return next((name for name in reversed(self.project.lineage.order) if name in own), None)


def varies_by_moment(text: str) -> bool:
    """True if a query may return other rows later from the same tables."""
    return _OF_THE_MOMENT.search(text) is not None


def hash_of_commits(timeline: Timeline) -> str:
    """A hash of all completed commits: a commit may complete after a later one."""
    return _hash([[commit.timestamp, commit.action, commit.completion_time] for commit in timeline.commits])


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:_DIGITS]


def _listed(parameters: Mapping[str, str]) -> list[str]:
    return [name for name in parameters.get(_PROPERTY, "").split(",") if name]
