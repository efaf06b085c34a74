"""The files of a project of layers: one CREATE INCREMENTAL TABLE each, its tests in the comments above it.

Files below `tests` contain one query each, which must return no rows. This module knows no tables: the caller
finds the names that a query reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hudisql.errors import InvalidArgumentError, SqlSyntaxError, StorageError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.layers.declared_tests import DataTest, SqlFile, declared_tests
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import ScriptStatement, split_script

TESTS_DIRECTORY: Final = "tests"


@dataclass(frozen=True)
class Model:
    """One incremental table of the project; `reads` are the full names of the tables and views of its query.

    `statement` has the text with the values of its variables.
    """

    name: str
    file: SqlFile
    statement: ScriptStatement
    definition: st.CreateIncrementalTableStatement
    reads: tuple[str, ...]
    tests: tuple[DataTest, ...]

    @property
    def query(self) -> str:
        """The query after AS."""
        return self.definition.text[self.definition.query_start :]


@dataclass(frozen=True)
class NamesRead:
    """The full names of the tables that a query reads, those behind views too.

    `is_literal` is false if it reads a view, a table function or a name that is unknown before it runs.
    """

    tables: tuple[str, ...]
    is_literal: bool = True


@dataclass(frozen=True)
class FileReader:
    """Context for reading files: values of variables, full names, and the names that a query reads."""

    substitute: Callable[[ScriptStatement], str]
    qualify: Callable[[str], str]
    names_read: Callable[[str], NamesRead]

    def model(self, file: SqlFile) -> Model:
        """The model of a file. Raises InvalidArgumentError, SqlSyntaxError, StorageError."""
        text = _read(file.path)
        statement = self._only_statement(text, file)
        parsed = parse_statement(statement.text, line=statement.line, column=statement.column)
        if not isinstance(parsed, st.CreateIncrementalTableStatement):
            raise InvalidArgumentError(
                f"{file.path}:{statement.line}: expected CREATE INCREMENTAL TABLE",
                hint=f"a model file has one, files of the directory {TESTS_DIRECTORY} have queries; put "
                "other statements into another directory (hudisql -f, hudisql migrate)",
            )
        name = self.qualify(".".join(map(quote_name, parsed.table.parts)))
        head = text.splitlines()[: statement.line - 1]
        tests = declared_tests(name, file, head, self.qualify)
        model = Model(name, file, statement, parsed, (), tests)
        return replace(model, reads=self._reads(model.query, file).tables)

    def test(self, file: SqlFile) -> DataTest:
        """The test of a file. Raises InvalidArgumentError, SqlSyntaxError, StorageError."""
        statement = self._only_statement(_read(file.path), file)
        parsed = parse_statement(statement.text, line=statement.line, column=statement.column)
        if not isinstance(parsed, st.QueryStatement):
            raise InvalidArgumentError(f"{file.path}:{statement.line}: expected a query as test")
        name = Path(file.name).relative_to(TESTS_DIRECTORY).with_suffix("").as_posix()
        reads = self._reads(statement.text, file)
        return DataTest(name, statement, file, reads.tables, names_all_tables=reads.is_literal)

    def _only_statement(self, text: str, file: SqlFile) -> ScriptStatement:
        try:
            statements = split_script(text)
        except SqlSyntaxError as error:
            raise SqlSyntaxError(f"{file.path}: {error.message}", hint=error.hint) from error
        if len(statements) != 1:
            raise InvalidArgumentError(
                f"{file.path} has {len(statements) or 'no'} statements, expected one",
                hint="a file has one CREATE INCREMENTAL TABLE, or one query of a test",
            )
        return replace(statements[0], text=self.substitute(statements[0]))

    def _reads(self, query: str, file: SqlFile) -> NamesRead:
        try:
            return self.names_read(query)
        except SqlSyntaxError as error:
            raise SqlSyntaxError(f"{file.path}: {error.message}", hint=error.hint) from error


def find_files(directory: Path) -> tuple[list[SqlFile], list[SqlFile]]:
    """The files of the models and of the tests below a directory, by name. Raises InvalidArgumentError."""
    if not directory.is_dir():
        raise InvalidArgumentError(
            f"{directory} is not a directory", hint="name that of the models' .sql files"
        )
    sql_files = [
        SqlFile(path, path.relative_to(directory).as_posix()) for path in sorted(directory.rglob("*.sql"))
    ]
    tests = [sql_file for sql_file in sql_files if Path(sql_file.name).parts[0] == TESTS_DIRECTORY]
    models = [sql_file for sql_file in sql_files if sql_file not in tests]
    if not models:
        raise InvalidArgumentError(
            f"{directory} has no models", hint="a model is a .sql file with one CREATE INCREMENTAL TABLE"
        )
    return models, tests


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
