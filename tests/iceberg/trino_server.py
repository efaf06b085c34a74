"""A Trino server with one Iceberg catalog, `ice`, whose tables lie in the local file system."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

from hudisql.storage import Storage
from scripts.setup_oracles import TrinoInstallation

_CONFIG = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
"""
_CATALOG = """connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=local://{directory}/metastore
fs.native-local.enabled=true
local.location=/
iceberg.register-table-procedure.enabled=true
"""
_JAVA_OPTIONS = ("-Xmx2G", "-Djdk.attach.allowAttachSelf=true", "--enable-native-access=ALL-UNNAMED")
_START_SECONDS = 180


class LocalNames(Storage):
    """Names local files as Trino's local file system does, which does not know `file:/a/b`."""

    def hadoop_uri(self, path: str) -> str:
        """`local:///a/b`."""
        return f"local://{path}"


@dataclass(frozen=True)
class Trino:
    """A running server."""

    port: int

    def query(self, text: str) -> list[list[Any]]:
        """The rows of the statement, as Trino's client protocol has them."""
        url = f"http://127.0.0.1:{self.port}/v1/statement"
        rows: list[list[Any]] = []
        answer = _ask(urllib.request.Request(url, text.encode(), {"X-Trino-User": "test"}))
        while True:
            rows += answer.get("data", [])
            assert "error" not in answer, answer["error"]["message"]
            if "nextUri" not in answer:
                return rows
            answer = _ask(urllib.request.Request(answer["nextUri"]))


def _ask(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=120) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


@contextmanager
def running_trino(installation: TrinoInstallation, directory: Path, port: int) -> Iterator[Trino]:
    """Start the server with its files in the directory, and stop it afterwards."""
    (directory / "etc/catalog").mkdir(parents=True)
    (directory / "metastore").mkdir()
    (directory / "etc/config.properties").write_text(_CONFIG.format(port=port))
    (directory / "etc/log.properties").write_text("io.trino=WARN\n")
    (directory / "etc/catalog/ice.properties").write_text(_CATALOG.format(directory=directory))
    (directory / "plugin").symlink_to(installation.plugins)
    (directory / "secrets-plugin").mkdir()
    properties = {
        "node.id": "test",
        "node.environment": "test",
        "node.data-dir": str(directory / "data"),
        "config": "etc/config.properties",
        "log.levels-file": "etc/log.properties",
    }
    options = [*_JAVA_OPTIONS, *(f"-D{name}={value}" for name, value in properties.items())]
    command = [str(installation.java), *options, "-cp", f"{installation.libraries}/*"]
    with (directory / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, "io.trino.server.TrinoServer"], cwd=directory, stdout=log, stderr=log
        )
    try:
        _wait_until_started(server, port, directory / "log")
        yield Trino(port)
    finally:
        server.kill()
        server.wait()


def _wait_until_started(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + _START_SECONDS
    while time.monotonic() < ends and server.poll() is None:
        try:
            if not _ask(urllib.request.Request(f"http://127.0.0.1:{port}/v1/info"))["starting"]:
                return
        except (URLError, ConnectionError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"Trino has not started: {log.read_text()[-3000:]}")
