"""SHOW DATABASES and SHOW TABLES by the metastore alone, as long as Spark does not run.

Spark then has no temporary views, and nothing else that it would list. The columns and names are Spark's own;
what is written in an unusual way, and what fails, is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hudisql.result import LocalResult

if TYPE_CHECKING:
    from hudisql.context import Context

_PATTERN: Final = r"(?:\s+(?:LIKE\s+)?'(?P<pattern>[\w*|]+)')?"
_SHOW_DATABASES: Final = re.compile(
    rf"SHOW\s+(?:DATABASES|SCHEMAS|NAMESPACES){_PATTERN}", re.IGNORECASE | re.ASCII
)
_SHOW_TABLES: Final = re.compile(
    rf"SHOW\s+TABLES(?:\s+(?:FROM|IN)\s+(?P<quote>`?)(?P<database>\w+)(?P=quote))?{_PATTERN}",
    re.IGNORECASE | re.ASCII,
)
# Spark quotes other names.
_PLAIN_NAME: Final = re.compile(r"(?!\d+$)\w+", re.ASCII)
# Settings that change what SHOW lists, or how.
_CATALOG_SETTINGS: Final = ("spark.sql.catalog.", "spark.sql.defaultCatalog", "spark.sql.legacy.")


def list_names(context: Context, text: str) -> LocalResult | None:
    """The rows of SHOW DATABASES or SHOW TABLES; None if only Spark can tell them."""
    if context.has_catalog or any(name.startswith(_CATALOG_SETTINGS) for name in context.settings.conf):
        return None
    return names_in_metastore(context, text)


def is_listing(text: str) -> bool:
    """True for a SHOW DATABASES or SHOW TABLES that `names_in_metastore` reads."""
    return bool(_SHOW_DATABASES.fullmatch(text) or _SHOW_TABLES.fullmatch(text))


def names_in_metastore(context: Context, text: str) -> LocalResult | None:
    """The rows of SHOW DATABASES or SHOW TABLES that the metastore has; None if only Spark can tell them."""
    if (databases := _SHOW_DATABASES.fullmatch(text)) is not None:
        found = _selected(context.metastore.list_databases(), databases["pattern"])
        if not all(map(_PLAIN_NAME.fullmatch, found)):
            return None
        return LocalResult(lambda: context.spark, (("namespace", "string"),), [(name,) for name in found])
    if (tables := _SHOW_TABLES.fullmatch(text)) is None:
        return None
    database = (tables["database"] or context.current_database).lower()
    if not _PLAIN_NAME.fullmatch(database) or context.metastore.get_database(database) is None:
        return None
    columns = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))
    listed = _selected(context.metastore.list_tables(database), tables["pattern"])
    return LocalResult(lambda: context.spark, columns, [(database, name, False) for name in listed])


def _selected(names: Sequence[str], pattern: str | None) -> Sequence[str]:
    """The names that match Spark's pattern: `*` stands for any characters, `|` for "or"."""
    if pattern is None:
        return names
    matches = re.compile(pattern.replace("*", ".*"), re.IGNORECASE).fullmatch
    return [name for name in names if matches(name)]
