"""The top-level `catalog/` directory: its templates and launchers work as its README says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import embedded_hive_site
from hudisql.java_runtime import find_java_home
from tests.free_port import find_free_port
from tests.processes import wait_for_port

CATALOG = Path(__file__).parents[2] / "catalog"
LAUNCHERS = ("start-metastore", "start-hiveserver2", "beeline")


def _properties(template: str) -> dict[str, str]:
    tree = ElementTree.parse(CATALOG / template)
    return {
        str(entry.findtext("name")): str(entry.findtext("value")) for entry in tree.getroot().iter("property")
    }


def _environment(**variables: str) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": find_java_home(),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(CATALOG.parent),
        **variables,
    }


def test_the_derby_template_says_what_the_embedded_metastore_says() -> None:
    given = _properties("metastore/derby/hive-site.xml")
    assert {key: value.replace("${hudisql.warehouse}", "/w") for key, value in given.items()} == (
        embedded_hive_site("/w")
    )


def test_the_hiveserver2_template_sets_the_one_right_input_format() -> None:
    given = _properties("hiveserver2/hive-site.xml")
    assert given["hive.input.format"] == "org.apache.hadoop.hive.ql.io.HiveInputFormat"
    assert given["hive.compute.query.using.stats"] == "false"


@pytest.mark.parametrize(
    "template",
    ["metastore/derby/hive-site.xml", "metastore/postgresql/hive-site.xml", "hiveserver2/hive-site.xml"],
)
def test_every_variable_of_a_template_is_set_by_a_launcher(template: str) -> None:
    used = set(re.findall(r"\$\{(hudisql\.[a-z0-9.]+)\}", "".join(_properties(template).values())))
    scripts = "".join((CATALOG / "bin" / name).read_text() for name in LAUNCHERS)
    assert used
    assert used <= set(re.findall(r"-D(hudisql\.[a-z0-9.]+)=", scripts))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_launchers_are_programs_that_a_plain_shell_can_read(name: str) -> None:
    script = CATALOG / "bin" / name
    assert os.access(script, os.X_OK)
    subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.hms
def test_the_metastore_launcher_serves_a_warehouse_on_derby(tmp_path: Path) -> None:
    port = find_free_port()
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(CATALOG / "bin" / "start-metastore"), "derby", str(port)],
            stdout=log,
            stderr=log,
            env=_environment(WAREHOUSE=str(tmp_path / "warehouse"), JAVA_OPTIONS="-XX:TieredStopAtLevel=1"),
        )
    try:
        wait_for_port(server, port, tmp_path / "log", 120)
        with MetastoreClient(f"thrift://127.0.0.1:{port}") as client:
            default = client.get_database("default")
        assert default is not None
        assert default.location == f"file:{tmp_path}/warehouse"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(120)


def test_a_launcher_without_its_settings_says_what_is_missing() -> None:
    environment = {key: value for key, value in _environment().items() if key != "WAREHOUSE"}
    answer = subprocess.run(
        [str(CATALOG / "bin" / "start-metastore"), "derby"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert answer.returncode != 0
    assert "set WAREHOUSE" in answer.stderr
