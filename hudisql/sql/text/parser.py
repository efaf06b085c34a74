"""From the text of one statement to a typed statement (`statements.py`).

The kind of statement and the table that it changes are read from its tokens, which works for any form of
Spark SQL. Statements with constants as arguments (CALL, SHOW PARTITIONS) are parsed by sqlglot
(`syntax_tree.py`, a lazy import). Knows neither Spark nor the metastore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hudisql.sql.text import statements as st
from hudisql.sql.text.incremental_clauses import read_alter, read_create, read_refresh
from hudisql.sql.text.procedure_statements import is_procedure, read_procedure
from hudisql.sql.text.script import position_at, split_script, syntax_error
from hudisql.sql.text.statement_cursor import StatementCursor
from hudisql.sql.text.tokens import Token, tokenize

_QUERY_HEADS: Final = frozenset({"SELECT", "VALUES", "TABLE", "MAP", "REDUCE", "("})
_DIRECTORY: Final = "INSERT OVERWRITE DIRECTORY"
_SPLITS: Final = frozenset(";'\"`")
"""The end of a statement, and what begins a string or name that is not closed."""
_EXPLAIN_MODES: Final = frozenset({"EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"})


def parse_statement(text: str, *, line: int = 1, column: int = 1) -> st.Statement:
    """The typed form of one statement; `line` and `column` say where it starts in its script.

    Raises SqlSyntaxError (line, column, marked text) if it is empty, has more than one statement, or cannot
    be parsed.
    """
    body = text.lstrip()
    tokens = _tokens_up_to_end(body)
    if tokens is not None:
        line, column = position_at(text, len(text) - len(body), line, column)
        end = tokens.pop().start if tokens[-1].text == ";" else len(body)
        return _Parser(body[:end].rstrip(), tokens, line, column).parse()
    script_statements = split_script(text)
    if not script_statements:
        raise syntax_error("there is no statement here", text, 0, line=line, column=column)
    if len(script_statements) > 1:
        offset = text.index(script_statements[1].text, len(script_statements[0].text))
        raise syntax_error("more than one statement", text, offset, line=line, column=column)
    only = script_statements[0]
    column = column + only.column - 1 if only.line == 1 else only.column
    line += only.line - 1
    return _Parser(only.text, tokenize(only.text), line, column).parse()


def _tokens_up_to_end(text: str) -> list[Token] | None:
    """The tokens of a text that is one statement, up to its first semicolon; None if that is not sure.

    Of comments and blocks, and of what is not closed, `split_script` knows the rules.
    """
    if "/*" in text or text.startswith("--"):
        return None
    tokens = tokenize(text)
    end = next((at for at, token in enumerate(tokens) if token.text in _SPLITS), len(tokens))
    is_block = any(token.is_keyword("BEGIN") for token in tokens[:3])
    if end == 0 or is_block or any(token.text != ";" for token in tokens[end:]):
        return None
    return tokens[: end + 1]


class _Parser(StatementCursor):
    """Reads the tokens of one statement from left to right."""

    def parse(self) -> st.Statement:
        statement = self._statement()
        vars(statement)["tokens"] = self.tokens
        return statement

    def _statement(self) -> st.Statement:
        if is_procedure(self):
            return read_procedure(self)
        head = self.word()
        reader = _READERS.get(head)
        if reader is not None:
            return reader(self)
        if head in _QUERY_HEADS:
            return st.QueryStatement(self.text)
        return st.PassThroughStatement(self.text, " ".join(filter(None, [head, self.word(1)])))

    def tail(self, index: int) -> str:
        """The text from a token on."""
        return self.text[self.tokens[index].start :] if index < len(self.tokens) else ""

    def syntax_tree(self) -> st.Statement:
        """A statement with constants as arguments."""
        from hudisql.sql.text.syntax_tree import parse_own_statement

        return parse_own_statement(self)

    def with_query(self) -> st.Statement:
        """WITH: a query, or an INSERT after its common table expressions."""
        self.skip("WITH")
        while not self.is_at_end:
            while not self.is_at_end and self.word() != "(":
                self.at += 1
            if self.is_at_end:
                break
            self.skip_brackets()
            if self.word() in ("AS", "MAX", ","):
                continue
            reader = _CHANGES.get(self.word())
            return reader(self) if reader is not None else self.from_query()
        return st.QueryStatement(self.text)

    def from_query(self) -> st.Statement:
        """FROM …: a query, or Hive's FROM … INSERT … INSERT …"""
        targets: list[st.TableName] = []
        overwrite = False
        is_from = self.word() == "FROM"
        while is_from and not self.is_at_end:
            if self.word() == "(":
                self.skip_brackets()
            elif self.word() == "INSERT" and self.word(1) in ("INTO", "OVERWRITE"):
                overwrite = overwrite or self.word(1) == "OVERWRITE"
                self.at += 2
                if self._is_directory():
                    continue
                self.skip("TABLE")
                targets.append(self.table_name())
            else:
                self.at += 1
        if not targets:
            # If it only overwrites directories, it has no target table.
            return (
                st.PassThroughStatement(self.text, _DIRECTORY) if overwrite else st.QueryStatement(self.text)
            )
        return st.InsertStatement(self.text, targets[0], overwrite, tuple(targets))

    def insert(self) -> st.Statement:
        self.skip("INSERT")
        kind = self.skip_one_of("INTO", "OVERWRITE")
        if not kind:
            self.fail("INTO or OVERWRITE is missing")
        if self._is_directory():
            return st.PassThroughStatement(self.text, _DIRECTORY)
        if self.word() == "TABLE" and self.word(1) != ".":
            self.skip("TABLE")
        table = self.table_name()
        return st.InsertStatement(self.text, table, kind == "OVERWRITE", (table,))

    def _is_directory(self) -> bool:
        return self.word() == "DIRECTORY" or (self.word() == "LOCAL" and self.word(1) == "DIRECTORY")

    def update(self) -> st.Statement:
        self.skip("UPDATE")
        return st.UpdateStatement(self.text, self.table_name())

    def delete(self) -> st.Statement:
        self.skip("DELETE")
        self.expect("FROM")
        return st.DeleteStatement(self.text, self.table_name())

    def merge(self) -> st.Statement:
        self.skip("MERGE")
        self.skip("WITH", "SCHEMA", "EVOLUTION")
        self.expect("INTO")
        return st.MergeStatement(self.text, self.table_name())

    def truncate(self) -> st.Statement:
        self.skip("TRUNCATE")
        self.skip("TABLE")
        return st.TruncateStatement(self.text, self.table_name())

    def alter(self) -> st.Statement:
        if self.skip("ALTER", "TABLE"):
            return st.AlterTableStatement(self.text, self.table_name())
        if self.skip("ALTER", "INCREMENTAL", "TABLE"):
            return read_alter(self)
        if self.skip("ALTER", "VIEW"):
            name = self.table_name()
            if self.word() == "AS" or self.word() in _QUERY_HEADS:
                return st.CreateViewStatement(self.text, name, replaces=True)
        return st.PassThroughStatement(self.text, "ALTER")

    def comment(self) -> st.Statement:
        self.skip("COMMENT")
        self.skip("ON")
        kind = self.skip_one_of("TABLE", "COLUMN")
        if not kind:
            return st.PassThroughStatement(self.text, "COMMENT ON")
        name = self.table_name()
        parts = name.parts if kind == "TABLE" else name.parts[:-1]
        return st.CommentOnStatement(self.text, st.TableName(parts or name.parts))

    def drop(self) -> st.Statement:
        self.skip("DROP")
        if self.word(1) == "TABLE":
            self.skip("INCREMENTAL")
        if self.skip_one_of("DATABASE", "SCHEMA"):
            if_exists = self.skip("IF", "EXISTS")
            database = self.table_name().parts[-1]
            return st.DropDatabaseStatement(self.text, database, if_exists, self.word() == "CASCADE")
        if not self.skip("TABLE"):
            return st.PassThroughStatement(self.text, f"DROP {self.word()}")
        if_exists = self.skip("IF", "EXISTS")
        table = self.table_name()
        purge = self.skip("PURGE")
        self.expect_end()
        return st.DropTableStatement(self.text, table, if_exists, purge)

    def create(self) -> st.Statement:
        """CREATE VIEW and CREATE TABLE (also REPLACE TABLE); other CREATE statements are passed to Spark."""
        head = self.skip_one_of("CREATE", "REPLACE")
        replaces = self.skip("OR", "REPLACE") or head == "REPLACE"
        if self.skip("INCREMENTAL", "TABLE"):
            return read_create(self)
        self.skip_one_of("GLOBAL", "EXTERNAL")
        temporary = bool(self.skip_one_of("TEMPORARY", "TEMP"))
        if self.skip("VIEW"):
            self.skip("IF", "NOT", "EXISTS")
            view = self.table_name()
            if self._depth_zero("USING") is not None and self._query_start() is None:
                return st.PassThroughStatement(self.text, "CREATE VIEW USING")
            return st.CreateViewStatement(self.text, view, temporary, replaces)
        if not self.skip("TABLE"):
            return st.PassThroughStatement(self.text, f"CREATE {self.word()}")
        if_not_exists = self.skip("IF", "NOT", "EXISTS")
        table = self.table_name()
        like = self.table_name() if self.skip("LIKE") else None
        using = self._depth_zero("USING")
        provider = "" if using is None else self._dotted_text(using + 1).lower()
        query = self._query_start()
        if query is None:
            return st.CreateTableStatement(self.text, table, provider, like, if_not_exists, replaces)
        start = self.tokens[query].start
        return st.CreateTableAsStatement(self.text, table, provider, None, if_not_exists, replaces, start)

    def _dotted_text(self, index: int) -> str:
        self.at = index
        return str(self.table_name())

    def _depth_zero(self, *words: str) -> int | None:
        """The index of the next of these words outside of brackets, before a query."""
        depth = 0
        for index in range(self.at, len(self.tokens)):
            word = self.word(index - self.at)
            depth += {"(": 1, ")": -1}.get(word, 0)
            if depth == 0 and word in words and index + 1 < len(self.tokens):
                return index
            if depth == 0 and word in ("SELECT", "WITH", "VALUES"):
                return None
        return None

    def _query_start(self) -> int | None:
        """The index of the query's first token after the definition of a table or view."""
        depth = 0
        for index in range(self.at, len(self.tokens)):
            word = self.word(index - self.at)
            previous = self.word(index - 1 - self.at) if index else ""
            if depth == 0 and (
                word in ("SELECT", "WITH", "VALUES", "FROM")
                or (previous == "AS" and word in ("TABLE", "(", "MAP", "REDUCE"))
            ):
                return index
            depth += {"(": 1, ")": -1}.get(word, 0)
        return None

    def explain(self) -> st.Statement:
        self.skip("EXPLAIN")
        mode = ""
        if self.word() in _EXPLAIN_MODES:
            mode = self.word()
            self.at += 1
        if self.is_at_end:
            self.fail("a statement is missing after EXPLAIN")
        start = self.tokens[self.at].start
        inner = self.text[start:]
        line, column = position_at(self.text, start, self.line, self.column)
        tokens = [
            replace(token, start=token.start - start, end=token.end - start)
            for token in self.tokens[self.at :]
        ]
        explained = _Parser(inner, tokens, line, column).parse()
        return st.ExplainStatement(self.text, mode, explained)

    def show(self) -> st.Statement:
        if self.word(1) == "PARTITIONS":
            return self.syntax_tree()
        if self.skip("SHOW", "CREATE", "TABLE"):
            table = self.table_name()
            self.skip("AS", "SERDE")
            self.expect_end()
            return st.ShowCreateTableStatement(self.text, table)
        if self.skip("SHOW", "COLUMNS"):
            return self._show_columns()
        if self.skip("SHOW", "TBLPROPERTIES"):
            table = self.table_name()
            key = self.tail(self.at).strip().removeprefix("(").removesuffix(")").strip()
            return st.ShowPropertiesStatement(self.text, table, key.strip("'\"") or None)
        return st.PassThroughStatement(self.text, f"SHOW {self.word(1)}")

    def _show_columns(self) -> st.Statement:
        if not self.skip_one_of("IN", "FROM"):
            self.fail("IN or FROM is missing")
        table = self.table_name()
        if self.skip_one_of("IN", "FROM"):
            table = st.TableName((self.name_part(), table.parts[-1]))
        self.expect_end()
        return st.ShowColumnsStatement(self.text, table)

    def repair(self) -> st.Statement:
        self.skip("MSCK")
        if not self.skip("REPAIR", "TABLE"):
            self.at = 0
            self.fail("this should be [MSCK] REPAIR TABLE")
        table = self.table_name()
        if self.skip_one_of("ADD", "DROP", "SYNC"):
            self.expect("PARTITIONS")
        self.expect_end()
        return st.MsckRepairStatement(self.text, table)

    def describe(self) -> st.Statement:
        self.at += 1
        if self.word() in ("DATABASE", "SCHEMA", "FUNCTION", "CATALOG", "PROCEDURE", "NAMESPACE"):
            return st.PassThroughStatement(self.text, f"DESCRIBE {self.word()}")
        if self.skip("QUERY") or self.word() in _QUERY_HEADS - {"TABLE"} | {"WITH", "FROM"}:
            return st.DescribeQueryStatement(self.text)
        self.skip("TABLE")
        extended = bool(self.skip_one_of("EXTENDED", "FORMATTED"))
        table = self.table_name()
        rest = self.tail(self.at)
        is_column = bool(rest) and self.word() not in ("PARTITION", "AS")
        column = ".".join(self.table_name().parts) if is_column else None
        return st.DescribeStatement(self.text, table, extended, column, rest)

    def cache(self) -> st.Statement:
        self.skip("CACHE")
        self.skip("LAZY")
        if not self.skip("TABLE"):
            return st.PassThroughStatement(self.text, "CACHE")
        return st.CacheTableStatement(self.text, self.table_name(), self._query_start() is not None)

    def uncache(self) -> st.Statement:
        self.skip("UNCACHE", "TABLE")
        self.skip("IF", "EXISTS")
        return st.UncacheTableStatement(self.text, self.table_name())

    def refresh(self) -> st.Statement:
        self.skip("REFRESH")
        if self.skip("INCREMENTAL", "TABLE"):
            return read_refresh(self)
        if (token := self.peek()) is not None and token.kind == "string":
            return st.PassThroughStatement(self.text, "REFRESH")
        if self.word() == "FUNCTION":
            return st.PassThroughStatement(self.text, "REFRESH FUNCTION")
        self.skip("TABLE")
        return st.RefreshTableStatement(self.text, self.table_name())


