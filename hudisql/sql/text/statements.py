"""Statements as values: the kind of a SQL text, and the tables that are its targets.

`parser.parse_statement` creates them, `executor.execute` dispatches on them. They contain the user's own text
unchanged (Spark runs that, never regenerated SQL) and know neither Spark nor the metastore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

from hudisql.sql.text.tokens import Token, tokenize


@dataclass(frozen=True)
class TableName:
    """A name as written: its parts with backticks removed, in the user's case."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def quoted(self) -> str:
        """The name with each part in backticks."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.parts)


@dataclass(frozen=True)
class Statement:
    """Any statement; `text` is the user's, without the closing semicolon."""

    text: str

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """The tokens of the text. The parser gives a statement those that it was read from."""
        return tokenize(self.text)


@dataclass(frozen=True)
class CallStatement(Statement):
    """`CALL [ns.]procedure(…)`, also as a statement of Hudi about compactions or indexes.

    The arguments are Python values already (str, int, Decimal, list, dict …).
    """

    procedure: str
    positional: tuple[object, ...] = ()
    named: tuple[tuple[str, object], ...] = ()
    span: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class QueryStatement(Statement):
    """Returns rows and changes nothing: SELECT, WITH, FROM …, VALUES, TABLE."""


@dataclass(frozen=True)
class ExplainStatement(Statement):
    """`EXPLAIN [mode] statement`; `explained` is the inner statement, `mode` in upper case or empty."""

    mode: str
    explained: Statement


@dataclass(frozen=True)
class TableStatement(Statement):
    """A statement about one table."""

    table: TableName


@dataclass(frozen=True)
class ShowPartitionsStatement(TableStatement):
    """`SHOW PARTITIONS t [PARTITION (…)]`."""

    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ShowCreateTableStatement(TableStatement):
    """`SHOW CREATE TABLE t [AS SERDE]`."""


@dataclass(frozen=True)
class ShowColumnsStatement(TableStatement):
    """`SHOW COLUMNS IN t [IN db]`."""


@dataclass(frozen=True)
class ShowPropertiesStatement(TableStatement):
    """`SHOW TBLPROPERTIES t [(key)]`."""

    key: str | None = None


@dataclass(frozen=True)
class DescribeStatement(TableStatement):
    """`DESCRIBE [TABLE] [EXTENDED|FORMATTED] t [PARTITION (…)] [column] [AS JSON]`."""

    extended: bool = False
    column: str | None = None
    rest: str = ""


ABOUT_A_TABLE: Final = (
    ShowPartitionsStatement,
    ShowCreateTableStatement,
    ShowColumnsStatement,
    ShowPropertiesStatement,
    DescribeStatement,
)
"""The statements that a Hudi table answers itself."""


@dataclass(frozen=True)
class DescribeQueryStatement(Statement):
    """`DESCRIBE [QUERY] query`."""


@dataclass(frozen=True)
class MsckRepairStatement(TableStatement):
    """`MSCK REPAIR TABLE t`, `REPAIR TABLE t`, with `{ADD|DROP|SYNC} PARTITIONS`."""


@dataclass(frozen=True)
class RefreshTableStatement(TableStatement):
    """`REFRESH [TABLE] t`."""


@dataclass(frozen=True)
class CacheTableStatement(TableStatement):
    """`CACHE [LAZY] TABLE t [OPTIONS …] [[AS] query]`."""

    has_query: bool = False


@dataclass(frozen=True)
class UncacheTableStatement(TableStatement):
    """`UNCACHE TABLE [IF EXISTS] t`."""


