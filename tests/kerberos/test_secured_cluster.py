"""A Kerberized cluster once: KDC, metastore, HDFS, LDAP, `hudisql serve` by keytab, beeline with a ticket.

Of this directory CI runs this file alone, `make kerberos` all.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.kerberos.beeline import run_with_ticket
from tests.kerberos.hdfs import SecuredHdfs, client_settings, start_secured_hdfs
from tests.kerberos.metastore import SecuredMetastore, start_secured_metastore
from tests.kerberos.realm import REALM, Realm, missing_for_kerberos
from tests.kerberos.test_whole_session import hive_directory
from tests.server.ldap_directory import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    READER,
    LdapDirectory,
    missing_for_ldap,
    start_directory,
)

MISSING = missing_for_kerberos() or missing_for_ldap()
pytestmark = [
    *(pytest.mark.spark, pytest.mark.hms, pytest.mark.hive, pytest.mark.slow, pytest.mark.kerberos),
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
    # ldap3 uses names of pyasn1 that have new ones.
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning"),
]

START_SECONDS = 240
BOOTSTRAP = """CREATE DATABASE lake LOCATION '{uri}/lake.db';
CREATE TABLE lake.trips (id INT, name STRING) USING parquet;
INSERT INTO lake.trips VALUES (1, 'a'), (2, 'b');
CALL bootstrap_table(table => 'lake.rides', source_table => 'lake.trips', record_key => 'id',
  protect_source => true);
MERGE INTO lake.rides AS t USING (SELECT * FROM VALUES (2, 'B'), (3, 'c') AS s(id, name)) AS s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
SELECT concat_ws('/', current_user(), id, name, input_file_name() LIKE 'hdfs:%') AS found FROM lake.rides;
DROP TABLE lake.rides;
"""


@pytest.fixture(scope="module")
def cluster(
    realm: Realm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SecuredHdfs, SecuredMetastore]]:
    """HDFS, and a metastore on it; both start at the same time."""
    directory = tmp_path_factory.mktemp("cluster")
    # The two threads would make principals at the same time.
    for principal in ("hdfs/localhost", "HTTP/localhost", "hive/localhost"):
        realm.keytab(principal)
    with ThreadPoolExecutor() as pool:
        hdfs = pool.submit(start_secured_hdfs, directory / "hdfs", realm)
        metastore = pool.submit(
            start_secured_metastore, directory / "metastore", realm, hadoop=client_settings()
        )
    try:
        yield hdfs.result(), metastore.result()
    finally:
        if metastore.exception() is None:
            metastore.result().close()
        if hdfs.exception() is None:
            hdfs.result().close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LdapDirectory]:
    """An LDAP directory in which ada is an operator."""
    started = start_directory(tmp_path / "directory", ["ada", "bo"], {"operators": ["ada"]})
    yield started
    started.close()


def group_options(directory: LdapDirectory, password_file: Path) -> list[str]:
    password_file.write_text(PASSWORD)
    return [
        *("--ldap-url", directory.url, "--ldap-groups-only", "--ldap-user-dn", f"uid={{user}},{PEOPLE}"),
        *("--ldap-group-dn", f"cn={{group}},{GROUPS}", "--ldap-group-key", "memberOf"),
        *("--ldap-bind-dn", READER, "--ldap-bind-password-file", str(password_file)),
    ]


@contextmanager
def serving(realm: Realm, metastore: SecuredMetastore, ldap: LdapDirectory, directory: Path) -> Iterator[int]:
    """The port of a `hudisql serve` that logs in to the cluster, and takes its users' tickets, by keytabs.

    Operators of the LDAP directory are its admins.
    """
    (directory / "rights").write_text("@operators = ldap:operators\n@operators: admin *\n")
    command = [
        *(sys.executable, "-m", "hudisql", "--master", "local[2]", "--warehouse", str(metastore.warehouse)),
        *("serve", "--port", "0", "--principal", f"hive/localhost@{REALM}"),
        *("--keytab", str(realm.keytab("hive/localhost")), "--rights", str(directory / "rights")),
        *group_options(ldap, directory / "password"),
        *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HUDISQL_", "KRB5"))}
    environment = {**clean, **keytab_environment(realm, metastore, directory)}
    environment["SSL_CERT_FILE"] = str(ldap.certificate)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    killer = threading.Timer(START_SECONDS, process.kill)
    killer.start()
    assert process.stderr is not None
    try:
        notes = []
        for line in process.stderr:
            notes.append(line)
            if started := re.search(r"hudisql serves on .*:(\d+)$", line.strip()):
                break
        else:
            raise AssertionError("".join(notes))
        yield int(started[1])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        process.stderr.close()


def keytab_environment(realm: Realm, metastore: SecuredMetastore, directory: Path) -> Mapping[str, str]:
    return {
        **realm.environment(f"FILE:{directory / 'absent'}"),
        "HADOOP_CONF_DIR": str(hive_directory(metastore.uri, metastore.core, directory / "conf")),
        "HUDISQL_KERBEROS_KEYTAB": str(realm.keytab("etl")),
        "HUDISQL_KERBEROS_PRINCIPAL": f"etl@{REALM}",
    }


@pytest.mark.soak
def test_beeline_bootstraps_merges_and_reads_on_a_kerberized_cluster(
    realm: Realm, cluster: tuple[SecuredHdfs, SecuredMetastore], directory: LdapDirectory, tmp_path: Path
) -> None:
    hdfs, metastore = cluster
    ticket = tmp_path / "ada.ticket"
    realm.kinit("ada", ticket)
    with serving(realm, metastore, directory, tmp_path) as port:
        url = f"jdbc:hive2://localhost:{port}/default;principal=hive/_HOST@{REALM};saslQop=auth-conf"
        done = run_with_ticket(realm, ticket, url, BOOTSTRAP.format(uri=hdfs.uri))
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [line for line in done.stdout.split() if line.startswith("ada/")]
        assert sorted(rows) == ["ada/1/a/true", "ada/2/B/true", "ada/3/c/true"]
        refuse_a_name_without_a_ticket(port)


def refuse_a_name_without_a_ticket(port: int) -> None:
    from pyhive import hive
    from thrift.transport.TTransport import TTransportException

    with pytest.raises(TTransportException, match="the SASL mechanism is GSSAPI"):
        closing(hive.connect("localhost", port, username="ada"))
