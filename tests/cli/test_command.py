"""The `hudisql` command: options, formats, exit codes, what goes to which stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from typer.testing import Result as CliResult

from hudisql import __version__
from hudisql.cli.batch import HELP
from hudisql.cli.main import app

Run = Callable[..., CliResult]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process, in an empty directory, without the user's own settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("HUDISQL_")]:
        monkeypatch.delenv(name)

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> CliResult:
        return CliRunner().invoke(app, list(arguments), input=stdin)

    return invoke


@pytest.fixture
def run_sql(run: Run, session: Any) -> Iterator[Run]:
    """The same on the suite's Spark session."""
    yield run
    session.sql("USE default")


@pytest.fixture
def run_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same as in a process where no Spark runs yet, which the command would join."""
    for module in ("session", "startup"):
        monkeypatch.setattr(f"hudisql.{module}.running_spark", lambda: None)
    return run


# -- without Spark ------------------------------------------------------------------------------------------


def test_version_and_help_answer_without_loading_spark() -> None:
    code = (
        "import sys\n"
        "from hudisql.cli.main import app\n"
        "for arguments in (['--version'], ['--help'], ['config', '--help']):\n"
        "    try:\n"
        "        app(arguments)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        "heavy = {'pyspark', 'pyarrow', 'numba', 'sqlglot', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"hudisql {__version__}\n")
    for option in ("-e", "-f", "-i", "--hivevar", "-d", "--conf", "--hiveconf", "--database", "--master"):
        assert f"{option} " in done.stdout or f"{option}," in done.stdout
    for option in ("--metastore", "--warehouse", "--format", "--silent", "--verbose", "--force"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nope"], "No such option"),
        (["nope"], "No such command"),
        (["load.sql"], "hudisql -f load.sql runs a script"),
        (["select 1"], "hudisql -e 'select 1' runs statements"),
        (["--format", "xml", "-e", "select 1"], "must be one of table, csv"),
        (["--conf", "spark.a", "-e", "select 1"], "--conf: 'spark.a' is not key=value"),
        (["--hivevar", "=x", "-e", "select 1"], "is not key=value"),
        (["-f", "absent.sql"], "cannot read absent.sql"),
        (["-i", "absent.sql", "-e", "select 1"], "cannot read absent.sql"),
    ],
)
def test_bad_usage_is_exit_code_2(run: Run, arguments: list[str], complaint: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_standard_input_that_is_no_text_is_bad_usage(run: Run) -> None:
    done = run(stdin=b"select '\xff'")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("ERROR: standard input is not UTF-8 text: ")


def test_config_shows_each_setting_and_its_origin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hudisql.toml").write_text('warehouse = "/data/w"\n[conf]\n"spark.my.password" = "hidden"\n')
    monkeypatch.setenv("HUDISQL_DATABASE", "sales")
    done = run("--master", "local[3]", "--conf", "spark.x=1", "config")
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["master"].split() == ["master", "local[3]", "command", "line"]
    assert lines["database"].split() == ["database", "sales", "environment", "HUDISQL_DATABASE"]
    assert lines["warehouse"].split() == ["warehouse", "/data/w", str(tmp_path / "hudisql.toml")]
    assert lines["conf.spark.x"].split() == ["conf.spark.x", "1", "command", "line"]
    assert "hidden" not in done.stdout
    assert lines["format"].split()[-1] == "default"


def test_metastore_status_of_a_fresh_warehouse(run: Run, tmp_path: Path) -> None:
    done = run("metastore", "status", "--warehouse", str(tmp_path / "w"))
    assert (done.exit_code, done.stdout) == (0, f"not running  {tmp_path}/w\n")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("s3a://bucket/w", "is not a local directory"),
        ("file", "is a file, not a directory"),
        ("s3a://K:S/ECRET@b/w", "***"),
    ],
)
def test_a_warehouse_that_is_no_local_directory_is_one_error(
    run_alone: Run, tmp_path: Path, given: str, complaint: str
) -> None:
    (tmp_path / "file").touch()
    warehouse = given.replace("file", str(tmp_path / "file"))
    for arguments in (
        ("--warehouse", warehouse, "-e", "select 1"),
        ("metastore", "status", "--warehouse", warehouse),
    ):
        done = run_alone(*arguments)
        assert done.exit_code != 0
        assert complaint in done.stderr
        assert "ECRET" not in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "s3a:").exists()


def test_a_warehouse_that_cannot_be_written_is_an_error_before_spark_starts(
    tmp_path: Path, run_alone: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_spark(*_arguments: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("hudisql.spark.spark_session.start_spark", start_spark)
    (tmp_path / "file").touch()
    done = run_alone("--warehouse", str(tmp_path / "file" / "w"), "-e", "show tables")
    assert done.exit_code == 1
    assert f"{tmp_path}/file/w/.metastore: Not a directory" in done.stderr


def test_a_metastore_that_does_not_answer_is_exit_code_1(run_alone: Run) -> None:
    done = run_alone("--metastore", "thrift://127.0.0.1:9", "-e", "show tables")
    assert done.exit_code == 1
    assert "thrift://127.0.0.1:9" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("uri", ["http://host:1", "thrift://host:port", "thrift://", "thrift://h:1/path"])
def test_a_malformed_metastore_uri_is_bad_usage(run_alone: Run, uri: str) -> None:
    done = run_alone("--metastore", uri, "-e", "select 1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"bad metastore URI '{uri}'" in done.stderr


@pytest.mark.spark
def test_a_metastore_given_to_hive_is_the_one_that_is_asked(tmp_path: Path) -> None:
    # In a process of its own: in this one the command would join the suite's running Spark.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUDISQL_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hudisql",
            "--hiveconf",
            "hive.metastore.uris=thrift://127.0.0.1:9",
            "-e",
            "show tables",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 1
    assert "thrift://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*warehouse*")), "an embedded metastore was started"


_READER_LEAVES = """
import contextlib, sys, types
import hudisql.session as session
from hudisql.result import LocalResult

