"""The scripts of a migration directory: Flyway's file names, their order, checksums and statements.

`V<version>__<text>.sql` runs once, `R__<text>.sql` again whenever it has changed, `U<version>__<text>.sql`
undoes a version. Knows neither tables nor what has been applied.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Final

from hudisql.errors import InvalidArgumentError, SqlSyntaxError
from hudisql.sql.text.script import ScriptStatement, read_script, split_script
from hudisql.sql.text.shell_commands import find_shell_command

_NAME: Final = re.compile(
    r"(?:(?P<kind>[VU])(?P<version>\d+(?:[._]\d+)*)|(?P<repeatable>R))__(?P<text>.+)\.sql"
)

_LIKE_NAME: Final = re.compile(r"(?:[VU]\d[\d._]*|R_)_", re.IGNORECASE)


class ScriptKind(Enum):
    """The kind of a script."""

    VERSIONED = "SQL"
    REPEATABLE = "REPEATABLE"
    UNDO = "UNDO"


@dataclass(frozen=True, order=True)
class Version:
    """A version as numbers, so that 2 is before 10 and 1.0 is 1."""

    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Version:
        """`1`, `1.2` or `1_2`. Raises InvalidArgumentError."""
        if not re.fullmatch(r"\d+(?:[._]\d+)*", text):
            raise InvalidArgumentError(f"'{text}' is not a version", hint="versions are numbers: 1, 2.1")
        numbers = [int(part) for part in re.split("[._]", text)]
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers.pop()
        return cls(tuple(numbers))

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))


@dataclass(frozen=True)
class MigrationScript:
    """One script; `name` is its path below the directory, `version` None for a repeatable one."""

    path: Path
    name: str
    kind: ScriptKind
    version: Version | None
    description: str
    text: str

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the text, ignoring line ends."""
        return checksum_of(self.text)

    @cached_property
    def statements(self) -> Sequence[ScriptStatement]:
        """The statements in their order. Raises SqlSyntaxError, which names the file."""
        try:
            return split_script(self.text)
        except SqlSyntaxError as error:
            raise SqlSyntaxError(f"{self.path}: {error.message}", hint=error.hint) from error

    @property
    def label(self) -> str:
        """The script's name in the history: its version, or the description of a repeatable one."""
        return self.description if self.version is None else str(self.version)


@dataclass(frozen=True)
class MigrationScripts:
    """The scripts of a directory, each kind in its order."""

    directory: Path
    versioned: tuple[MigrationScript, ...]
    repeatable: tuple[MigrationScript, ...]
    undo: tuple[MigrationScript, ...]


def identity_of(script: MigrationScript) -> tuple[str, str]:
    """The script's identity in the checkpoint, independent of its text: kind and label."""
    return script.kind.value, script.label


def refuse_shell_commands(script: MigrationScript) -> None:
    """Raise InvalidArgumentError if a statement is a shell command, such as `quit`.

    Raises SqlSyntaxError if the script cannot be split.
    """
    for statement in script.statements:
        if find_shell_command(statement.text) is not None:
            raise InvalidArgumentError(
                f"{script.path}:{statement.line}: '{statement.text}' is a command of the shell, not SQL",
                hint="a migration contains SQL only; hudisql -f runs scripts with shell commands",
            )


def checksum_of(text: str) -> str:
    """SHA-256 of a script or a statement, in hexadecimal digits."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return hashlib.sha256(lines.encode()).hexdigest()


def load_scripts(directory: Path) -> MigrationScripts:
    """Read every `.sql` file, with the suffix in any case, of the directory and its subdirectories.

    Raises InvalidArgumentError for a path that is not a directory, a file name that does not follow Flyway, a
    duplicate version, and a file that is not UTF-8 text.
    """
    if not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is not a directory", hint="hudisql init DIR makes a project")
    for problem in name_problems(directory):
        raise problem.error
    scripts = [_load(directory, path) for path in _sql_files(directory)]
    return MigrationScripts(
        directory,
        _ordered(scripts, ScriptKind.VERSIONED),
        _ordered(scripts, ScriptKind.REPEATABLE),
        _ordered(scripts, ScriptKind.UNDO),
    )


@dataclass(frozen=True)
class NameProblem:
    """A script that `load_scripts` refuses for its name, with the error that says why."""

    path: Path
    error: InvalidArgumentError


def name_problems(directory: Path) -> Iterator[NameProblem]:
    """The scripts whose name does not follow Flyway, or has the version or description of another one.

    Raises InvalidArgumentError for a directory that cannot be read.
    """
    by_name: dict[tuple[ScriptKind, Version | str], Path] = {}
    for path in _sql_files(directory):
        name = _read_name(path)
        if name is None:
            error = InvalidArgumentError(
                f"{path} is not named as a migration script",
                hint="V1__text.sql runs once, R__text.sql again when it has changed, U1__text.sql undoes V1",
            )
            yield NameProblem(path, error)
            continue
        kind, version, description = name
        other = by_name.setdefault((kind, version or description), path)
        if other is not path:
            same = "version" if version else "name"
            error = InvalidArgumentError(
                f"{other} and {path} have the same {same}", hint="rename one of them"
            )
            yield NameProblem(path, error)


def migration_directories(path: Path) -> Iterator[Path]:
    """The directories at or below a path that `hudisql migrate` may be given: of a project, its migrations.

    Scripts that seem to be meant as migrations tell them from other directories of scripts.
    """
    if not path.is_dir() or not _holds_migrations(path):
        return
    own = [entry for entry in path.iterdir() if entry.is_file() and entry.suffix.lower() == ".sql"]
    below = [entry for entry in sorted(path.iterdir()) if entry.is_dir() and _sql_files(entry)]
    if any(_LIKE_NAME.match(entry.name) for entry in own) or (not own and all(map(_holds_migrations, below))):
        yield path
        return
    for directory in below:
        yield from migration_directories(directory)


def _holds_migrations(directory: Path) -> bool:
    return any(_LIKE_NAME.match(path.name) for path in _sql_files(directory))


def _sql_files(directory: Path) -> list[Path]:
    def fail(error: OSError) -> None:
        raise InvalidArgumentError(f"cannot read {error.filename}: {error.strerror}") from error

    paths = [Path(parent, name) for parent, _, names in os.walk(directory, onerror=fail) for name in names]
    return sorted(path for path in paths if path.suffix.lower() == ".sql")


def _read_name(path: Path) -> tuple[ScriptKind, Version | None, str] | None:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    description = match["text"].replace("_", " ")
    if match["kind"] is None:
        return ScriptKind.REPEATABLE, None, description
    kind = ScriptKind.VERSIONED if match["kind"] == "V" else ScriptKind.UNDO
    return kind, Version.parse(match["version"]), description


def _load(directory: Path, path: Path) -> MigrationScript:
    name = _read_name(path)
    assert name is not None
    kind, version, description = name
    relative = path.relative_to(directory).as_posix()
    return MigrationScript(path, relative, kind, version, description, read_script(path))


def _ordered(scripts: Sequence[MigrationScript], kind: ScriptKind) -> tuple[MigrationScript, ...]:
    chosen = [script for script in scripts if script.kind is kind]
    return tuple(
        sorted(
            chosen,
            key=lambda migration_script: (
                migration_script.version or Version(()),
                migration_script.description,
            ),
        )
    )
