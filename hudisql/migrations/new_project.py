"""`hudisql init`: adds an example project of migrations to a directory, to be adapted."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hudisql.errors import InvalidArgumentError

TEMPLATE: Final = Path(__file__).parent / "project"
# Scripts that refer to each other: a directory that has scripts of its own gets none of them.
_EXAMPLES: Final = ("migrations", "jobs")
_WORKFLOW: Final = Path(".github/workflows/migrations.yml")
_REQUIREMENT: Final = "${{ vars.HUDISQL_REQUIREMENT }}"


@dataclass(frozen=True)
class ProjectFiles:
    """The files that were made, and those that were there before and stayed as they are."""

    made: tuple[Path, ...]
    kept: tuple[Path, ...]


def make_project(directory: Path) -> ProjectFiles:
    """Add the project's files to the directory; overwrites none. Raises InvalidArgumentError for a file."""
    if directory.exists() and not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is not a directory")
    used = {name for name in _EXAMPLES if (directory / name).is_dir() and any((directory / name).iterdir())}
    paths: list[Path] = []
    kept = [directory / name for name in sorted(used)]
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
        name = source.relative_to(TEMPLATE)
        target = directory / name
        if name.parts[0] in used or source.name.endswith((".pyc", ".crc")):
            continue
        if target.exists():
            kept.append(target)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_workflow(source) if name == _WORKFLOW else source.read_bytes())
        paths.append(target)
    return ProjectFiles(tuple(paths), tuple(kept))


def _workflow(source: Path) -> bytes:
    """The workflow, which installs hudisql from where this one was installed, unless a variable says else."""
    text, place = source.read_text(encoding="utf-8"), installed_requirement()
    if place is not None:
        text = text.replace(_REQUIREMENT, f"${{{{ vars.HUDISQL_REQUIREMENT || '{place}' }}}}")
    return text.encode()


def installed_requirement() -> str | None:
    """The requirement that installs this hudisql elsewhere; None if it comes from a directory or a file.

    By the `direct_url.json` of PEP 610, which an installation from an index lacks.
    """
    try:
        installed = importlib.metadata.distribution("hudisql")
    except importlib.metadata.PackageNotFoundError:
        return None
    recorded = installed.read_text("direct_url.json")
    if recorded is None:
        # A checkout's egg-info, which stands before the installation on the path, has no RECORD.
        return f"hudisql[java]=={installed.version}" if installed.read_text("RECORD") else None
    origin = json.loads(recorded)
    url = str(origin["url"])
    if not url.startswith(("https:", "http:", "ssh:")):
        return None
    if (source := origin.get("vcs_info")) is not None:
        url = f"{source['vcs']}+{url}@{source['commit_id']}"
    return f"hudisql[java] @ {url}"
