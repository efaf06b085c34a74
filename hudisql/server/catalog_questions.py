"""Catalog metadata for tools: schemas, tables, columns, types, functions, primary keys.

Columns of the results are those of JDBC's `DatabaseMetaData`, in Hive's order
(`org.apache.hive.service.cli.operation.Get*Operation`). Names are patterns (`name_pattern`). Results come
from the metastore and, for columns and keys, from Hudi tables; temporary views and functions come from Spark.
Users see the databases and tables on which they have a right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreColumn, MetastoreTable, is_hudi_table
from hudisql.server.column_bytes import WireType
from hudisql.server.name_pattern import name_matcher
from hudisql.server.result_types import ResultColumn
from hudisql.server.table_columns import columns_of_tables, columns_of_view
from hudisql.spark.jvm import items_of, session_state

if TYPE_CHECKING:
    from hudisql.server.rights.rights_file import UserRights
    from hudisql.server.thrift_binary import Fields
    from hudisql.session import Session

Answer = tuple[tuple[ResultColumn, ...], list[tuple[object, ...]]]
_TYPE_IDS: Final = {
    WireType.BOOLEAN: 0,
    WireType.TINYINT: 1,
    WireType.SMALLINT: 2,
    WireType.INT: 3,
    WireType.STRING: 7,
}
_NULLABLE: Final = 1
# Hive's own table types, which `hive.server2.table.type.mapping=HIVE` shows and some clients request.
_HIVE_TABLE_TYPES: Final = {"MANAGED_TABLE": "TABLE", "EXTERNAL_TABLE": "TABLE", "VIRTUAL_VIEW": "VIEW"}
_FUNCTION_OF_UNKNOWN_RESULT: Final = 0
_ARGUMENTS: Final = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")
_LONGEST: Final = 2_147_483_647


def _columns(texts: str, **others: WireType) -> tuple[ResultColumn, ...]:
    wires = {name: others.get(name, WireType.STRING) for name in texts.split()}
    return tuple(ResultColumn(name, _TYPE_IDS[wire], wire) for name, wire in wires.items())


_INT, _SMALLINT = WireType.INT, WireType.SMALLINT
CATALOG_COLUMNS: Final = _columns("TABLE_CAT")
TABLE_TYPE_COLUMNS: Final = _columns("TABLE_TYPE")
SCHEMA_COLUMNS: Final = _columns("TABLE_SCHEM TABLE_CATALOG")
TABLE_COLUMNS: Final = _columns(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME TABLE_TYPE REMARKS TYPE_CAT TYPE_SCHEM TYPE_NAME "
    "SELF_REFERENCING_COL_NAME REF_GENERATION"
)
COLUMN_COLUMNS: Final = _columns(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME DATA_TYPE TYPE_NAME COLUMN_SIZE BUFFER_LENGTH "
    "DECIMAL_DIGITS NUM_PREC_RADIX NULLABLE REMARKS COLUMN_DEF SQL_DATA_TYPE SQL_DATETIME_SUB "
    "CHAR_OCTET_LENGTH ORDINAL_POSITION IS_NULLABLE SCOPE_CATALOG SCOPE_SCHEMA SCOPE_TABLE "
    "SOURCE_DATA_TYPE IS_AUTO_INCREMENT",
    DATA_TYPE=_INT,
    COLUMN_SIZE=_INT,
    BUFFER_LENGTH=WireType.TINYINT,
    DECIMAL_DIGITS=_INT,
    NUM_PREC_RADIX=_INT,
    NULLABLE=_INT,
    SQL_DATA_TYPE=_INT,
    SQL_DATETIME_SUB=_INT,
    CHAR_OCTET_LENGTH=_INT,
    ORDINAL_POSITION=_INT,
    SOURCE_DATA_TYPE=_SMALLINT,
)
TYPE_COLUMNS: Final = _columns(
    "TYPE_NAME DATA_TYPE PRECISION LITERAL_PREFIX LITERAL_SUFFIX CREATE_PARAMS NULLABLE CASE_SENSITIVE "
    "SEARCHABLE UNSIGNED_ATTRIBUTE FIXED_PREC_SCALE AUTO_INCREMENT LOCAL_TYPE_NAME MINIMUM_SCALE "
    "MAXIMUM_SCALE SQL_DATA_TYPE SQL_DATETIME_SUB NUM_PREC_RADIX",
    DATA_TYPE=_INT,
    PRECISION=_INT,
    NULLABLE=_SMALLINT,
    CASE_SENSITIVE=WireType.BOOLEAN,
    SEARCHABLE=_SMALLINT,
    UNSIGNED_ATTRIBUTE=WireType.BOOLEAN,
    FIXED_PREC_SCALE=WireType.BOOLEAN,
    AUTO_INCREMENT=WireType.BOOLEAN,
    MINIMUM_SCALE=_SMALLINT,
    MAXIMUM_SCALE=_SMALLINT,
    SQL_DATA_TYPE=_INT,
    SQL_DATETIME_SUB=_INT,
    NUM_PREC_RADIX=_INT,
)
FUNCTION_COLUMNS: Final = _columns(
    "FUNCTION_CAT FUNCTION_SCHEM FUNCTION_NAME REMARKS FUNCTION_TYPE SPECIFIC_NAME", FUNCTION_TYPE=_INT
)
PRIMARY_KEY_COLUMNS: Final = _columns(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME KEQ_SEQ PK_NAME", KEQ_SEQ=_INT
)
CROSS_REFERENCE_COLUMNS: Final = _columns(
    "PKTABLE_CAT PKTABLE_SCHEM PKTABLE_NAME PKCOLUMN_NAME FKTABLE_CAT FKTABLE_SCHEM FKTABLE_NAME "
    "FKCOLUMN_NAME KEQ_SEQ UPDATE_RULE DELETE_RULE FK_NAME PK_NAME DEFERRABILITY",
    KEQ_SEQ=_INT,
    UPDATE_RULE=_INT,
    DELETE_RULE=_INT,
    DEFERRABILITY=WireType.BOOLEAN,
)


def list_catalogs(_session: Session, _request: Fields, _rights: UserRights) -> Answer:
    """`GetCatalogs`: empty, as Hive has no catalogs."""
    return CATALOG_COLUMNS, []


def list_table_types(_session: Session, _request: Fields, _rights: UserRights) -> Answer:
    """`GetTableTypes`."""
    return TABLE_TYPE_COLUMNS, [("TABLE",), ("VIEW",)]


def list_schemas(session: Session, request: Fields, rights: UserRights) -> Answer:
    """`GetSchemas`."""
    return SCHEMA_COLUMNS, [(name, "") for name in _databases(session, request, rights)]


def list_tables(session: Session, request: Fields, rights: UserRights) -> Answer:
    """`GetTables`: tables and views of the metastore, and the session's temporary views."""
    given = {str(kind, "utf-8", "replace").upper() for kind in request.get(5) or ()}
    kinds = {_HIVE_TABLE_TYPES.get(kind, kind) for kind in given}
    rows: list[tuple[object, ...]] = [
        ("", table.database, table.name, kind, table.parameters.get("comment"), *(None,) * 5)
        for table in _tables(session, request, rights)
        for kind in (_kind_of(table),)
        if not kinds or kind in kinds
    ]
    if not kinds or "VIEW" in kinds:
        matches = name_matcher(request.get(4))
        rows += [
            ("", None, name, "VIEW", None, *(None,) * 5)
            for name in _temporary_views(session)
            if matches(name)
        ]
    return TABLE_COLUMNS, rows


