"""The process that hudisql is measured in: a session on PySpark 4, told what to do by lines of JSON.

The first line holds the session's settings. `{"command": "sql", "text": …}` runs a statement in hudisql,
`spark` one in plain Spark, `rewrite` writes parquet again, `jobs` lists Spark's jobs and their tasks,
`forget` lets the next read match log records anew; rows come back as text.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import hudisql
from hudisql.console import SilentConsole
from hudisql.read.scan.merged_scan import MATCHES


def answer(session: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Do what one request says."""
    spark = session.context.spark
    match request["command"]:
        case "sql":
            rows = session.sql(request["text"]).rows
        case "spark":
            rows = spark.sql(request["text"]).collect()
        case "view":
            spark.read.parquet(request["path"]).createOrReplaceTempView(request["name"])
            rows = []
        case "forget":
            MATCHES.clear()
            rows = []
        case "rewrite":
            frame = spark.read.parquet(request["source"])
            frame.write.mode("overwrite").option("compression", "snappy").parquet(request["target"])
            rows = []
        case "jobs":
            # Spark's own record of what ran; its listeners may lag behind the statement.
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
            rows = [(jobs.apply(at).jobId(), jobs.apply(at).numCompletedTasks()) for at in range(jobs.size())]
        case other:
            raise ValueError(f"unknown command {other}")
    return {"rows": [[None if value is None else str(value) for value in row] for row in rows]}


def main() -> None:
    """Open the session, say so, then serve until the input ends."""
    # The JVM prints on standard output too: keep that stream for answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    with hudisql.connect(
        warehouse=setup["warehouse"], conf=setup["conf"], console=SilentConsole()
    ) as session:
        session.context.spark.range(1).count()
        print(json.dumps({"ok": True}), file=answers, flush=True)
        for line in sys.stdin:
            try:
                result = {"ok": True, **answer(session, json.loads(line))}
            except Exception as error:
                result = {"ok": False, "error": str(error), "trace": traceback.format_exc()}
            print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
