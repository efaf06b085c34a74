"""`hudisql run`: what changed is refreshed in order, the tests say what stops, and a restart goes on."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.layers.conftest import PAID, SALES, LayerProject

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ALL = ("paid", "sales", "buyers")


def test_only_what_changed_runs_in_the_order_of_the_lineage(project: LayerProject) -> None:
    assert project.states("plan") == {
        "paid": ("create", None),
        "buyers": ("create", None),
        "sales": ("create", None),
    }
    first = list(project.states("apply"))
    assert set(first) > set(ALL)
    assert first.index("paid") < min(first.index("sales"), first.index("buyers"))
    assert {project.states("plan")[name] for name in ALL} == {("nothing", None)}
    project.sql("UPDATE {db}.orders SET state = 'paid' WHERE id = 3")
    assert project.states("plan") == {
        "paid": ("refresh", "joined rows"),
        "buyers": ("refresh", None),
        "sales": ("refresh", None),
    }
    second = project.states("apply")
    assert [second[name] for name in ALL] == [("done", "joined rows"), ("done", "groups"), ("done", "groups")]
    project.assert_fresh(*ALL)
    third = project.states("apply")
    assert {third[name] for name in ALL} == {("done", "nothing")}
    assert {state for name, state in third.items() if ":" in name} == {("skipped", None)}


def test_a_failed_test_stops_what_depends_on_it_until_it_passes(
    project: LayerProject, tmp_path: Path
) -> None:
    project.write("tests/few.sql", "SELECT * FROM {db}.paid WHERE amount > 100")
    project.run("apply")
    project.sql("UPDATE {db}.orders SET amount = 200 WHERE id = 1")
    report = tmp_path / "report.xml"
    for _ in range(2):
        done = project.run("apply", "--report", str(report), exit_code=1)
        assert "few: the query found 1 row:\n  id = 1, customer = 1, amount = 200" in done.stderr
        rows = {row["name"].split(".")[-1]: row for row in json.loads(done.stdout)}
        assert rows["few"]["state"] == "failed"
        assert (rows["sales"]["state"], rows["sales"]["reason"]) == ("skipped", "few failed")
    suites = {suite.attrib["name"]: suite for suite in Xml.parse(report).getroot()}
    assert suites["tests/few.sql"].attrib["failures"] == "1"
    assert suites["dws/sales.sql"][0][0].attrib == {"message": "few failed"}
    assert project.states("test", "--select", "paid", exit_code=1)["few"] == ("failed", None)
    project.sql("UPDATE {db}.orders SET amount = 20 WHERE id = 1")
    assert project.states("apply")["sales"] == ("done", "groups")
    project.assert_fresh(*ALL)


@pytest.mark.soak
def test_a_changed_file_alters_its_table_or_is_refused(project: LayerProject) -> None:
    project.run("apply")
    project.write(
        "dws/sales.sql", SALES.replace("count(*) AS orders", "count(*) + 1 AS orders, max(amount) AS most")
    )
    assert project.states("plan", "--select", "paid+") == {
        "paid": ("nothing", None),
        "buyers": ("nothing", None),
        "sales": ("alter", "whole"),
    }
    assert project.states("apply", "--select", "sales")["sales"] == ("done", "whole")
    project.assert_fresh("sales")
    project.write("dwd/paid.sql", PAID.replace("KEY (id)", "KEY (id, customer)"))
    assert project.states("plan", exit_code=3)["paid"] == ("blocked", None)
    assert "the key is id, customer now, and the rows lie by id" in project.run("apply", exit_code=3).stderr


@pytest.mark.soak
def test_a_failed_model_leaves_others_to_go_on(project: LayerProject) -> None:
    project.run("apply")
    project.write(
        "dws/bad.sql",
        "CREATE INCREMENTAL TABLE {db}.bad KEY (a) AS SELECT raise_error('no') AS a, id FROM {db}.paid",
    )
    project.write("dws/on_bad.sql", "CREATE INCREMENTAL TABLE {db}.on_bad KEY (a) AS SELECT a FROM {db}.bad")
    project.sql("UPDATE {db}.orders SET amount = 11 WHERE id = 1")
    states = project.states("apply", exit_code=1)
    assert states["bad"] == ("failed", None)
    assert states["on_bad"] == ("skipped", None)
    project.assert_fresh(*ALL)
