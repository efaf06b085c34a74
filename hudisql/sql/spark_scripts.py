"""`BEGIN … END` blocks and `EXECUTE IMMEDIATE`: Spark runs them as a whole, if they contain no Hudi table.

Spark would fail at a Hudi table when half of a block has run. So before anything runs, each name in the text
is looked up, and each statement must be of a kind whose tables are named in the text. Anything unknown
beforehand is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import SqlSyntaxError, UnsupportedStatementError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.result import Result
from hudisql.spark.jvm import class_name, is_instance, items_of, spark_sql
from hudisql.spark.versions import check_statement_since
from hudisql.sql.ddl.table_options import PROVIDERS
from hudisql.sql.query.path_guard import (
    directories_of_plan,
    refuse_directories,
    refuse_touching_sources_of_tables,
)
from hudisql.sql.query.query_plan import references_hudi
from hudisql.sql.query.references import parse_plan
from hudisql.sql.text import statements as st
from hudisql.sql.text.script import TRANSACTION_WORDS, split_script
from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors
from hudisql.sql.text.tokens import Token, TokenCursor

if TYPE_CHECKING:
    from hudisql.context import Context

BLOCK: Final = "BEGIN … END"
EXECUTE_IMMEDIATE: Final = "EXECUTE IMMEDIATE"
_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
_STATEMENT: Final = "SingleStatement"
_ONE_BY_ONE: Final = "write the statements one after the other"
# Commands that Spark runs in a block as outside, and whose tables are named in the text.
_COMMANDS: Final = frozenset(
    {
        *("CreateVariable", "DropVariable", "SetVariable", "InsertIntoStatement"),
        *("CreateTable", "CreateTableAsSelect", "DropTable", "TruncateTable"),
    }
)
_PARTS_OF_BLOCKS: Final = frozenset(
    {
        *("CompoundBody", "ExceptionHandler", "IfElseStatement", "WhileStatement", "RepeatStatement"),
        *("LoopStatement", "ForStatement", "SearchedCaseStatement", "SimpleCaseStatement"),
    }
)

_JUMPS: Final = frozenset({"LeaveStatement", "IterateStatement"})


def run_block(context: Context, block: st.BlockStatement, source: SourceText) -> Result:
    """Run a `BEGIN … END` block in Spark; the result is that of its last query."""
    check_block(context, block)
    return Result(spark_sql(context.spark, block.text), guard=lambda: translated_spark_errors(source))


def check_block(context: Context, block: st.Statement) -> None:
    """Raise UnsupportedStatementError if the block names, or may contain, a Hudi table.

    Or if this PySpark does not support blocks.
    """
    behind = block.tokens[1:2]
    if not behind or behind[0].is_keyword(*TRANSACTION_WORDS):
        raise UnsupportedStatementError(
            "BEGIN without END is not supported: each statement is a transaction of its own",
            hint=_ONE_BY_ONE,
        )
    check_statement_since((4, 1), BLOCK, _ONE_BY_ONE)
    _check_statement(context, block, BLOCK)


def names_hudi(context: Context, statement: st.Statement) -> bool:
    """True if a block or EXECUTE IMMEDIATE names a Hudi table, or a view over one, or would make one."""
    tokens = statement.tokens
    makes_one = any(
        before.is_keyword("USING") and token.name.lower() in PROVIDERS for before, token in pairwise(tokens)
    )
    return makes_one or any(
        _reads_hudi(context, parts[:length])
        for parts, _ in _names_in(tokens)
        for length in range(1, min(len(parts), 3) + 1)
    )


def execute_immediate(
    context: Context, statement: st.ExecuteImmediateStatement, source: SourceText
) -> Result:
    """Run `EXECUTE IMMEDIATE text [INTO …] [USING …]` in Spark.

    Raises UnsupportedStatementError before anything runs if the statement of the text names, or may contain,
    a Hudi table.
    """
    check_statement_since((4, 0), EXECUTE_IMMEDIATE, "run the statement itself")
    text, tokens = statement.text, statement.tokens[2:]
    parse_plan(context.spark, text)  # raises Spark's syntax errors
    _check_tokens(context, tokens, EXECUTE_IMMEDIATE)
    row = spark_sql(context.spark, f"SELECT {_expression_of(text, tokens)}").head()
    for script_statement in split_script("" if row is None or row[0] is None else str(row[0])):
        _check_statement(context, st.Statement(script_statement.text), EXECUTE_IMMEDIATE)
    return Result(spark_sql(context.spark, text), guard=lambda: translated_spark_errors(source))


def _check_statement(context: Context, statement: st.Statement, kind: str) -> None:
    text, tokens = statement.text, statement.tokens
    unresolved = parse_plan(context.spark, text)
    _check_tokens(context, tokens[1:] if kind == BLOCK else tokens, kind)
    for plan in _plans_of(context, unresolved):
        is_command = is_instance(context.spark, plan, f"{_PLANS}.Command")
        # A later Spark may have parts of blocks that are unknown here.
        is_part = is_instance(context.spark, plan, f"{_PLANS}.CompoundPlanStatement")
        if (is_command and class_name(plan) not in _COMMANDS) or is_part:
            raise _unsupported(kind, f"with {_first_words(plan, text)} inside")
        refuse_directories(context, directories_of_plan(plan))
        refuse_touching_sources_of_tables(context, plan)


def _check_tokens(context: Context, tokens: Sequence[Token], kind: str) -> None:
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.is_keyword("IDENTIFIER", "IMMEDIATE"):
            what = EXECUTE_IMMEDIATE if token.is_keyword("IMMEDIATE") else "IDENTIFIER(…)"
            raise _unsupported(kind, f"with {what} inside: what it names cannot be known beforehand")
        if before is not None and before.is_keyword("USING") and token.name.lower() in PROVIDERS:
            raise _unsupported(kind, "with CREATE TABLE … USING hudi inside")
    for name, is_function in _names_in(tokens):
        _check_name(context, name, kind, is_function=is_function)


def _plans_of(context: Context, value: Any) -> Iterator[Any]:
    """The plans of a block's statements, conditions and handlers too; another plan is returned itself."""
    if class_name(value) == _STATEMENT:
        yield value.parsedPlan()
    elif class_name(value) in _PARTS_OF_BLOCKS:
        for index in range(int(value.productArity())):
            for part in _parts_of(context, value.productElement(index)):
                yield from _plans_of(context, part)
    elif class_name(value) not in _JUMPS:
        yield value