_CHANGES: Final[dict[str, Callable[[_Parser], st.Statement]]] = {
    "INSERT": _Parser.insert,
    "UPDATE": _Parser.update,
    "DELETE": _Parser.delete,
    "MERGE": _Parser.merge,
}
_READERS: Final[dict[str, Callable[[_Parser], st.Statement]]] = {
    **_CHANGES,
    "CALL": _Parser.syntax_tree,
    "WITH": _Parser.with_query,
    "FROM": _Parser.from_query,
    "TRUNCATE": _Parser.truncate,
    "ALTER": _Parser.alter,
    "COMMENT": _Parser.comment,
    "DROP": _Parser.drop,
    "CREATE": _Parser.create,
    "REPLACE": _Parser.create,
    "EXPLAIN": _Parser.explain,
    "SHOW": _Parser.show,
    "MSCK": _Parser.repair,
    "REPAIR": _Parser.repair,
    "DESCRIBE": _Parser.describe,
    "DESC": _Parser.describe,
    "CACHE": _Parser.cache,
    "UNCACHE": _Parser.uncache,
    "REFRESH": _Parser.refresh,
    "USE": lambda parser: st.UseStatement(parser.text),
    "BEGIN": lambda parser: st.BlockStatement(parser.text),
    "EXECUTE": lambda parser: st.ExecuteImmediateStatement(parser.text),
}