def list_columns(session: Session, request: Fields, rights: UserRights) -> Answer:
    """`GetColumns`: without a catalog, as in Apache Hive; `GetTables` has an empty one."""
    matches, in_name = name_matcher(request.get(5)), name_matcher(request.get(4))
    tables = list(_tables(session, request, rights))
    described: list[tuple[str | None, str, Sequence[MetastoreColumn]]] = [
        (table.database, table.name, columns)
        for table, columns in zip(tables, columns_of_tables(session.context, tables), strict=True)
    ]
    described += [
        (None, name, columns_of_view(session.spark, name))
        for name in _temporary_views(session)
        if in_name(name)
    ]
    return COLUMN_COLUMNS, [
        _column_row(database, name, column, position)
        for database, name, columns in described
        for position, column in enumerate(columns, 1)
        if matches(column.name)
    ]


def list_types(_session: Session, _request: Fields, _rights: UserRights) -> Answer:
    """`GetTypeInfo`."""
    rows: list[tuple[object, ...]] = []
    for name, kind in JDBC_TYPES.items():
        quote = "'" if kind.is_text else None
        parameters = {"decimal": "precision,scale", "varchar": "length", "char": "length"}.get(name)
        searchable = 0 if kind.is_nested else 3
        rows.append(
            (
                *(name.upper(), kind.number, kind.size, quote, quote, parameters, _NULLABLE, kind.is_text),
                *(
                    searchable,
                    kind.radix is None,
                    False,
                    False,
                    None,
                    0,
                    kind.digits or 0,
                    None,
                    None,
                    kind.radix,
                ),
            )
        )
    return TYPE_COLUMNS, rows


def list_functions(session: Session, request: Fields, rights: UserRights) -> Answer:
    """`GetFunctions`: Spark's built-in functions, the session's, and those of the databases.

    Built-in and session functions are listed in every database. Without a database pattern these are the
    functions of the current one. A pattern that matches no database returns nothing, as in Hive and Spark.
    """
    matches, current = name_matcher(request.get(4)), session.context.current_database
    catalog = session_state(session.spark).catalog()
    databases = _databases(session, request, rights) if request.get(3) else [current]
    everywhere = (pair.productElement(0) for pair in items_of(catalog.listFunctions(current)) if databases)
    names = [("", str(function.funcName())) for function in everywhere if not function.database().isDefined()]
    for database in databases:
        names += [
            (database, str(name)) for name in items_of(catalog.externalCatalog().listFunctions(database, "*"))
        ]
    rows = [
        ("", schema, name, None, _FUNCTION_OF_UNKNOWN_RESULT, name) for schema, name in names if matches(name)
    ]
    return FUNCTION_COLUMNS, sorted(rows)


