"""Runs SQL statements in a session on a given metastore and prints what each one answered, as JSON.

Arguments: the metastore's URI, the warehouse, Spark's settings and the statements as JSON. An answer is the
list of rows, or the message and the hint of the error.
"""

from __future__ import annotations

import json
import sys

import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import HudisqlError


def main() -> None:
    """Run the statements of the command line."""
    metastore, warehouse, conf, statements = sys.argv[1:]
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **json.loads(conf)}
    answers: list[list[list[str]] | dict[str, str | None]] = []
    with hudisql.connect(metastore, warehouse, settings, console=SilentConsole()) as session:
        for statement in json.loads(statements):
            try:
                answers.append([[str(value) for value in row] for row in session.sql(statement).rows])
            except HudisqlError as error:
                answers.append({"error": error.message, "hint": error.hint})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
