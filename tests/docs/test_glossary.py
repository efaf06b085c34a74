"""The glossary's terms are those of the code: each name in its last column exists there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (?!term|---)([^|]+)\|[^|]+\|[^|]+\| `(\w+)` \|$", (ROOT / "docs/glossary.md").read_text(), re.M
)


@pytest.fixture(scope="module")
def code() -> str:
    modules = sorted((ROOT / "hudisql").rglob("*.py"))
    return "\n".join(module.stem + "\n" + module.read_text() for module in modules)


def test_the_glossary_has_a_row_for_each_term() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")]
    headings = [line for line in rows if line.startswith("| term ")]
    assert len(ROWS) == len(rows) - len(headings) > 40


@pytest.mark.parametrize(("term", "name"), ROWS, ids=[term.strip() for term, _ in ROWS])
def test_the_code_uses_the_name(code: str, term: str, name: str) -> None:
    assert re.search(rf"(?<!\w){name}(?!\w)", code), f"{term.strip()}: no {name} in hudisql"
