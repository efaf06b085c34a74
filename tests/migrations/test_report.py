"""Reports: well-formed whatever a name or a message holds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from hudisql.errors import HudisqlError, StorageError
from hudisql.migrations.listener import StatementOutcome
from hudisql.migrations.report import write_report
from hudisql.migrations.scripts import MigrationScript, ScriptKind, Version
from hudisql.sql.text.script import ScriptStatement

ODD = "a\x01\x1b[0m <&'\"]]> \udcff \ufffe é"


def outcome(name: str, message: str) -> StatementOutcome:
    script = MigrationScript(Path(name), name, ScriptKind.VERSIONED, Version((1,)), "odd", message)
    statement = ScriptStatement(message)
    return StatementOutcome(script, 1, statement, "failed", counts={"rows": 1}, error=HudisqlError(message))


def test_control_characters_leave_the_reports_well_formed(tmp_path: Path) -> None:
    for name in ("report.xml", "report.json"):
        write_report(tmp_path / name, [outcome(f"V1__{ODD}.sql", ODD)])
    suite = Xml.parse(tmp_path / "report.xml").getroot()[0]
    assert suite.attrib["failures"] == "1"
    assert "<&'\"]]>" in (suite[0][0].text or "")
    assert json.loads((tmp_path / "report.json").read_text())[0]["counts"] == {"rows": 1}


def test_a_report_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "report.xml").mkdir()
    with pytest.raises(StorageError, match=r"cannot write the report .*report\.xml"):
        write_report(tmp_path / "report.xml", [])
