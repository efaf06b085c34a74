"""Name what is missing before the version of pyproject.toml can be released. Exit code 1 if something is."""

from __future__ import annotations

import email.parser
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METADATA = ("Summary", "License", "Requires-Python", "Description", "Project-URL", "Author", "Classifier")


def main() -> None:
    """Print a line for each thing that is missing."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    missing = [*missing_in_repository(version), *missing_in_wheel(version)]
    for line in missing:
        print(line)
    if missing:
        sys.exit(1)
    print(f"hudisql {version} can be released")


def missing_in_repository(version: str) -> Iterator[str]:
    """Check the changelog, the work tree and the tag."""
    if f"## {version}\n" not in (ROOT / "CHANGELOG.md").read_text():
        yield f'CHANGELOG.md: no heading "## {version}" (it says "unreleased" until the release)'
    if git("status", "--porcelain"):
        yield "git: the work tree has changes that are not committed"
    if f"v{version}" not in git("tag", "--points-at", "HEAD").split():
        yield f"git: HEAD has no tag v{version}"


def missing_in_wheel(version: str) -> Iterator[str]:
    """Check the metadata of the wheel that `make dist` built."""
    wheel = ROOT / "dist" / f"hudisql-{version}-py3-none-any.whl"
    if not wheel.exists():
        yield f"dist: {wheel.name} is not built (make dist)"
        return
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"hudisql-{version}.dist-info/METADATA").decode()
    metadata = email.parser.Parser().parsestr(text)
    for name in METADATA:
        if name not in metadata and not (name == "Description" and metadata.get_payload()):
            yield f"pyproject.toml: the wheel's metadata has no {name}"


def git(*arguments: str) -> str:
    """The output of a git command on the checkout."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
