"""Words of the command line in scripts: known in those that it runs, refused in migrations."""

from __future__ import annotations

from pathlib import Path

from hudisql.check.script_check import ScriptFile, check_text
from hudisql.check.script_findings import ScriptFinding

TEXT = "\\d t;\n!help;\nSELCT 1;\nsource other.sql;\nquit;\nSELCT 2;\n"


def places(name: str) -> list[tuple[int, str]]:
    found: list[ScriptFinding] = list(check_text(ScriptFile(name, TEXT), {}))
    return [(each.line, each.code) for each in found]


def test_a_script_of_the_command_line_may_have_its_words_and_ends_with_quit() -> None:
    assert places(str(Path("jobs") / "daily.sql")) == [(3, "syntax")]


def test_a_migration_must_not_have_them() -> None:
    assert places("V1__a.sql") == [
        (1, "unsupported"),
        (2, "unsupported"),
        (3, "syntax"),
        (4, "unsupported"),
        (5, "unsupported"),
        (6, "syntax"),
    ]
