"""`hudisql init`: creates a directory with an example project of migrations, to be adapted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hudisql.errors import InvalidArgumentError

TEMPLATE: Final = Path(__file__).parent / "project"


def make_project(directory: Path) -> list[Path]:
    """Write the project's files; returns their paths. Raises InvalidArgumentError in a used directory."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InvalidArgumentError(f"{directory} exists and is not empty", hint="name a new directory")
    return list(_copied(directory))


def _copied(directory: Path) -> Iterator[Path]:
    for source in sorted(TEMPLATE.rglob("*")):
        target = directory / source.relative_to(TEMPLATE)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not source.name.endswith((".pyc", ".crc")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            yield target