class Jobs:
    def addJobTag(self, tag):
        pass
    removeJobTag = addJobTag

class Session:
    seconds_waited_for_start = 0.0
    context = types.SimpleNamespace(started_spark=types.SimpleNamespace(sparkContext=Jobs()), console=None)
    def on_spark_start(self, action):
        action(self.context.started_spark)
        return lambda: None
    def execute(self, statement):
        print("ran", statement.text, file=sys.stderr)
        return Endless()

class Endless(LocalResult):
    has_rows = True
    names = ["a"]
    values = [("x" * 100,)] * 10_000
    def __init__(self):
        pass

session.open_session = lambda **_: contextlib.nullcontext(Session())
from hudisql.cli.main import main
sys.argv = ["hudisql", "-S", "--format", "tsv", "-e", "select 1; insert 2; select 3"]
main()
"""


def test_statements_go_on_when_the_reader_of_the_output_has_seen_enough() -> None:
    command = [sys.executable, "-c", _READER_LEAVES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a\n"
        process.stdout.close()
        assert process.stderr.read() == b"ran select 1\nran insert 2\nran select 3\n"
        assert process.wait(60) == 0


def test_a_reader_of_output_and_messages_may_leave_too() -> None:
    command = [sys.executable, "-c", _READER_LEAVES.replace('"-S", ', "")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0


# -- statements on the suite's session ----------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.hms
def test_results_go_to_stdout_and_the_rest_to_stderr(run_sql: Run) -> None:
    done = run_sql(
        "-v", "--format", "json", "-e", "select 1 a, 2.50 b; use default; select timestamp'2024-01-01' t"
    )
    assert done.exit_code == 0, done.stderr
    documents = done.stdout.replace("]\n[", "]\x00[").split("\x00")
    assert [json.loads(each) for each in documents] == [
        [{"a": 1, "b": "2.50"}],
        [{"t": "2024-01-01 00:00:00"}],
    ]
    assert "select 1 a, 2.50 b\n" in done.stderr
    assert done.stderr.count("Time taken:") == 3
    assert ", 1 row\n" in done.stderr


@pytest.mark.spark
@pytest.mark.hms
def test_silence_leaves_results_alone(run_sql: Run) -> None:
    done = run_sql("-S", "--format", "csv", "-e", "select 'x' a")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "a\nx\n", "")


@pytest.mark.spark
@pytest.mark.hms
def test_scripts_run_in_order_with_variables(run_sql: Run, tmp_path: Path) -> None:
    (tmp_path / "init.sql").write_text("create temporary view v as select ${n} a; select 'not shown'")
    (tmp_path / "one.sql").write_text(
        "-- first\nselect a, '${hivevar:text}' b from v;\n\nselect ';' c; /* end */"
    )
    done = run_sql(
        "-S", "--format", "jsonl", "-i", "init.sql", "-f", "one.sql", "--hivevar", "n=7", "-d", "text=it;s"
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == '{"a": 7, "b": "it;s"}\n{"c": ";"}\n'


@pytest.mark.spark
@pytest.mark.hms
def test_the_first_failure_stops_and_force_goes_on(run_sql: Run) -> None:
    script = "select 1 a;\nselect nope;\nselect 2 a;\n"
    stopped = run_sql("-S", "--format", "jsonl", stdin=script)
    assert (stopped.exit_code, stopped.stdout) == (1, '{"a": 1}\n')
    assert "ERROR (standard input, line 2): [UNRESOLVED_COLUMN" in stopped.stderr
    assert "line 2, column 8:\n  select nope\n         ^^^^" in stopped.stderr
    assert "\tat " not in stopped.stderr
    forced = run_sql("-S", "--force", "--format", "jsonl", stdin=script)
    assert (forced.exit_code, forced.stdout) == (1, '{"a": 1}\n{"a": 2}\n')


@pytest.mark.spark
@pytest.mark.hms
def test_quit_ends_a_script_and_help_prints(run_sql: Run) -> None:
    script = "select 1 a; HELP;\nclear; quit;\nselect 2 b"
    done = run_sql("-S", "--format", "csv", "-e", script, "-e", "!exit", "-e", "select 3 c")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"a\n1\n{HELP}\nc\n3\n"
    failed = run_sql("-S", "--force", "--format", "csv", "-e", "select nope; quit; select 2")
    assert (failed.exit_code, failed.stdout) == (1, "")


@pytest.mark.spark
@pytest.mark.hms
def test_a_check_that_fails_gives_its_rows_and_an_exit_code(run_sql: Run, tmp_path: Path) -> None:
    for part in ("good", "bad"):
        (tmp_path / part).mkdir()
        ids = [1, 2] if part == "good" else [1, None]
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / part / "a.parquet")
    target = f"target_path => '{tmp_path}/t', record_key => 'id'"
    good = f"table => 'gates.good', source => '{tmp_path}/good', {target}"
    # The mode that takes anything: the blockers are the keys' names, which footers tell.
    blocked = f"table => 'gates.bad', source => '{tmp_path}/bad', {target.replace('id', 'no_such_column')}"
    after = "select 'after' a"

    def run_csv(*arguments: str) -> tuple[int, str, str]:
        done = run_sql("-S", "--format", "jsonl", *arguments)
        return done.exit_code, done.stdout, done.stderr

    code, out, err = run_csv("-e", f"CALL bootstrap_table({blocked}, dry_run => true); {after}")
    assert code == 3
    assert "no_such_column" in json.loads(out.splitlines()[-1])["blockers"]
    assert "ERROR (-e, line 1): gates.bad cannot be bootstrapped, 1 blocker:" in err
    off = f"CALL bootstrap_table({blocked}, dry_run => true, fail_on_error => false); {after}"
    code, out, err = run_csv("-e", off)
    assert (code, out.splitlines()[-1], err) == (0, '{"a": "after"}', "")
    assert run_csv("-e", f"CALL bootstrap_table({blocked}); {after}")[:2] == (3, "")
    code, out, _ = run_csv("--force", "-e", f"CALL bootstrap_table({blocked}, dry_run => true); {after}")
    assert (code, out.splitlines()[-1]) == (3, '{"a": "after"}')

    assert (
        run_csv("-e", f"CALL bootstrap_table({good}); CALL verify_bootstrap(path => '{tmp_path}/t')")[0] == 0
    )
    (tmp_path / "good" / "a.parquet").unlink()
    verify = f"CALL verify_bootstrap(path => '{tmp_path}/t')"
    code, out, err = run_csv("-e", f"{verify}; {after}")
    assert (code, json.loads(out.splitlines()[-1])["severity"]) == (1, "failed")
    assert f"the table at {tmp_path}/t does not match its source: 1 errors" in err
    code, out, _ = run_csv("--force", "-e", f"{verify}; CALL bootstrap_table({blocked}); {after}")
    assert (code, out.splitlines()[-1]) == (1, '{"a": "after"}')

    rollback = f"CALL rollback_bootstrap(path => '{tmp_path}/t', dry_run => true"
    code, out, err = run_csv("-e", f"{rollback}); {after}")
    assert (code, "would remove" in out, "force => true" in err) == (3, True, True)
    assert run_csv("-e", f"{rollback}, fail_on_error => false)")[0] == 0
    assert run_csv("-e", f"CALL rollback_bootstrap(path => '{tmp_path}/t')")[:2] == (3, "")
    assert run_csv("-e", f"CALL rollback_bootstrap(path => '{tmp_path}/t', force => true)")[0] == 0


@pytest.mark.spark
@pytest.mark.hms
def test_a_mark_of_the_encoding_is_no_part_of_a_script(run_sql: Run, tmp_path: Path) -> None:
    script = "select 'ö' a".encode("utf-8-sig")
    (tmp_path / "one.sql").write_bytes(script)
    for done in (
        run_sql("-S", "--format", "csv", "-f", "one.sql"),
        run_sql("-S", "--format", "csv", stdin=script),
    ):
        assert (done.exit_code, done.stdout, done.stderr) == (0, "a\nö\n", "")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("begin", ["", "CACHE TABLE endless AS "])
def test_control_c_ends_the_statement_and_its_jobs_without_a_stack_trace(
    run_sql: Run, session: Any, caplog: pytest.LogCaptureFixture, begin: str
) -> None:
    tracker = session.spark.sparkContext.statusTracker()
    over = threading.Event()

    def interrupt_once_it_runs() -> None:
        while not over.wait(0.05):
            if tracker.getActiveStageIds():
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=interrupt_once_it_runs)
    watcher.start()
    handler = signal.getsignal(signal.SIGINT)
    try:
        done = run_sql("-S", "-e", f"{begin}SELECT sum(id % 7) FROM range(1000000000000000)")
    finally:
        over.set()
        watcher.join()
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")
    assert [record for record in caplog.records if "sending command" in record.getMessage()] == []
    assert signal.getsignal(signal.SIGINT) is handler
    session.sql("DROP VIEW IF EXISTS endless")
    assert session.sql("SELECT count(*) FROM range(10)").rows == [(10,)]


@pytest.mark.spark
@pytest.mark.hms
def test_an_unset_variable_fails_by_name(run_sql: Run) -> None:
    done = run_sql("-S", "-e", "select 1;\n\nselect '${absent}'")
    assert done.exit_code == 1
    assert "line 3, column 9: the variable ${absent} has no value" in done.stderr
    assert "--hivevar absent=VALUE" in done.stderr


@pytest.mark.spark
@pytest.mark.hms
def test_types_survive_in_json(run_sql: Run) -> None:
    done = run_sql(
        "-S", "--format", "jsonl", "-e",
        "select cast(1e10 as decimal(20,3)) d, date'2024-01-02' e, interval 1 day i, binary('ab') b, "
        "named_struct('t', timestamp'2024-01-01 01:02:03.004', 'm', map(1, 2.0)) s, null n, double('nan') f, "
        "array(date'2024-01-01') l, 9007199254740993 w",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {
        "d": "10000000000.000",
        "e": "2024-01-02",
        "i": "INTERVAL '1' DAY",
        "b": "6162",
        "s": {"t": "2024-01-01 01:02:03.004", "m": {"1": "2.0"}},
        "n": None,
        "f": "NaN",
        "l": ["2024-01-01"],
        "w": 9007199254740993,
    }


@pytest.mark.spark
@pytest.mark.hms
def test_call_help_prints_every_procedure(run_sql: Run) -> None:
    done = run_sql("-S", "-e", "CALL help()")
    assert done.exit_code == 0
    assert "bootstrap_table" in done.stdout
    failed = run_sql("-S", "-e", "CALL bootstrap_tabel(table => 'a.b')")
    assert failed.exit_code == 1
    assert "did you mean bootstrap_table" in failed.stderr


# -- a process of its own -----------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.slow
def test_a_fresh_process_brings_spark_and_metastore_and_leaves_nothing_running(tmp_path: Path) -> None:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("HUDISQL_", "PYSPARK_"))
    }
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from hudisql.cli.main import main; main()", "--master", "local[1]"]
    script = (
        "create database d; use d; create table t (a int, b string) using parquet;"
        "insert into t values (1, 'x'); select * from t; select * from nope"
    )
    done = subprocess.run(
        [*command, "-S", "--format", "csv"],
        input=script, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False, timeout=400,
    )  # fmt: skip
    assert done.stdout == "a,b\n1,x\n"
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR (standard input, line 1): [TABLE_OR_VIEW_NOT_FOUND]")
    assert "WARN" not in done.stderr
    assert "Exception" not in done.stderr
    assert (tmp_path / "hudisql-warehouse" / "d.db" / "t").is_dir()
    status = subprocess.run(
        [*command, "metastore", "status"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=True,
    )  # fmt: skip
    assert status.stdout == f"not running  {tmp_path}/hudisql-warehouse\n"


_AFTER_CLOSE = """
import sys
import hudisql
from hudisql.errors import SessionClosedError

