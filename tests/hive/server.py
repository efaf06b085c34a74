"""A real HiveServer2 2.3.10 with Hudi's input formats, on a given metastore, and beeline to ask it.

Hive 2.3 was made for Java 8; on Java 17 it needs Hadoop's client class loader (it casts its own loader to
URLClassLoader) and a few opened packages. Queries run as MapReduce inside the server process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import HIVE_VERSION, install_hive, install_hudi_bundle
from tests.free_port import find_free_port
from tests.hive.beeline import Beeline, start_beeline
from tests.processes import end_process, wait_for_port

START_SECONDS = 240
STATEMENT_SECONDS = 600
# The one input format that reads plain and bootstrapped Hudi tables right in Hive (its default does not).
INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveInputFormat"
OPENED_PACKAGES = (
    *("java.lang", "java.lang.reflect", "java.net", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.io", "java.nio", "java.text", "java.time"),
    *("sun.nio.ch", "sun.security.action"),
)
SYSTEM_CLASSES = (
    "java.,javax.xml.,javax.sql.,javax.security.,javax.management.,javax.naming.,javax.net.,"
    "org.w3c.,org.xml.,sun.,jdk.,com.sun."
)


@dataclass
class HiveServer:
    """A running HiveServer2; make one with `start_hive_server`."""

    port: int
    process: subprocess.Popen[bytes]
    directory: Path
    beeline: Beeline | None = None

    def query(self, statement: str) -> list[dict[str, str | None]]:
        """Run one statement by beeline and return its rows as text by column name (NULL is None)."""
        if self.beeline is None:
            self.beeline = start_beeline(beeline_command(self.directory, self.port), self.directory)
        return parse_rows(self.beeline.run(statement, seconds=STATEMENT_SECONDS))

    def disconnect(self) -> None:
        """End beeline; the next query starts another one."""
        if self.beeline is not None:
            self.beeline.close()
            self.beeline = None

    def close(self) -> None:
        """End the server and its beeline."""
        self.disconnect()
        end_process(self.process)


def start_hive_server(directory: Path, metastore_uri: str) -> HiveServer:
    """Start HiveServer2 on `metastore_uri`; `directory` takes its configuration, log and scratch files.

    Installs Hive if it is missing. Raises RuntimeError if the server does not open its port.
    """
    hive, bundle = install_hive(), install_hudi_bundle("0.15.0")
    directory.mkdir(parents=True, exist_ok=True)
    port = find_free_port()
    (directory / "hive-site.xml").write_text(_render_configuration(_settings(directory, metastore_uri, port)))
    command = [
        *(_java(), "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=192m", "-XX:TieredStopAtLevel=1"),
        *("-XX:+UseSerialGC", f"-Djava.io.tmpdir={directory}"),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
        *("-cp", f"{hive.libraries}/*", "org.apache.hadoop.util.RunJar"),
        *(
            str(hive.libraries / f"hive-service-{HIVE_VERSION}.jar"),
            "org.apache.hive.service.server.HiveServer2",
        ),
    ]
    environment = {
        **os.environ,
        "HADOOP_USE_CLIENT_CLASSLOADER": "true",
        "HADOOP_CLASSPATH": f"{directory}:{hive.libraries}/*:{bundle}:{hive.auxiliary}/*",
        "HADOOP_CLIENT_CLASSLOADER_SYSTEM_CLASSES": SYSTEM_CLASSES,
        "TZ": "UTC",
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=directory
        )
    wait_for_port(process, port, directory / "log", START_SECONDS)
    return HiveServer(port, process, directory)


def beeline_command(directory: Path, port: int) -> Sequence[str]:
    """Beeline on a server of HiveServer2's protocol, reading statements from standard input."""
    return [
        *(_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-cp", f"{directory}:{install_hive().libraries}/*", "org.apache.hive.beeline.BeeLine"),
        *("-u", f"jdbc:hive2://127.0.0.1:{port}/", "-n", "test", "-f", "/dev/stdin", "--force=true"),
        *("--silent=true", "--outputformat=tsv2", "--showHeader=true", "--nullemptystring=false"),
        *("--hiveconf", f"hive.input.format={INPUT_FORMAT}"),
    ]


def _settings(directory: Path, metastore_uri: str, port: int) -> Mapping[str, str]:
    return {
        "hive.metastore.uris": metastore_uri,
        "hive.metastore.warehouse.dir": f"file://{directory}/warehouse",
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(port),
        "hive.server2.webui.port": "0",
        "hive.server2.enable.doAs": "false",
        "hive.server2.logging.operation.enabled": "false",
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        # A task takes its whole buffer at once, 100 MiB unless told; Hive asks once a second if it is done.
        "mapreduce.task.io.sort.mb": "4",
        "hive.exec.counters.pull.interval": "50",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.submitviachild": "false",
        "hive.support.concurrency": "false",
        "hive.async.log.enabled": "false",
        "hive.fetch.task.conversion": "more",
        "hive.input.format": INPUT_FORMAT,
        "fs.defaultFS": "file:///",
        "hive.exec.scratchdir": f"{directory}/scratch",
        "hive.exec.local.scratchdir": f"{directory}/local-scratch",
        "hive.downloaded.resources.dir": f"{directory}/resources",
        "hive.server2.logging.operation.log.location": f"{directory}/operation-logs",
        "hadoop.tmp.dir": f"{directory}/hadoop",
    }


def _render_configuration(settings: Mapping[str, str]) -> str:
    entries = "".join(
        f"  <property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{entries}</configuration>\n'


def parse_rows(lines: Sequence[str]) -> list[dict[str, str | None]]:
    """What beeline prints for a statement, as rows."""
    # Beeline writes lines of its own, blank ones, around the rows.
    rows: Sequence[Sequence[str]] = [line.split("\t") for line in lines if line.strip()]
    if not rows:
        return []
    # Beeline writes `table.column` for SELECT *.
    names = [name.rsplit(".", 1)[-1] for name in rows[0]]
    return [
        {name: None if value == "NULL" else value for name, value in zip(names, row, strict=True)}
        for row in rows[1:]
    ]


def _java() -> str:
    return str(Path(find_java_home()) / "bin" / "java")
