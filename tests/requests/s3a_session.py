"""A session whose Spark has s3a, in a process of its own: one statement in, its rows out."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.setup_oracles import s3a_jars
from tests.oracle.line_process import LineProcess, start_line_process


def start_s3a_session(directory: Path, metastore: str, settings: Mapping[str, str]) -> LineProcess:
    """Start the process; `settings` are those of Hadoop. It answers `{"sql": …}` with `rows`."""
    jars = s3a_jars()
    assert jars, "Hadoop's s3a is not set up: run `make oracles`"
    conf = {f"spark.hadoop.{key}": value for key, value in settings.items()}
    conf |= {"spark.jars": ",".join(map(str, jars)), "spark.master": "local[2]", "spark.ui.enabled": "false"}
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }
    command = [sys.executable, "-m", __name__, metastore, json.dumps(conf)]
    return start_line_process("s3a session", command, directory, environment)


def _answer(session: Any, text: str) -> dict[str, Any]:
    try:
        return {"ok": True, "rows": [list(row) for row in session.sql(text).rows]}
    except Exception as error:
        return {"ok": False, "error": repr(error), "trace": traceback.format_exc()}


def main() -> None:
    """Answer until the input ends."""
    import hudisql
    from hudisql.console import SilentConsole

    metastore, conf = sys.argv[1], json.loads(sys.argv[2])
    with hudisql.connect(metastore=metastore, conf=conf, console=SilentConsole()) as session:
        for line in sys.stdin:
            print(json.dumps(_answer(session, json.loads(line)["sql"]), default=str), flush=True)


if __name__ == "__main__":
    main()
