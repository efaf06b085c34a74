"""What SHOW lists to a user: only databases and tables on which the user has a right."""

from __future__ import annotations

from typing import Any, Final

from hudisql.result import Result
from hudisql.server.rights.rights_file import UserRights

_TABLE_COLUMNS: Final = ("tableName", "viewName")
_INFORMATION: Final = "information"
# Of a view's information, what follows names the tables that it reads.
_VIEW_TEXT: Final = "\nView Text: "
_DATABASE_COLUMNS: Final = ("namespace", "database", "databaseName")


def only_visible(result: Result, rights: UserRights) -> Result:
    """The rows of SHOW DATABASES, TABLES or VIEWS that the user may see; own temporary views are listed.

    The queries of views are left out: DESCRIBE shows them to those who may read what they read.
    """
    from pyspark.sql import functions as sf

    frame: Any = result.df
    database = next(name for name in _DATABASE_COLUMNS if name in frame.columns)
    table = next((name for name in _TABLE_COLUMNS if name in frame.columns), None)
    if table is None:
        if (databases := rights.databases) is None:
            return result
        shown = sf.lower(frame[database]).isin(*databases)
    else:
        shown = sf.lit(False)
        for grant in rights.grants:
            condition = sf.lit(True)
            if grant.database is not None:
                condition &= sf.lower(frame[database]) == grant.database
            if grant.table is not None:
                condition &= sf.lower(frame[table]) == grant.table
            shown |= condition
        # A view of all sessions has the name of that database, one of the session none.
        shown &= ~frame["isTemporary"]
        shown |= frame["isTemporary"] & (frame[database] == "")
        if _INFORMATION in frame.columns:
            frame = frame.withColumn(_INFORMATION, sf.substring_index(frame[_INFORMATION], _VIEW_TEXT, 1))
    return Result(frame.filter(shown), guard=result.guard)
