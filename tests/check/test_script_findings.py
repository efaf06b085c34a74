"""How findings are written for other programs."""

from __future__ import annotations

import json

from hudisql.check.script_findings import ScriptFinding, render

FINDING = ScriptFinding("a b/V1__x,y:z%é.sql", 3, 4, "type", "50% of\nit: a, b")


def test_an_annotation_escapes_the_separators_of_its_properties() -> None:
    assert render([FINDING], "github") == (
        "::error file=a b/V1__x%2Cy%3Az%25é.sql,line=3,col=4,title=type::50%25 of%0Ait: a, b\n"
    )


def test_sarif_names_files_by_uris_and_every_rule_once() -> None:
    found = json.loads(render([FINDING, FINDING], "sarif"))
    (run,) = found["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["type"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b/V1__x%2Cy%3Az%25%C3%A9.sql"
    assert place["region"] == {"startLine": 3, "startColumn": 4}
    assert run["results"][0]["message"]["text"]