def _parts_of(context: Context, element: Any) -> Iterator[Any]:
    """The statements and parts of blocks in an element of a part, single or in a sequence or option."""
    if not hasattr(element, "getClass"):
        return
    if is_instance(context.spark, element, "scala.Option"):
        if element.isDefined():
            yield from _parts_of(context, element.get())
    elif is_instance(context.spark, element, "scala.collection.Seq"):
        for item in items_of(element):
            yield from _parts_of(context, item)
    elif is_instance(context.spark, element, f"{_PLANS}.LogicalPlan"):
        yield element


def _first_words(plan: Any, text: str) -> str:
    start, stop = plan.origin().startIndex(), plan.origin().stopIndex()
    if not (start.isDefined() and stop.isDefined()):
        return class_name(plan)
    return " ".join(text[int(start.get()) : int(stop.get()) + 1].split()[:2])


def _names_in(tokens: Sequence[Token]) -> list[tuple[tuple[str, ...], bool]]:
    """Each distinct dotted name in the text, and whether a bracket follows it as in a function call."""
    found: dict[tuple[tuple[str, ...], bool], None] = {}
    cursor = TokenCursor(tokens)
    while (token := cursor.peek()) is not None:
        if not token.is_name or token.text.isdigit():
            cursor.take()
            continue
        parts = cursor.take_name()
        found[parts, cursor.at_keyword("(")] = None
    return list(found)


def _check_name(context: Context, parts: tuple[str, ...], kind: str, *, is_function: bool) -> None:
    if is_function and _is_user_function(context, parts):
        raise _unsupported(kind, f"with the function {'.'.join(parts)} inside, which may read Hudi tables")
    # `t.column` and `db.t.column` contain a table's name, too.
    for length in range(1, min(len(parts), 3) + 1):
        if _reads_hudi(context, parts[:length]):
            name = ".".join(parts[:length])
            raise _unsupported(kind, f"with the Hudi table, or view over one, {name} inside")


def _reads_hudi(context: Context, parts: tuple[str, ...]) -> bool:
    try:
        return references_hudi(context, f"TABLE {'.'.join(map(quote_name, parts))}")
    except SqlSyntaxError:
        return False


def _is_user_function(context: Context, parts: tuple[str, ...]) -> bool:
    from pyspark.errors import PySparkException

    try:
        found = context.spark.catalog.getFunction(".".join(map(quote_name, parts)))
    except PySparkException:
        return False
    return found.namespace is not None or '"sqlFunction.' in (found.description or "")


def _expression_of(text: str, tokens: Sequence[Token]) -> str:
    """The text of the expression that begins with the first token, before INTO or USING."""
    cursor = TokenCursor(tokens)
    cursor.skip_to("(", ")", ("INTO", "USING"))
    stop = cursor.peek()
    return text[tokens[0].start : tokens[-1].end if stop is None else stop.start].rstrip()


def _unsupported(kind: str, why: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(f"{kind} is not supported {why}: nothing was run", hint=_ONE_BY_ONE)
