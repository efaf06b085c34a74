"""A directory of models and tests, read with a session: names by its database, references by Spark's parser.

A view of the metastore is replaced by the tables that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.layers.declared_tests import DataTest
from hudisql.layers.lineage import Lineage, waits_for_tests
from hudisql.layers.model_files import FileReader, Model, NamesRead, find_files
from hudisql.sql.query.references import find_table_references
from hudisql.sql.query.views import definition_of_metastore_view

if TYPE_CHECKING:
    from hudisql.session import Session


@dataclass(frozen=True)
class Project:
    """Models by full name, tests by their names."""

    directory: Path
    models: Mapping[str, Model]
    tests: Mapping[str, DataTest]

    @cached_property
    def lineage(self) -> Lineage:
        """Which models read which. Its `order` raises InvalidArgumentError for a cycle."""
        return Lineage({name: model.reads for name, model in self.models.items()})

    @cached_property
    def tests_before(self) -> Mapping[str, set[str]]:
        """The tests that must pass before each model is refreshed."""
        return waits_for_tests(self.lineage, {name: test.reads for name, test in self.tests.items()})

    def models_of(self, test: DataTest) -> set[str]:
        """The models that a test reads."""
        return {name for name in test.reads if name in self.models}

    def tests_of(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """The tests that read one of these models, or no model if all are chosen."""
        is_whole = len(chosen) == len(self.models)
        return tuple(
            name
            for name, test in self.tests.items()
            if self.models_of(test) & set(chosen) or (is_whole and not self.models_of(test))
        )


def load_project(session: Session, directory: Path) -> Project:
    """Read the files below a directory.

    Raises InvalidArgumentError for files that are neither models nor tests, duplicate names and cycles,
    SqlSyntaxError, StorageError, UndefinedVariableError.
    """
    model_files, test_files = find_files(directory)
    reader = FileReader(session.substitute, _Names(session).full, _Names(session).read_by)
    models: dict[str, Model] = {}
    for file in model_files:
        model = reader.model(file)
        if model.name in models:
            raise InvalidArgumentError(
                f"{model.name} is created by {models[model.name].file.path} and by {file.path}",
                hint="a table has one file",
            )
        models[model.name] = model
    tests = {test.name: test for model in models.values() for test in model.tests}
    tests |= {data_test.name: data_test for data_test in map(reader.test, test_files)}
    project = Project(directory, models, tests)
    _ = project.lineage.order
    return project


@dataclass(frozen=True)
class _Names:
    session: Session

    def full(self, name: str) -> str:
        return ".".join(self.session.context.qualify_table_name(name))

    def read_by(self, query: str) -> NamesRead:
        """What a query of a file reads."""
        found = list(self._read_by(query, self.session.context.current_database, frozenset()))
        tables = dict.fromkeys(name for name, _ in found if name)
        return NamesRead(tuple(tables), is_literal=all(is_literal for _, is_literal in found))

    def _read_by(
        self, query: str, database: str, inside: frozenset[tuple[str, str]]
    ) -> Iterator[tuple[str, bool]]:
        """The full names, empty if not known, and whether all are in the text itself."""
        context = self.session.context
        for reference in find_table_references(self.session.spark, query):
            if reference.form == "function" or not reference.parts:
                yield "", False
                continue
            *above, table = reference.parts[-2:]
            name = context.qualify_table_name(".".join(map(quote_name, [*(above or [database]), table])))
            entry = context.metastore.get_table(*name)
            view = None if entry is None or not entry.is_view else definition_of_metastore_view(entry)
            if view is not None and name not in inside:
                yield from self._read_by(view.text, view.database, inside | {name})
            else:
                yield ".".join(name), not inside
            if view is not None:
                yield "", False
