"""Every verb of the command ends with one clear line: impossible arguments, packages that are missing.

The verbs are those of the command's own tree, so that a new one is tested, too. None gets a session: what is
refused has to be refused before, or fails by the session.
"""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner, Result

from hudisql.cli.interrupts import ending_at_once
from hudisql.cli.main import app
from hudisql.errors import MetastoreUnavailableError

ROOT = typer.main.get_command(app)
# What a verb cannot be parsed without.
_REQUIRED = {"version": "1"}


def verbs(group: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command of the tree with its words; a group that runs without a verb counts as one."""
    if not hasattr(group, "commands"):
        yield path, group
        return
    if group.invoke_without_command:
        yield path, group
    for name, command in group.commands.items():
        yield from verbs(command, (*path, name))


def required(command: Any, *, but: Any | None = None) -> list[str]:
    """Values of the parameters that the command cannot do without."""
    words: list[str] = []
    for parameter in command.params:
        if parameter.required and parameter is not but:
            value = _REQUIRED.get(parameter.name or "", "absent")
            words += [value] if not parameter.opts[0].startswith("-") else [parameter.opts[0], value]
    return words


def types_of(command: Any, parameter: Any) -> set[Any]:
    """The types that the verb's function declares for the parameter."""
    if parameter.name not in (declared := inspect.signature(command.callback, eval_str=True).parameters):
        return set()
    annotation = get_args(declared[parameter.name].annotation)[0]
    return {annotation, *get_args(annotation)}


def options_of(is_of_kind: Callable[[Any, Any], bool]) -> list[Any]:
    """The options of a kind, each with its verb."""
    return [
        pytest.param(path, command, parameter, id=" ".join((*path, parameter.opts[0])))
        for path, command in verbs()
        for parameter in command.params
        if is_of_kind(command, parameter)
    ]


def is_number(command: Any, parameter: Any) -> bool:
    return bool(types_of(command, parameter) & {int, float})


def is_address(_command: Any, parameter: Any) -> bool:
    return bool(parameter.metavar == "HOST:PORT")


def run(*words: str) -> Result:
    """Run the command; it must have ended by itself, with one error if it failed."""
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert "Traceback" not in done.output
    if done.exit_code:
        assert len(re.findall(r"^(?:ERROR|Error:|╭─ Error)", done.output, re.MULTILINE)) == 1, done.output
    return done


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise MetastoreUnavailableError("no metastore here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hudisql.session.open_session", refuse)
    monkeypatch.setattr("hudisql.catalog.embedded.start_embedded_metastore", refuse)


@pytest.mark.parametrize(("path", "command", "parameter"), options_of(is_number))
def test_numbers_have_a_range(path: tuple[str, ...], command: Any, parameter: Any) -> None:
    option = parameter.opts[0]
    wrong = ["-1", "99999"] if parameter.metavar == "PORT" else ["-1"]
    for value in wrong:
        done = run(*path, f"{option}={value}", *required(command, but=parameter))
        assert done.exit_code == 2
        assert option in done.output


@pytest.mark.parametrize(("path", "command", "parameter"), options_of(is_address))
def test_addresses_have_a_port(path: tuple[str, ...], command: Any, parameter: Any) -> None:
    option = parameter.opts[0]
    for value in ("localhost:", "localhost:99999", "localhost:-1"):
        done = run(*path, f"{option}={value}", *required(command, but=parameter))
        assert done.exit_code == 2
        assert option in done.output


@pytest.mark.parametrize(("path", "command"), [pytest.param(*verb, id=" ".join(verb[0])) for verb in verbs()])
def test_places_that_cannot_be(path: tuple[str, ...], command: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\x00")
    places = [
        parameter
        for parameter in command.params
        if Path in types_of(command, parameter) or (parameter.metavar or "").endswith(("DIR", "FILE"))
    ]
    for parameter in places:
        for place in ("/proc/absent/directory", str(file), str(file / "below"), str(tmp_path / "absent")):
            words = [place] if not parameter.opts[0].startswith("-") else [parameter.opts[0], place]
            done = run(*path, *words, *required(command, but=parameter))
            # A place that can be made, or that no metastore can run in.
            succeeds = place.startswith(str(tmp_path)) or "not running" in done.output
            assert done.exit_code or succeeds, done.output


def test_a_project_that_cannot_be_made_names_its_directory() -> None:
    done = run("init", "/proc/absent")
    assert done.exit_code == 1
    assert done.output.startswith("ERROR: /proc/absent")
    assert len(done.output.splitlines()) == 1


_BLOCKED = """
import importlib.metadata, json, sys
from hudisql.cli import command_group

names = {
    found[1].replace("-", "_").lower()
    for text in importlib.metadata.requires("hudisql")
    if (found := command_group._REQUIREMENT.match(text)) and found[2] not in command_group._OF_DEVELOPMENT
}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].lower() in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import hudisql.session, hudisql.catalog.embedded
from hudisql.errors import MetastoreUnavailableError

def refuse(*_arguments, **_named):
    raise MetastoreUnavailableError("no metastore here")

hudisql.session.open_session = refuse
for verb in ("start", "stop"):
    setattr(hudisql.catalog.embedded, f"{verb}_embedded_metastore", refuse)
from typer.testing import CliRunner
from hudisql.cli.main import app

ended = {}
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    fault = None if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    ended[" ".join(words)] = [done.exit_code, done.output, fault]
print(json.dumps(ended))
"""


def test_packages_of_extras_that_are_missing_are_named(tmp_path: Path) -> None:
    words = [[*path, *required(command)] for path, command in verbs()]
    words += [
        ["ingest", "worker", "--push-log", str(tmp_path)],
        ["serve", "--port=0", "--ldap-url=ldaps://x"],
    ]
    words.remove(["serve"])
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, json.dumps(words)],
        capture_output=True,
        text=True,
        check=True,
        input="",
    )
    ended = json.loads(done.stdout)
    for verb, (code, output, fault) in ended.items():
        assert fault is None, (verb, fault)
        assert "Traceback" not in output
        assert code == 0 or output.count("ERROR") + output.count("Error") == 1, (verb, output)
    for verb in ("ingest worker", "ingest status"):
        assert ended[verb][0]
        assert "pip install 'hudisql[ingest]'" in ended[verb][1]


def test_control_c_at_the_very_end_leaves_no_traceback() -> None:
    code = (
        "import atexit, os, signal, sys\nfrom hudisql.cli.main import main\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\nsys.argv = ['hudisql', '--version']\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == -2


def test_control_c_while_the_session_closes_ends_the_process_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ending_at_once() as end_at_once:
        assert signal.getsignal(signal.SIGINT) is before
        end_at_once()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before
