"""Every built-in function of Hive 2.3, called in Hive and through `hudisql serve` by the same beeline."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from hudisql.console import SilentConsole
from hudisql.java_runtime import find_java_home
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from tests.hive.beeline import HiveError, start_beeline
from tests.hive.server import HiveServer, beeline_command, parse_rows

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]

CALLS = Path(__file__).with_name("functions") / "calls.txt"
PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
TABLE = "functions_db.words"
_LINE = re.compile(r"(?P<differs>differs |always differs |)(?P<name>\S+): (?P<text>.*)")
Ask = Callable[[str], list[list[str | None]]]


@dataclass(frozen=True)
class Call:
    """A line of calls.txt."""

    section: str
    name: str
    text: str
    differs: str


def _calls() -> Iterator[Call]:
    section = ""
    for line in CALLS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found is not None, line
            yield Call(section, found["name"], found["text"], found["differs"].strip())


@dataclass(frozen=True)
class Engines:
    """Hive and hudisql, each as a function that takes a statement and gives rows of text."""

    hive: Ask
    hudisql: Ask
    file: Path


@pytest.fixture(scope="module")
def engines(
    session: Any, hive_server: HiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engines]:
    directory = tmp_path_factory.mktemp("functions")
    file = directory / "lines"
    file.write_text("a\nb\n")
    hive_server.query("CREATE DATABASE functions_db")
    hive_server.query(f"CREATE TABLE {TABLE} (id int, word string, amount double) STORED AS PARQUET")
    hive_server.query(
        f"INSERT INTO {TABLE} VALUES (1, 'a b', 1.5), (2, 'a c', 2.5), (3, 'b', 4.0), (4, 'b', NULL)"
    )
    server = ThriftServer(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole())
    beeline = start_beeline([*beeline_command(hive_server.directory, server.port)], directory)
    yield Engines(
        lambda text: [list(row.values()) for row in hive_server.query(text)],
        lambda text: [list(row.values()) for row in parse_rows(beeline.run(text, seconds=300))],
        file,
    )
    beeline.close()
    server.close()
    hive_server.query("DROP DATABASE functions_db CASCADE")


def _answers(ask: Ask, calls: Sequence[Call], file: Path) -> dict[Call, object]:
    """The answers of many calls, with one statement for each section of calls."""
    found: dict[Call, object] = {}
    for section, ending in (("scalar", ""), ("aggregate", f" FROM {TABLE}"), ("window", f" FROM {TABLE}")):
        of_section = [call for call in calls if call.section == section]
        if not of_section:
            continue
        columns = ", ".join(f"{call.text} AS c{number}" for number, call in enumerate(of_section))
        rows = sorted(ask(f"SELECT {columns}{ending}"), key=str)
        found |= {call: [row[number] for row in rows] for number, call in enumerate(of_section)}
    for call in calls:
        if call.section == "query":
            found[call] = sorted(ask(call.text.replace("{t}", TABLE).replace("{file}", str(file))), key=str)
    return found


def _answer(engines: Engines, call: Call) -> object:
    """The answer of one call in hudisql; None for an error."""
    try:
        return _answers(engines.hudisql, [call], engines.file)[call]
    except HiveError:
        return None


def test_every_function_of_hive_is_called_or_named_as_absent(engines: Engines) -> None:
    names = {str(row[0]) for row in engines.hive("SHOW FUNCTIONS")}
    assert {call.name for call in _calls()} == names
    page = PAGE.read_text(encoding="utf-8")
    named = {call.name for call in _calls() if call.differs or call.section == "absent"}
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []


@pytest.mark.soak
def test_functions_answer_as_in_hive(engines: Engines) -> None:
    calls = [call for call in _calls() if call.section != "absent"]
    hive = _answers(engines.hive, calls, engines.file)
    same = [call for call in calls if not call.differs]
    assert _answers(engines.hudisql, same, engines.file) == {call: hive[call] for call in same}
    for call in calls:
        if call.differs:
            assert _answer(engines, call) != hive[call], call
    engines.hudisql("SET hudisql.sql.functions=hive")
    engines.hudisql("SET spark.sql.ansi.enabled=false")
    as_hive = [call for call in calls if call.differs != "always differs"]
    assert _answers(engines.hudisql, as_hive, engines.file) == {call: hive[call] for call in as_hive}


def test_functions_of_ones_own_are_shared_through_the_metastore(engines: Engines, tmp_path: Path) -> None:
    jar = _make_jar(tmp_path)
    engines.hudisql(f"CREATE FUNCTION functions_db.twice AS 'example.Twice' USING JAR '{jar}'")
    engines.hive("CREATE FUNCTION functions_db.month_of AS 'org.apache.hadoop.hive.ql.udf.UDFDateFloorMonth'")
    engines.hive("RELOAD FUNCTION")
    call = "SELECT functions_db.twice('ab'), functions_db.month_of(CAST('2024-05-17 10:20:30' AS timestamp))"
    assert engines.hive(call) == engines.hudisql(call) == [["abab", "2024-05-01 00:00:00.0"]]
    engines.hudisql("DROP FUNCTION functions_db.twice")
    engines.hive("DROP FUNCTION functions_db.month_of")


def _make_jar(directory: Path) -> Path:
    java = Path(str(find_java_home())) / "bin" / "java"
    (library,) = (Path(str(pyspark.__file__)).parent / "jars").glob("hive-exec-*.jar")
    classes, jar = directory / "classes", directory / "twice.jar"
    compiler = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
    source = str(CALLS.with_name("Twice.java"))
    subprocess.run([*compiler, "-cp", str(library), "-d", str(classes), source], check=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(classes / "example" / "Twice.class", "example/Twice.class")
    return jar


def test_the_setting_can_be_reset_in_a_session(session: Any) -> None:
    answer = "SELECT stddev(v), hash('a') FROM VALUES (1D), (2D) t(v)"
    assert tuple(session.sql(answer).rows[0]) == pytest.approx((0.5**0.5, 1485273170))
    session.sql("SET hudisql.sql.functions=hive")
    try:
        assert tuple(session.sql(answer).rows[0]) == pytest.approx((0.5, 97))
    finally:
        session.sql("RESET hudisql.sql.functions")
    assert tuple(session.sql(answer).rows[0]) == pytest.approx((0.5**0.5, 1485273170))
