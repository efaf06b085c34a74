"""Completion of statements: keywords, databases, tables, columns, procedures and their parameters.

The words before the cursor determine the candidates. Nothing is parsed: a statement that is being typed is
rarely complete.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hudisql.errors import HudisqlError

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context


_KEYWORDS: Final = """
ADD ALL ALTER ANALYZE AND ANTI AS ASC BEGIN BETWEEN BY CACHE CALL CASCADE CASE CAST CLUSTER COLUMN
COLUMNS COMMENT CREATE CROSS DATABASE DATABASES DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT
EXISTS EXPLAIN EXTENDED FALSE FROM FULL FUNCTIONS GROUP HAVING IF IN INNER INSERT INTERSECT INTERVAL
INTO IS JOIN LATERAL LEFT LIKE LIMIT LOCATION MATCHED MERGE NOT NULL ON OPTIONS OR ORDER OUTER OVER
OVERWRITE PARTITION PARTITIONED PARTITIONS REFRESH RENAME REPLACE RIGHT SELECT SEMI SET SHOW TABLE
TABLES TBLPROPERTIES TEMPORARY THEN TIMESTAMP TO TRUE TRUNCATE UNION UPDATE USE USING VALUES VERSION
VIEW VIEWS WHEN WHERE WINDOW WITH
"""
_FIRST_WORDS: Final = """
ALTER ANALYZE BEGIN CALL CREATE DELETE DESCRIBE DROP EXPLAIN INSERT MERGE REFRESH SELECT SET SHOW
TRUNCATE UPDATE USE WITH help quit source
"""
_BEFORE_TABLES: Final = frozenset(
    ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "DESC", "USING", "VIEW", "OVERWRITE"]
)
_BEFORE_DATABASES: Final = frozenset(["USE", "DATABASE", "SCHEMA"])
_TABLE_PARAMETERS: Final = ("table", "new_table", "source_table")
_WORD: Final = re.compile(r"[\w.`\\]*$")
_TOKEN: Final = re.compile(r"\\[a-z]+\+?|--[^\n]*|'(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?|[\w.`]+|=>|\S")
_REFERENCE: Final = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|USING|TABLE)\s+([\w.`]+)(?:\s+(?:AS\s+)?(?!(?:ON|USING|WHERE|SET|WHEN|JOIN|LEFT|RIGHT|"
    r"INNER|FULL|CROSS|GROUP|ORDER|LIMIT|VALUES|SELECT|PARTITION|UNION|HAVING)\b)(\w+))?",
    re.IGNORECASE,
)
_COMMANDS: Final = (
    *("\\l", "\\c", "\\d", "\\d+", "\\dt", "\\df", "\\i", "\\x", "\\f", "\\limit", "\\timing", "\\o", "\\e"),
    *("\\?", "\\q"),
)
_META_PREFIX: Final = "_hoodie_"
_KEPT_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Candidate:
    """A completion of the word before the cursor, and its kind."""

    text: str
    kind: str


class StatementCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: CatalogNames) -> None:
        self._names = names
        self._last_tables: Sequence[tuple[str, str]] = ()

    def remember(self, text: str) -> None:
        """Keep the tables of a statement that runs, whose columns are completed before the next FROM."""
        self._last_tables = _REFERENCE.findall(text) or self._last_tables

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """The completions of the word before the cursor, in alphabetical order within each kind."""
        before = document.text_before_cursor
        word = _word_of(before)
        for candidate in candidates(before, document.text, self._names, self._last_tables):
            yield Completion(candidate.text, start_position=-len(word), display_meta=candidate.kind)


def candidates(
    before: str, text: str, names: CatalogNames, last_tables: Sequence[tuple[str, str]] = ()
) -> list[Candidate]:
    """The completions of the last word of `before`, the part of `text` that ends at the cursor.

    A statement that names no table yet has the columns of `last_tables`, (name, alias) each.
    """
    word = _word_of(before)
    tokens = _tokens_of_last_statement(before[: len(before) - len(word)])
    statement = text[text.rfind(";", 0, len(before)) + 1 :].split(";")[0]
    tables = _REFERENCE.findall(statement) or last_tables
    possible = _possible(word, tokens, tables, names)
    found = [
        candidate
        for candidate in possible
        if candidate.text.lower().startswith(word.lower()) and candidate.text != word
    ]
    if word and word.islower():
        found = [Candidate(_lower(candidate), candidate.kind) for candidate in found]
    return list(dict.fromkeys(found))


def _lower(candidate: Candidate) -> str:
    return candidate.text.lower() if candidate.kind == "keyword" else candidate.text


def _word_of(before: str) -> str:
    found = _WORD.search(before)
    assert found is not None
    return found.group()


def _tokens_of_last_statement(before: str) -> list[str]:
    tokens = [token for token in _TOKEN.findall(before) if not token.startswith("--")]
    while ";" in tokens:
        tokens = tokens[tokens.index(";") + 1 :]
    return tokens


def _possible(
    word: str, tokens: list[str], tables: Sequence[tuple[str, str]], names: CatalogNames
) -> Iterator[Candidate]:
    if not tokens:
        yield from (Candidate(command, "command") for command in _COMMANDS if word.startswith("\\"))
        yield from (Candidate(keyword, "keyword") for keyword in _FIRST_WORDS.split())
        return
    last = tokens[-1].upper()
    if tokens[0].upper() == "CALL":
        yield from _of_call(word, tokens, names)
    elif _is_open_string(tokens[-1]):
        return
    elif tokens[0].upper() == "CREATE" and last == "USING":
        yield from (Candidate(table_format, "format") for table_format in ("hudi", "parquet"))
    elif last in _BEFORE_DATABASES or tokens[0].lower() == "\\c":
        yield from (Candidate(database, "database") for database in names.databases())
    elif last in _BEFORE_TABLES or tokens[0] in ("\\d", "\\d+", "\\dt"):
        yield from _tables(word, names)
    else:
        yield from _columns(word, tables, names)
        yield from (Candidate(keyword, "keyword") for keyword in _KEYWORDS.split())


def _is_open_string(token: str) -> bool:
    return token[0] in "'\"" and (len(token) == 1 or token[-1] != token[0])


def _tables(word: str, names: CatalogNames) -> Iterator[Candidate]:
    database, dot, _ = word.rpartition(".")
    if dot:
        yield from (Candidate(f"{database}.{table}", "table") for table in names.tables(database.strip("`")))
        return
    yield from (Candidate(table, "table") for table in names.tables(names.current_database))
    yield from (Candidate(f"{database}.", "database") for database in names.databases())


def _columns(word: str, tables: Sequence[tuple[str, str]], names: CatalogNames) -> Iterator[Candidate]:
    """The columns of data of all tables, then Hudi's meta columns."""
    found = list(_columns_of(word, tables, names))
    yield from sorted(found, key=lambda candidate: candidate.text.rpartition(".")[2].startswith(_META_PREFIX))