@dataclass(frozen=True)
class DropTableStatement(TableStatement):
    """`DROP TABLE [IF EXISTS] t [PURGE]`."""

    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class DropDatabaseStatement(Statement):
    """`DROP {DATABASE|SCHEMA} [IF EXISTS] d [RESTRICT|CASCADE]`."""

    database: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class CreateViewStatement(TableStatement):
    """`CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW v … AS query`, `ALTER VIEW v AS query`."""

    temporary: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class CreateTableStatement(TableStatement):
    """`CREATE TABLE t …` without a query; `provider` is USING's name in lower case, or empty."""

    provider: str = ""
    like: TableName | None = None
    if_not_exists: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class CreateTableAsStatement(CreateTableStatement):
    """`{CREATE|REPLACE} TABLE t … AS query`; `query_start` is the query's offset in the text."""

    query_start: int = 0


@dataclass(frozen=True)
class CreateIncrementalTableStatement(TableStatement):
    """`CREATE INCREMENTAL TABLE t [KEY (…)] [ORDERING c] … AS query`; `query_start` is the query's offset.

    `definition` is the statement without KEY and ORDERING, as `CREATE TABLE t USING hudi … AS query`.
    """

    if_not_exists: bool = False
    key: tuple[str, ...] = ()
    ordering: str | None = None
    definition: str = ""
    query_start: int = 0


@dataclass(frozen=True)
class AlterIncrementalTableStatement(TableStatement):
    """`ALTER INCREMENTAL TABLE t AS query`; `query_start` is the query's offset in the text."""

    query_start: int = 0


@dataclass(frozen=True)
class RefreshIncrementalTableStatement(TableStatement):
    """`REFRESH INCREMENTAL TABLE t [FULL] [UP TO instant]`; `until` is as written."""

    full: bool = False
    until: str | None = None


@dataclass(frozen=True)
class ChangeStatement(TableStatement):
    """A statement that changes the rows, files or definition of its table."""

    _verb: ClassVar[str] = "CHANGE"

    @property
    def verb(self) -> str:
        """The name of the statement in SQL."""
        return self._verb


@dataclass(frozen=True)
class InsertStatement(ChangeStatement):
    """`INSERT {INTO|OVERWRITE} t …`, also after `WITH …` or `FROM …`; `targets` has all of several."""

    overwrite: bool = False
    targets: tuple[TableName, ...] = ()

    @property
    def verb(self) -> str:
        """INSERT INTO or INSERT OVERWRITE."""
        return "INSERT OVERWRITE" if self.overwrite else "INSERT INTO"


@dataclass(frozen=True)
class UpdateStatement(ChangeStatement):
    """`UPDATE t SET …`."""

    _verb: ClassVar[str] = "UPDATE"


@dataclass(frozen=True)
class DeleteStatement(ChangeStatement):
    """`DELETE FROM t …`."""

    _verb: ClassVar[str] = "DELETE"


@dataclass(frozen=True)
class MergeStatement(ChangeStatement):
    """`MERGE INTO t USING …`."""

    _verb: ClassVar[str] = "MERGE INTO"


@dataclass(frozen=True)
class TruncateStatement(ChangeStatement):
    """`TRUNCATE TABLE t …`."""

    _verb: ClassVar[str] = "TRUNCATE TABLE"


@dataclass(frozen=True)
class AlterTableStatement(ChangeStatement):
    """`ALTER TABLE t …`."""

    _verb: ClassVar[str] = "ALTER TABLE"


@dataclass(frozen=True)
class CommentOnStatement(ChangeStatement):
    """`COMMENT ON {TABLE|COLUMN} … IS …`; of a column, `table` is the table that it belongs to."""

    _verb: ClassVar[str] = "COMMENT ON"


@dataclass(frozen=True)
class UseStatement(Statement):
    """`USE [DATABASE] d`."""


@dataclass(frozen=True)
class BlockStatement(Statement):
    """`BEGIN … END`, a compound statement (SQL scripting)."""


@dataclass(frozen=True)
class ExecuteImmediateStatement(Statement):
    """`EXECUTE IMMEDIATE text [INTO …] [USING …]`."""


@dataclass(frozen=True)
class PassThroughStatement(Statement):
    """Anything else: run by Spark if no Hudi table is among the tables that Spark's parser finds in it."""

    kind: str
