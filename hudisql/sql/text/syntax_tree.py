"""Statements that hudisql executes itself, by the syntax tree that sqlglot makes with our dialect.

CALL, SHOW PARTITIONS, SHOW COLUMNS, SHOW CREATE TABLE and REPAIR TABLE. Importing it loads sqlglot.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from hudisql.sql.text import dialect
from hudisql.sql.text import statements as st
from hudisql.sql.text.literals import NotConstantError, constant_value
from hudisql.sql.text.statement_cursor import StatementCursor


def parse_own_statement(cursor: StatementCursor) -> st.Statement:
    """The statement of the cursor's whole text. Raises SqlSyntaxError."""
    tree = _tree(cursor)
    match tree:
        case dialect.CallProcedure():
            return _call(cursor, tree)
        case dialect.ShowPartitions():
            values = dict(_partition_value(cursor, expression) for expression in tree.expressions)
            return st.ShowPartitionsStatement(cursor.text, _name_of(tree.this), values)
        case dialect.ShowCreateTable():
            return st.ShowCreateTableStatement(cursor.text, _name_of(tree.this))
        case dialect.ShowColumns():
            name, database = _name_of(tree.this), tree.args.get("database")
            parts = (database.name, name.parts[-1]) if database is not None else name.parts
            return st.ShowColumnsStatement(cursor.text, st.TableName(parts))
        case dialect.RepairTable():
            return st.MsckRepairStatement(cursor.text, _name_of(tree.this), str(tree.args["action"]))
        case _:
            first = cursor.tokens[0]
            raise cursor.error_at("this should be [MSCK] REPAIR TABLE", first.start, first.end - first.start)


def _tree(cursor: StatementCursor) -> exp.Expr:
    try:
        tree = dialect.parse(cursor.text)
    except TokenError as error:
        raise cursor.error_at(str(error).splitlines()[0], 0) from error
    except ParseError as error:
        _raise_parse_error(cursor, error)
    assert tree is not None
    return tree


def _raise_parse_error(cursor: StatementCursor, error: ParseError) -> NoReturn:
    details = error.errors[0] if error.errors else {}
    highlight = str(details.get("highlight") or "")
    offset = dialect.offset_of(cursor.text, details.get("line"), details.get("col"))
    problem = str(details.get("description") or error).rstrip(".")
    raise cursor.error_at(problem, offset, max(len(highlight), 1)) from error


def _call(cursor: StatementCursor, node: dialect.CallProcedure) -> st.Statement:
    positional: list[object] = []
    named: list[tuple[str, object]] = []
    for argument in node.expressions:
        is_named = isinstance(argument, exp.Kwarg)
        value = _constant(cursor, argument.expression if is_named else argument)
        if is_named:
            named.append((argument.this.name, value))
        elif named:
            _fail_at(cursor, argument, "a positional argument cannot follow a named one")
        else:
            positional.append(value)
    span = (cursor.tokens[0].start, cursor.tokens[-1].end)
    return st.CallStatement(cursor.text, str(node.this), tuple(positional), tuple(named), span)


def _partition_value(cursor: StatementCursor, node: exp.Expr) -> tuple[str, str | None]:
    if not isinstance(node, exp.EQ):
        cursor.at = len(cursor.tokens) - 1
        cursor.fail("a partition is given as column = value")
    value = _constant(cursor, node.expression)
    return node.this.name, None if value is None else str(value)


def _constant(cursor: StatementCursor, node: exp.Expr) -> object:
    try:
        return constant_value(node)
    except NotConstantError as error:
        _fail_at(cursor, node, str(error))


def _fail_at(cursor: StatementCursor, node: exp.Expr, problem: str) -> NoReturn:
    start, end = node.meta.get("start", 0), node.meta.get("end", 0)
    raise cursor.error_at(problem, start, end - start + 1)


def _name_of(node: exp.Expr) -> st.TableName:
    if not isinstance(node, exp.Table):
        return st.TableName((node.name,))
    return st.TableName(tuple(part.name for part in node.parts))
