"""Hive's JDBC drivers, which database tools bring: 2.3 with beeline, 3.1 and 4.0 here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hudisql.java_runtime import find_java_home
from hudisql.server.thrift_server import ThriftServer
from scripts.setup_oracles import HIVE_JDBC_VERSIONS, HIVE_VERSION, install_hive, install_hive_jdbc

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.hive, pytest.mark.soak]
CLIENT = Path(__file__).parent / "JdbcClient.java"
SAID = [
    "product=hudisql",
    "rows=1|ä",
    "columns=null|default|jdbc_t|id",
    "schemas=default",
    "typed=true|7|1.50|2024-01-02|2024-01-02 03:04:05.678|",
    "large=25000",
    "state=42703",
    "end",
]


def class_path(version: str) -> str:
    if version == HIVE_VERSION:
        return f"{install_hive().libraries}/*"
    return str(install_hive_jdbc(version))


@pytest.mark.parametrize("transport", ["", ";auth=noSasl", ";transportMode=http;httpPath=cliservice"])
@pytest.mark.parametrize("version", [HIVE_VERSION, *HIVE_JDBC_VERSIONS])
def test_a_driver_browses_runs_and_reads(server: ThriftServer, version: str, transport: str) -> None:
    java = find_java_home()
    assert java is not None
    url = f"jdbc:hive2://127.0.0.1:{server.port}/default{transport}"
    done = subprocess.run(
        [f"{java}/bin/java", "-Dfile.encoding=UTF-8", "-cp", class_path(version), str(CLIENT), url],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    missing = [each for each in SAID if not any(line.startswith(each) for line in lines)]
    assert not missing, done.stdout