def list_primary_keys(session: Session, request: Fields, rights: UserRights) -> Answer:
    """`GetPrimaryKeys`: the record key of a Hudi table. Here names are not patterns."""
    from hudisql.sql.query.target_table import open_hudi_entry

    context = session.context
    database = (request.get(3) or context.current_database.encode()).decode().lower()
    name = (request.get(4) or b"").decode().lower()
    is_seen = bool(name) and rights.sees_table(database, name)
    entry = context.metastore.get_table(database, name) if is_seen else None
    if entry is None or not is_hudi_table(entry):
        return PRIMARY_KEY_COLUMNS, []
    keys = open_hudi_entry(context, entry).properties.record_key_fields
    return PRIMARY_KEY_COLUMNS, [
        ("", database, name, key, position, "hoodie.table.recordkey.fields")
        for position, key in enumerate(keys, 1)
    ]


def list_cross_references(_session: Session, _request: Fields, _rights: UserRights) -> Answer:
    """`GetCrossReference`: there are no foreign keys."""
    return CROSS_REFERENCE_COLUMNS, []


def _databases(session: Session, request: Fields, rights: UserRights) -> list[str]:
    matches = name_matcher(request.get(3))
    databases = session.context.metastore.list_databases()
    return sorted(name for name in databases if matches(name) and rights.sees_database(name))


def _tables(session: Session, request: Fields, rights: UserRights) -> Iterator[MetastoreTable]:
    metastore, matches = session.context.metastore, name_matcher(request.get(4))
    for database in _databases(session, request, rights):
        listed = metastore.list_tables(database)
        names = sorted(name for name in listed if matches(name) and rights.sees_table(database, name))
        yield from sorted(metastore.get_tables(database, names), key=lambda table: table.name)


def _kind_of(table: MetastoreTable) -> str:
    return "VIEW" if table.is_view else "TABLE"


def _temporary_views(session: Session) -> Sequence[str]:
    views = session_state(session.spark).catalog().listLocalTempViews("*")
    return sorted(str(view.table()) for view in items_of(views))


def _column_row(
    database: str | None, table: str, column: MetastoreColumn, position: int
) -> tuple[object, ...]:
    kind = jdbc_type(column.type)
    # Members of a struct keep their names.
    type_name = column.type if kind.is_nested else column.type.upper()
    return (
        *(None, database, table, column.name, kind.number, type_name, kind.size, None),
        *(kind.digits, kind.radix, _NULLABLE, column.comment, None, None, None, None, position, "YES"),
        *(None, None, None, None, "NO"),
    )


@dataclass(frozen=True)
class JdbcType:
    """`number` is that of `java.sql.Types`; `size` and `digits` are None where they do not apply."""

    number: int
    size: int | None = None
    digits: int | None = None
    radix: int | None = None
    is_text: bool = False
    is_nested: bool = False


JDBC_TYPES: Final = {
    "void": JdbcType(0),
    "boolean": JdbcType(16, 1),
    "tinyint": JdbcType(-6, 3, 0, 10),
    "smallint": JdbcType(5, 5, 0, 10),
    "int": JdbcType(4, 10, 0, 10),
    "bigint": JdbcType(-5, 19, 0, 10),
    "float": JdbcType(6, 7, 7, 10),
    "double": JdbcType(8, 15, 15, 10),
    "string": JdbcType(12, _LONGEST, is_text=True),
    "varchar": JdbcType(12, is_text=True),
    "char": JdbcType(1, is_text=True),
    "date": JdbcType(91, 10),
    "timestamp": JdbcType(93, 29, 9),
    "binary": JdbcType(-2, _LONGEST),
    "decimal": JdbcType(3, 38, 18, 10),
    "array": JdbcType(2003, is_nested=True),
    "map": JdbcType(2000, is_nested=True),
    "struct": JdbcType(2002, is_nested=True),
}
_OTHER: Final = JdbcType(1111)
_SYNONYMS: Final = {"integer": "int", "timestamp_ntz": "timestamp", "long": "bigint", "short": "smallint"}


def jdbc_type(text: str) -> JdbcType:
    """The JDBC type of a type's text: `decimal(12,2)`, `array<int>`."""
    name = re.split(r"[(<\s]", text.strip().lower(), maxsplit=1)[0]
    name = _SYNONYMS.get(name, name)
    known = JDBC_TYPES.get(name, _OTHER)
    arguments = _ARGUMENTS.search(text)
    if arguments is None or name not in ("decimal", "varchar", "char"):
        return known
    scale = int(arguments[2] or 0) if name == "decimal" else None
    return JdbcType(known.number, int(arguments[1]), scale, known.radix, known.is_text)