with hudisql.connect(metastore=sys.argv[1], conf={"spark.ui.enabled": "false"}) as session:
    query, called = session.sql("SELECT 1 AS a"), session.sql("CALL help()")
    collected = session.sql("SELECT 2 AS a")
    assert collected.rows[0].a == 2
session.close()
calls = {
    "sql": lambda: session.sql("SELECT 1"),
    "run_script": lambda: list(session.run_script("SELECT 1")),
    "write": lambda: session.write(None, "d.t"),
    "spark": lambda: session.spark,
    **{
        f"{kind}.{name}": (lambda result=result, name=name: getattr(result, name))
        for kind, result in (("query", query), ("called", called))
        for name in ("df", "rows" if kind == "query" else "schema")
    },
    **{
        f"{kind}.{name}()": (lambda result=result, name=name: getattr(result, name)())
        for kind, result in (("query", query), ("called", called))
        for name in ("show", "arrow", "_repr_html_")
    },
}
for name, call in calls.items():
    try:
        call()
    except SessionClosedError as error:
        assert "is closed" in str(error), error
        continue
    raise AssertionError(name)
assert collected.rows[0].a == 2
assert "bootstrap_table" in called.rows[0].result
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.slow
def test_a_closed_session_and_its_results_say_so(metastore_uri: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _AFTER_CLOSE, metastore_uri]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=_environment(tmp_path), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.slow
def test_a_master_that_spark_does_not_know_is_bad_usage(metastore_uri: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "hudisql",
        "--metastore",
        metastore_uri,
        "--master",
        "bogus",
        "-e",
        "select 1",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=_environment(tmp_path), check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    said, hint = done.stderr.splitlines()
    assert said.startswith("ERROR: Spark did not start on master bogus: Master must ")
    assert hint.startswith("  -> set --master and --conf")


def _environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HUDISQL_", "PYSPARK_"))}
    return kept | {"PYTHONPATH": str(ROOT), "HOME": str(home)}


@pytest.mark.parametrize("file", ["~no_such_user_here/x.sql", "a\0b.sql"])
def test_a_source_file_whose_name_is_none_is_an_error_of_the_statement(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from typing import cast

    from hudisql.cli.batch import EXIT_FAILED, BatchOptions, Script, run_script
    from hudisql.cli.display import FormDisplay

    ended = run_script(
        cast("Any", None), Script(f"source {file};", "shell"), BatchOptions(), FormDisplay("csv")
    )
    assert ended.code == EXIT_FAILED
    assert "ERROR (shell, line 1): cannot read" in capsys.readouterr().err