def _columns_of(word: str, tables: Sequence[tuple[str, str]], names: CatalogNames) -> Iterator[Candidate]:
    qualifier, dot, _ = word.rpartition(".")
    for table, alias in tables:
        database, _, name = table.replace("`", "").rpartition(".")
        columns = names.columns(database or names.current_database, name)
        if not dot:
            yield from (Candidate(column, "column") for column in columns)
        elif qualifier.lower() in (alias.lower(), name.lower(), table.lower()):
            yield from (Candidate(f"{qualifier}.{column}", "column") for column in columns)


def _of_call(word: str, tokens: list[str], names: CatalogNames) -> Iterator[Candidate]:
    procedures = _procedures()
    if len(tokens) == 1:
        yield from (Candidate(f"{procedure}(", "procedure") for procedure in procedures)
        return
    last = tokens[-1]
    if last in ("(", ","):
        given = {name.lower() for name, arrow in pairwise(tokens) if arrow == "=>"}
        for name in procedures.get(tokens[1].lower().rpartition(".")[2], ()):
            if name not in given:
                yield Candidate(f"{name} => ", "parameter")
    elif _is_open_string(last) and len(tokens) > 2 and tokens[-2] == "=>" and tokens[-3] in _TABLE_PARAMETERS:
        yield from _tables(word, names)


def _procedures() -> dict[str, Iterable[str]]:
    """The parameters' names of each procedure."""
    from hudisql.procedures.registry import load_procedures
    from hudisql.sql import procedure_call  # noqa: F401 (declares the procedures of `sql`)

    return {
        name: [parameter.name for parameter in declared.parameters]
        for name, declared in load_procedures().items()
    }


class CatalogNames:
    """Databases, tables and columns of the session's metastore; empty while that does not answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}

    @property
    def current_database(self) -> str:
        """The database of unqualified names."""
        return self._context.current_database

    def databases(self) -> Sequence[str]:
        """All databases."""
        return self._names(("databases",), lambda client: client.list_databases())

    def tables(self, database: str) -> Sequence[str]:
        """The tables and views of a database."""
        return self._names(("tables", database.lower()), lambda client: client.list_tables(database))

    def columns(self, database: str, table: str) -> Sequence[str]:
        """The columns of a table, partition columns last; none if there is no such table."""

        def found(client: MetastoreClient) -> Sequence[str]:
            entry = client.get_table(database, table)
            return (
                ()
                if entry is None
                else [column.name for column in (*entry.columns, *entry.partition_columns)]
            )

        return self._names(("columns", database.lower(), table.lower()), found)

    def _names(self, key: tuple[str, ...], ask: Callable[[MetastoreClient], Sequence[str]]) -> Sequence[str]:
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < _KEPT_SECONDS:
            return kept[1]
        client = self._context.started_metastore
        if client is None:
            return ()
        try:
            names = tuple(ask(client))
        except HudisqlError:
            return ()
        self._kept[key] = time.monotonic(), names
        return names
