"""`hudisql run`: what changed is refreshed in order, the tests say what stops, and a restart goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import MetastoreDatabase
from hudisql.cli.layers import Terminal
from hudisql.errors import MetastoreUnavailableError
from hudisql.layers.model_run import RunOutcome
from hudisql.layers.passed_tests import PassedTests
from hudisql.layers.project import load_project
from tests.layers.conftest import PAID, SALES, LayerProject

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ALL = ("paid", "sales", "buyers")


def test_only_what_changed_runs_in_order_and_a_failed_test_stops_it(
    project: LayerProject, tmp_path: Path
) -> None:
    assert project.states("plan") == dict.fromkeys(ALL, ("create", None))
    first = list(project.states("apply"))
    assert first.index("paid") < min(first.index("sales"), first.index("buyers"))
    assert project.states("plan") == dict.fromkeys(ALL, ("nothing", None))
    project.sql("UPDATE {db}.orders SET state = 'paid' WHERE id = 3")
    assert project.states("plan") == {
        "paid": ("refresh", "joined rows"),
        "buyers": ("refresh", None),
        "sales": ("refresh", None),
    }
    project.write("tests/few.sql", "SELECT * FROM {db}.paid WHERE amount > 20")
    done = project.run("apply", exit_code=1)
    assert "few: the query found 1 row:\n  id = 3, customer = 2, amount = 30, region = s\n" in done.stderr
    assert "sales: not run, few failed" in done.stderr
    project.write("tests/few.sql", "SELECT * FROM {db}.paid WHERE amount > 30")
    second = project.states("apply")
    assert [second[name] for name in ALL] == [("done", "nothing"), ("done", "groups"), ("done", "groups")]
    project.assert_fresh(*ALL)
    third = project.states("apply")
    assert {third[name] for name in ALL} == {("done", "nothing")}
    assert {state for name, state in third.items() if name not in ALL} == {("skipped", None)}
    project.run("docs", "--output", str(tmp_path / "docs"))
    page = (tmp_path / f"docs/{project.database}.sales.html").read_text()
    for text in (
        "Key: <code>region<",
        "<code>total</code></td><td>bigint",
        "accepted_values(region",
        ">{db}.orders</text>",
        "passed on the current rows",
        ": 0 inserted, 1 updated, 0 deleted",
    ):
        assert project.named(text) in page
    assert project.named("{db}.sales</a></td><td><time>20") in (tmp_path / "docs/index.html").read_text()
    assert len(list((tmp_path / "docs").iterdir())) == 6


@pytest.mark.soak
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
    project.write("dws/sales.sql", SALES.replace("sum(amount)", "sum(amonut)"))
    assert project.states("plan", exit_code=3)["sales"] == ("blocked", None)
    assert project.states("apply", exit_code=1)["buyers"] == ("done", "nothing")
    project.write("dwd/paid.sql", PAID.replace("KEY (id)", "KEY (id, customer)"))
    assert project.states("plan", exit_code=3)["paid"] == ("blocked", None)
    refused = project.run("apply", exit_code=3).stderr
    assert "the key is now id, customer, but the rows are stored by id" in refused


@pytest.mark.soak
def test_changed_properties_and_comment_are_set_and_run_no_query(project: LayerProject) -> None:
    (project.directory / "dws/sales.sql").unlink()
    project.run("apply")
    clauses = (
        "KEY (id) COMMENT 'it\\'s paid' TBLPROPERTIES ('hoodie.keep.min.commits' = '40', team = '{}') AS"
    )
    project.write("dwd/paid.sql", PAID.replace("KEY (id) AS", clauses.format("a")))
    assert project.states("plan") == {"paid": ("alter", "nothing"), "buyers": ("nothing", None)}
    applied = project.states("apply")
    assert (applied["paid"], applied["buyers"]) == (("done", "nothing"), ("done", "nothing"))
    shown = project.sql("SHOW CREATE TABLE {db}.paid")[0][0]
    assert "COMMENT 'it\\'s paid'" in shown
    assert "'team' = 'a'" in shown
    assert "'hoodie.keep.min.commits' = '40'" in shown
    assert project.states("plan")["paid"] == ("nothing", None)
    project.sql("ALTER TABLE {db}.paid ALTER COLUMN amount COMMENT 'in <euro>'")
    pages = project.directory.parent / "pages"
    project.run("docs", "--output", str(pages))
    page = (pages / f"{project.database}.paid.html").read_text()
    assert "<code>amount</code></td><td>int</td><td>in &lt;euro&gt;</td>" in page
    assert "<p>it&#x27;s paid</p>" in page
    project.sql("UPDATE {db}.orders SET amount = 12 WHERE id = 1")
    project.write("dwd/paid.sql", PAID.replace("KEY (id) AS", clauses.format("b")))
    assert project.states("plan") == {"paid": ("alter", "joined rows"), "buyers": ("refresh", None)}
    assert project.states("apply")["paid"] == ("done", "joined rows")
    assert "'team' = 'b'" in project.sql("SHOW CREATE TABLE {db}.paid")[0][0]
    project.assert_fresh("paid", "buyers")
    refused = "KEY (id) TBLPROPERTIES (type = 'mor', preCombineField = 'amount') AS"
    project.write("dwd/paid.sql", PAID.replace("KEY (id) AS", refused))
    assert "preCombineField is not a property of an incremental" in project.run("apply", exit_code=3).stderr
    project.write(
        "dwd/paid.sql", PAID.replace("KEY (id) AS", refused.replace(", preCombineField = 'amount'", ""))
    )
    assert "type cannot be changed" in project.run("apply", exit_code=3).stderr


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


@pytest.mark.soak
def test_a_watch_follows_the_sources_until_sigterm(project: LayerProject) -> None:
    project.run("apply")

    def change_and_stop() -> None:
        project.sql("INSERT INTO {db}.orders VALUES (7, 9, 70, 'paid')")
        until = time.monotonic() + 120
        with project.session.isolated() as session:
            count = project.named("SELECT count(*) FROM {db}.buyers WHERE customer = 9")
            while session.sql(count).rows[0][0] == 0 and time.monotonic() < until:
                time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    changing = threading.Thread(target=change_and_stop)
    changing.start()
    done = project.run("apply", "--watch", "0.2")
    changing.join()
    assert "SIGTERM: stopping" in done.stderr
    # Rounds in which nothing changes say nothing.
    assert done.stderr.count("buyers: groups") == 1
    assert "nothing to do" not in done.stderr
    project.run("apply")
    project.assert_fresh(*ALL)


@pytest.mark.soak
def test_a_watch_outlasts_the_metastore_and_ends_well_within_a_round(
    project: LayerProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = MetastoreClient.get_database, Terminal.ended
    failures = ["the metastore is away"]

    def get_database(client: MetastoreClient, name: str) -> MetastoreDatabase | None:
        if failures and name == project.database:
            raise MetastoreUnavailableError(failures.pop())
        return asked(client, name)

    def stop_at_first(terminal: Terminal, outcome: RunOutcome) -> None:
        ended(terminal, outcome)
        if len(terminal.outcomes) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(MetastoreClient, "get_database", get_database)
    monkeypatch.setattr(Terminal, "ended", stop_at_first)
    done = project.run("apply", "--watch", "0.1", "--parallelism", "1")
    assert "the metastore is away" in done.stderr
    assert "paid: whole" in done.stderr
    assert "sales" not in done.stderr


@pytest.mark.soak
def test_bad_usage_runs_nothing(project: LayerProject) -> None:
    project.write("dws/loop.sql", "CREATE INCREMENTAL TABLE {db}.loop AS\nSELECT * FROM {db}.loop")
    assert project.named("cycle: {db}.loop → {db}.loop") in project.run("apply", exit_code=2).stderr
    project.write("dws/loop.sql", "CREATE INCREMENTAL TABLE {db}.paid AS\nSELECT * FROM {db}.orders")
    assert "is created by" in project.run("plan", exit_code=2).stderr
    (project.directory / "dws/loop.sql").unlink()
    for options, message in (
        (["--select", "none"], "matches no model"),
        (["--parallelism", "0"], "'--parallelism'"),
        (["--report", "report.txt"], "must end in .xml"),
    ):
        assert message in project.run("apply", *options, exit_code=2).stderr
    assert project.sql("SHOW TABLES IN {db} LIKE 'paid'") == []


@pytest.mark.soak
def test_a_view_stands_for_what_it_reads(project: LayerProject) -> None:
    project.run("apply", "--select", "paid")
    project.sql("CREATE VIEW {db}.seen AS SELECT id, amount FROM {db}.paid")
    project.write(
        "dws/of_view.sql", "CREATE INCREMENTAL TABLE {db}.of_view KEY (id) AS\nSELECT * FROM {db}.seen"
    )
    project.run("apply", "--select", "of_view")
    project.sql("UPDATE {db}.orders SET amount = 12 WHERE id = 1")
    assert project.states("apply", "--select", "paid+")["of_view"] == ("done", "rows")
    project.assert_fresh("of_view")


def test_names_in_a_view_are_of_its_database_and_what_varies_has_no_fingerprint(
    project: LayerProject, tmp_path: Path
) -> None:
    above = f"{project.database}_above"
    project.session.sql(f"CREATE DATABASE {above} LOCATION '{tmp_path / 'above'}'")
    project.sql("USE {db}")
    project.sql("CREATE VIEW {db}.seen AS SELECT * FROM orders")
    project.sql(f"CREATE VIEW {above}.seen AS SELECT * FROM {{db}}.seen")
    project.sql("USE default")
    for name, query in (
        ("of_table", "SELECT * FROM {db}.orders WHERE id < 0"),
        ("of_view", f"SELECT * FROM {above}.seen WHERE id < 0"),
        ("of_changes", "SELECT * FROM hudi_table_changes('{db}.orders', 'latest_state', 'earliest')"),
        ("of_clock", "SELECT * FROM {db}.orders WHERE current_date() < '2024-01-01'"),
    ):
        project.write(f"tests/{name}.sql", query)
    loaded = load_project(project.session, project.directory)
    assert loaded.tests["of_view"].reads == loaded.tests["of_table"].reads == (project.named("{db}.orders"),)

    def fingerprints() -> dict[str, str]:
        passed = PassedTests(project.session.context, loaded)
        found = {name: passed.fingerprint(test) for name, test in loaded.tests.items() if "(" not in name}
        return {name: each for name, each in found.items() if each is not None}

    before = fingerprints()
    assert list(before) == ["of_table"]
    assert fingerprints() == before
    project.sql("INSERT INTO {db}.orders VALUES (8, 1, 10, 'open')")
    after = fingerprints()
    assert after.keys() == before.keys()
    assert after != before
    with (tmp_path / "db/orders/.hoodie/hoodie.properties").open("a") as properties:
        properties.write("hudisql.bootstrap.register.only=true\n")
    assert not fingerprints()
    project.session.sql(f"DROP VIEW {above}.seen")
    project.session.sql(f"DROP DATABASE {above}")
