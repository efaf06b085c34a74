"""A real HDFS 3.4 that asks for Kerberos, one name node and one data node on the loopback address."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hudisql.catalog.embedded import render_hive_site
from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import install_hadoop
from tests.kerberos.realm import REALM, Realm

_SUPERUSER = "hdfs/localhost"
_PASSWORD = "changeit"


@dataclass
class SecuredHdfs:
    """A running HDFS; make one with `start_secured_hdfs`. `client` holds what its users' site files say."""

    uri: str
    client: Mapping[str, str]
    process: subprocess.Popen[str]

    def close(self) -> None:
        """End the servers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)


def client_settings(protection: str = "authentication") -> Mapping[str, str]:
    """What the site files of users have; the same for every HDFS of the realm."""
    superuser = f"{_SUPERUSER}@{REALM}"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": protection,
        "dfs.data.transfer.protection": protection,
        "dfs.namenode.kerberos.principal": superuser,
        "dfs.datanode.kerberos.principal": superuser,
    }


def start_secured_hdfs(directory: Path, realm: Realm, protection: str = "authentication") -> SecuredHdfs:
    """Start the servers; `protection` is that of calls and of blocks. The superuser is hdfs/localhost."""
    conf = directory / "conf"
    conf.mkdir(parents=True)
    superuser, keytab = f"{_SUPERUSER}@{REALM}", str(realm.keytab(_SUPERUSER))
    realm.keytab("HTTP/localhost")
    client = client_settings(protection)
    server = {
        **client,
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(realm.keytab("HTTP/localhost")),
        "dfs.namenode.kerberos.internal.spnego.principal": f"HTTP/localhost@{REALM}",
        "dfs.block.access.token.enable": "true",
        "dfs.http.policy": "HTTPS_ONLY",
        # Only the other addresses are free ports of the loopback by default.
        "dfs.namenode.https-address": "localhost:0",
        "dfs.datanode.https.address": "localhost:0",
        "dfs.https.server.keystore.resource": "ssl-server.xml",
        "ignore.secure.ports.for.testing": "true",
        "hadoop.proxyuser.hive.hosts": "*",
        "hadoop.proxyuser.hive.groups": "*",
        "fs.permissions.umask-mode": "000",
    }
    (conf / "core-site.xml").write_text(render_hive_site(server))
    (conf / "hdfs-site.xml").write_text(render_hive_site(server))
    (conf / "ssl-server.xml").write_text(render_hive_site(_key_store(directory)))
    command = [
        *(f"{find_java_home()}/bin/java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *(realm.java_option, "-cp", f"{conf}:{install_hadoop()}/*"),
        *(str(Path(__file__).with_name("SecuredHdfs.java")), str(directory / "data"), superuser, keytab),
    ]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory
        )
    assert process.stdout is not None
    line = next((line for line in process.stdout if line.startswith("ready ")), "")
    assert line, (directory / "log").read_text()[-4000:]
    uri = line.split()[1].replace("127.0.0.1", "localhost")
    return SecuredHdfs(uri, client, process)


def _key_store(directory: Path) -> Mapping[str, str]:
    """A key of its own for the HTTPS ports, which Hadoop wants beside a protected data port."""
    path = directory / "keys.p12"
    subprocess.run(
        [
            *(f"{find_java_home()}/bin/keytool", "-genkeypair", "-alias", "server", "-keyalg", "RSA"),
            *("-dname", "CN=localhost", "-storetype", "PKCS12", "-keystore", str(path)),
            *("-storepass", _PASSWORD, "-keypass", _PASSWORD),
        ],
        check=True,
        capture_output=True,
    )
    return {
        "ssl.server.keystore.location": str(path),
        "ssl.server.keystore.password": _PASSWORD,
        "ssl.server.keystore.keypassword": _PASSWORD,
        "ssl.server.keystore.type": "pkcs12",
    }
