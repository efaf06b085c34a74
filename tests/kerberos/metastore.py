"""A real Hive Metastore 2.3.10 that asks for Kerberos, from PySpark's own jars."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hudisql.catalog.embedded import embedded_hive_site, find_spark_jars, render_hive_site
from hudisql.java_runtime import find_java_home
from tests.free_port import find_free_port
from tests.kerberos.realm import REALM, Realm
from tests.processes import end_process, wait_for_port

SERVICE = f"hive/localhost@{REALM}"
_OPENED = ("lang", "lang.reflect", "util", "util.concurrent", "net", "time")
_START_SECONDS = 120.0


@dataclass
class SecuredMetastore:
    """A running metastore; make one with `start_secured_metastore`. `core` is its clients' core-site.xml."""

    uri: str
    warehouse: Path
    core: Mapping[str, str]
    hadoop_directory: Path
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """End the server."""
        end_process(self.process)


def start_secured_metastore(
    directory: Path,
    realm: Realm,
    protection: str = "authentication",
    hadoop: Mapping[str, str] | None = None,
) -> SecuredMetastore:
    """Start the metastore with the principal hive/localhost.

    `protection` is hadoop.rpc.protection, `hadoop` holds further settings of core-site.xml, for clients too.
    """
    warehouse, conf = directory / "warehouse", directory / "server"
    warehouse.joinpath(".metastore").mkdir(parents=True)
    conf.mkdir()
    port = find_free_port()
    keytab = realm.keytab("hive/localhost")
    site = embedded_hive_site(warehouse) | {
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
        "hive.metastore.kerberos.keytab.file": str(keytab),
        "hive.cluster.delegation.token.store.class": "org.apache.hadoop.hive.thrift.MemoryTokenStore",
    }
    core = {"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": protection}
    core |= hadoop or {}
    (conf / "hive-site.xml").write_text(render_hive_site(site))
    (conf / "core-site.xml").write_text(render_hive_site(core))
    hadoop_directory = directory / "client"
    hadoop_directory.mkdir()
    (hadoop_directory / "core-site.xml").write_text(render_hive_site(core))
    command = [
        *(f"{find_java_home()}/bin/java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        realm.java_option,
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
        "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        *("-cp", f"{conf}:{find_spark_jars()}/*"),
        *(str(Path(__file__).with_name("SecuredMetastore.java")), str(port)),
    ]
    with (directory / "metastore.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=dict(os.environ))
    metastore = SecuredMetastore(f"thrift://localhost:{port}", warehouse, core, hadoop_directory, process)
    wait_for_port(process, port, directory / "metastore.log", _START_SECONDS)
    return metastore
