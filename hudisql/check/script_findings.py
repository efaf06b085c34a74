"""Findings of a check, and their formats: text, GitHub's annotations, SARIF or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from hudisql import errors
from hudisql.sql.text.script import ScriptStatement

FORMATS: Final = ("text", "github", "sarif", "json")
_PLACE: Final = re.compile(r"line (\d+), column (\d+)(?::|$|\n)")
# The first class that matches decides.
_CODES: Final[tuple[tuple[type[errors.HudisqlError], str], ...]] = (
    (errors.UndefinedVariableError, "unknown-variable"),
    (errors.SqlSyntaxError, "syntax"),
    (errors.NoSuchProcedureError, "unknown-procedure"),
    (errors.UnknownParameterError, "unknown-parameter"),
    (errors.UnknownColumnError, "unknown-column"),
    (errors.InvalidArgumentError, "argument"),
    (errors.NoSuchTableError, "unknown-table"),
    (errors.TableExistsError, "table-exists"),
    (errors.UnsupportedStatementError, "unsupported"),
    (errors.UnsupportedTableError, "unsupported"),
    (errors.BootstrapBlockedError, "blocked"),
    (errors.WriteRefusedError, "type"),
    (errors.SettingsError, "setting"),
)
_CODES_OF_SPARK: Final = {
    "TABLE_OR_VIEW_NOT_FOUND": "unknown-table",
    "SCHEMA_NOT_FOUND": "unknown-database",
    "UNRESOLVED_COLUMN": "unknown-column",
    "UNRESOLVED_USING_COLUMN_FOR_JOIN": "unknown-column",
    "UNRESOLVED_ROUTINE": "unknown-function",
    "PARSE_SYNTAX_ERROR": "syntax",
}
SCRIPT_NAME: Final = "script-name"
CODES: Final = {
    "syntax": "the statement cannot be parsed",
    "unknown-variable": "a ${variable} has no value",
    "unknown-procedure": "CALL names a procedure that does not exist",
    "unknown-parameter": "the procedure has no such parameter",
    "argument": "an argument or a property is missing, of a wrong type or of a bad value",
    "unknown-table": "there is no such table or view",
    "unknown-database": "there is no such database",
    "unknown-column": "there is no such column",
    "unknown-function": "there is no such function",
    "unknown-setting": "neither Apache Hudi nor hudisql knows the hoodie.* setting",
    "table-exists": "the table is there already",
    "unsupported": "Hudi tables cannot take the statement",
    "type": "a value's type does not fit its column",
    "merge-key": "the condition of a MERGE does not compare the whole record key",
    "not-idempotent": "a bootstrap that would do something else when it is called again",
    "blocked": "the plan of a bootstrap has blockers (--level plan)",
    "setting": "a setting has a bad value",
    SCRIPT_NAME: "a script of a directory of migrations is misnamed, or another one has its version",
    "error": "anything else that would fail",
}
"""What each code means."""


@dataclass(frozen=True)
class ScriptFinding:
    """One problem and its position in a file (1-based)."""

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.code} {self.message}"


def finding_of(error: errors.HudisqlError, file: str, statement: ScriptStatement) -> ScriptFinding:
    """The finding for a statement's error; at the statement if the error has no position."""
    place = _PLACE.search(error.message)
    line, column = (int(place[1]), int(place[2])) if place else (statement.line, statement.column)
    text = error.message
    if place is not None and place.start() == 0:
        text = text[place.end() :]
    lines = [part.strip() for part in text.strip().splitlines()]
    return ScriptFinding(file, line, column, code_of(error), lines[0] if lines else error.message, error.hint)


def code_of(error: errors.HudisqlError) -> str:
    """The code of an error."""
    if error.condition is not None:
        named = error.condition.partition(".")[0]
        if named in _CODES_OF_SPARK or "TYPE_MISMATCH" in named:
            return _CODES_OF_SPARK.get(named, "type")
    return next((code for kind, code in _CODES if isinstance(error, kind)), "error")


def render(findings: Sequence[ScriptFinding], form: str) -> str:
    """The findings in one of `FORMATS`; empty without findings, but for SARIF and JSON."""
    if form == "json":
        return json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=2) + "\n"
    if form == "sarif":
        return json.dumps(_sarif(findings), ensure_ascii=False, indent=2) + "\n"
    lines = [_github(finding) if form == "github" else str(finding) for finding in findings]
    return "".join(f"{line}\n" for line in lines)


def _github(finding: ScriptFinding) -> str:
    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    # Separators of properties must be escaped in a property, too.
    file = escaped(finding.file).replace(":", "%3A").replace(",", "%2C")
    properties = f"file={file},line={finding.line},col={finding.column},title={finding.code}"
    return f"::error {properties}::{escaped(finding.message)}"


def _sarif(findings: Sequence[ScriptFinding]) -> dict[str, Any]:
    used = dict.fromkeys(finding.code for finding in findings)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "hudisql check",
                        "rules": [
                            {"id": code, "shortDescription": {"text": CODES.get(code, code)}} for code in used
                        ],
                    }
                },
                "results": [_sarif_result(finding) for finding in findings],
            }
        ],
    }


def _sarif_result(finding: ScriptFinding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column}
    uri = quote(Path(finding.file).as_posix())
    location = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": finding.code,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
    }
