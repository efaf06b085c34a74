"""Hooks of the docs site (mkdocs.yml): pages of the root, links to its files, version, order of the search.

`changelog.md` is CHANGELOG.md. The search lists pages about how hudisql works after those for users. The site
loads nothing from other hosts: pictures are SVG files, which GitHub shows, too.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LINK_OUT = re.compile(r"\[[^\]]*\]\(\.\./(?P<path>(?:sql|catalog|tests|scripts|hudisql)/[^)]*)\)")
_OF_THE_ROOT = {"changelog.md": "CHANGELOG.md"}
_BACKGROUND = re.compile(
    r"(adr/.*|architecture|internals|glossary|facts|comparison|benchmarks.*|ingest-cost|changelog)\.md"
)
_BACKGROUND_BOOST = 0.2
_FENCE = re.compile(r"\s*```")
_LIST = re.compile(r"(- |\d+\. )")
_IN_LIST = re.compile(r"(\s|- |\d+\. |$)")


def on_config(config: Any) -> Any:
    """List the decisions in the menu, and name the version at the foot of each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config["copyright"] = f"hudisql {project['version']}"
    pages = [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    for section in config["nav"]:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and "Decisions" in entry:
                entry["Decisions"] = pages
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie in the root."""
    from mkdocs.structure.files import File

    for name, source in _OF_THE_ROOT.items():
        content = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ become the names of what they show, since the site does not have it."""
    if _BACKGROUND.fullmatch(page.file.src_uri):
        page.meta["search"] = {"boost": _BACKGROUND_BOOST}
    text = _LINK_OUT.sub(r"`\g<path>`", markdown).replace("<!-- not run -->\n", "")
    return with_lists_apart(text)


def with_lists_apart(markdown: str) -> str:
    """An empty line before each list that follows a paragraph, as mkdocs needs it and GitHub does not."""
    lines: list[str] = []
    is_code = False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and _LIST.match(line) and lines and not _IN_LIST.match(lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
