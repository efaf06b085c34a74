"""Reports of a run for CI systems: JUnit, with a case for each statement, or the same as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as Xml

from hudisql.errors import StorageError
from hudisql.migrations.listener import StatementOutcome

# Characters that XML 1.0 cannot contain.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_report(path: Path, outcomes: Sequence[StatementOutcome], command: str = "migrate") -> None:
    """Write the outcomes of `hudisql <command>` as JUnit (`.xml`) or JSON (`.json`). Raises StorageError."""
    content = junit_report(outcomes, command) if path.suffix == ".xml" else json_report(outcomes)
    try:
        # File names may contain bytes that are not UTF-8.
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise StorageError(f"cannot write the report {path}: {error.strerror}") from error


def junit_report(outcomes: Sequence[StatementOutcome], command: str = "migrate") -> str:
    """A suite for each script, a case for each statement with its seconds, counts and instants."""
    root = Xml.Element("testsuites", name=f"hudisql {command}")
    for name in dict.fromkeys(outcome.script.name for outcome in outcomes):
        cases = [outcome for outcome in outcomes if outcome.script.name == name]
        suite = Xml.SubElement(
            root,
            "testsuite",
            name=_xml_text(name),
            tests=str(len(cases)),
            failures=str(sum(statement_outcome.error is not None for statement_outcome in cases)),
            skipped=str(sum(statement_outcome.state == "skipped" for statement_outcome in cases)),
            time=f"{sum(statement_outcome.milliseconds for statement_outcome in cases) / 1000:.3f}",
        )
        for statement_outcome in cases:
            _add_case(suite, statement_outcome)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _add_case(suite: Xml.Element, outcome: StatementOutcome) -> None:
    case = Xml.SubElement(
        suite,
        "testcase",
        classname=_xml_text(outcome.script.name),
        name=_xml_text(f"{outcome.number}: {_head(outcome)}"),
        file=_xml_text(str(outcome.script.path)),
        line=str(outcome.statement.line),
        time=f"{outcome.milliseconds / 1000:.3f}",
    )
    if outcome.state == "skipped":
        Xml.SubElement(case, "skipped", message=_xml_text(outcome.skipped_because))
    if outcome.error is not None:
        kind = type(outcome.error).__name__
        failure = Xml.SubElement(case, "failure", message=_xml_text(outcome.error.message), type=kind)
        failure.text = _xml_text(f"{outcome.place}\n{outcome.error}\n{outcome.statement.text}")
    facts = {**outcome.counts, **({"instants": " ".join(outcome.instants)} if outcome.instants else {})}
    if facts:
        properties = Xml.SubElement(case, "properties")
        for name, value in facts.items():
            Xml.SubElement(properties, "property", name=name, value=_xml_text(str(value)))


def json_report(outcomes: Sequence[StatementOutcome]) -> str:
    """A list of statements."""
    return json.dumps([_as_json(outcome) for outcome in outcomes], ensure_ascii=False, indent=2) + "\n"


def _as_json(outcome: StatementOutcome) -> dict[str, Any]:
    return {
        "script": outcome.script.name,
        "file": str(outcome.script.path),
        "line": outcome.statement.line,
        "number": outcome.number,
        "statement": outcome.statement.text,
        "state": outcome.state,
        "milliseconds": outcome.milliseconds,
        "counts": dict(outcome.counts),
        "instants": list(outcome.instants),
        "error": None if outcome.error is None else str(outcome.error),
    }


def _head(outcome: StatementOutcome) -> str:
    if outcome.label:
        return outcome.label
    line = " ".join(outcome.statement.text.split())
    return line if len(line) <= 80 else f"{line[:80]}…"


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("�", text)
