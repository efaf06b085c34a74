"""A real LDAP directory: OpenLDAP's slapd over TLS on the loopback address, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.install_kerberos import missing
from tests.certificates import make_certificate
from tests.free_port import find_free_port

ROOT = "dc=example,dc=test"
PEOPLE, GROUPS = f"ou=people,{ROOT}", f"ou=groups,{ROOT}"
READER, PASSWORD = f"cn=reader,{ROOT}", "secret"
_START_SECONDS = 20.0
# Nobody but the reader sees the groups; anybody may log in.
_CONFIGURATION = """include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
pidfile {directory}/pid
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
database mdb
maxsize 10485760
suffix "{root}"
rootdn "cn=root,{root}"
rootpw {password}
directory {directory}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""


@dataclass
class LdapDirectory:
    """A running directory; make one with `start_directory`."""

    url: str
    certificate: Path
    process: subprocess.Popen[bytes]

    def close(self) -> None:
        """End the server; closing it again does nothing."""
        self.process.terminate()
        self.process.wait(timeout=20)


def missing_for_ldap() -> str | None:
    """What this machine lacks, and how to install it; None if nothing."""
    return "slapd is missing: make kerberos-system" if missing(["slapd"]) else None


def start_directory(
    directory: Path, people: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> LdapDirectory:
    """Start a directory of people, all with one password, and of groups with their members."""
    (directory / "data").mkdir(parents=True)
    certificate, key = make_certificate(directory)
    names = {"directory": directory, "certificate": certificate, "key": key}
    configuration = directory / "slapd.conf"
    configuration.write_text(_CONFIGURATION.format(**names, root=ROOT, reader=READER, password=PASSWORD))
    server = shutil.which("slapd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert server is not None, missing_for_ldap()
    port = find_free_port()
    # With a level of messages it stays in the foreground.
    command = [server, "-f", str(configuration), "-h", f"ldaps://127.0.0.1:{port}", "-d", "none"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    started = LdapDirectory(f"ldaps://localhost:{port}", certificate, process)
    try:
        _fill(started, directory / "log", people, groups)
    except BaseException:
        started.close()
        raise
    return started


def _fill(
    started: LdapDirectory, log: Path, people: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> None:
    """Add the entries to the running server: only then it keeps memberOf."""
    import ldap3
    from ldap3.core.exceptions import LDAPException

    deadline = time.monotonic() + _START_SECONDS
    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=str(started.certificate))
    while True:
        connection = ldap3.Connection(
            ldap3.Server(started.url, tls=tls, get_info=ldap3.NONE), f"cn=root,{ROOT}", PASSWORD
        )
        try:
            connection.bind()
            break
        except LDAPException:
            # ldap3 leaves the socket of a failed login open.
            connection.socket.close()
            if started.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(log.read_text()) from None
            time.sleep(0.05)

    def add(name: str, classes: Sequence[str], **attributes: object) -> None:
        assert connection.add(name, list(classes), attributes), (name, connection.result)

    add(ROOT, ["dcObject", "organization"], o="example")
    for unit in (PEOPLE, GROUPS):
        add(unit, ["organizationalUnit"])
    add(READER, ["organizationalRole", "simpleSecurityObject"], userPassword=PASSWORD)
    for person in people:
        add(person_dn(person), ["inetOrgPerson"], sn="x", cn="x", userPassword=PASSWORD)
    for group, members in groups.items():
        add(f"cn={group},{GROUPS}", ["groupOfNames"], member=[person_dn(name) for name in members])
        names = [name for name in members if name.isascii()]
        add(f"cn={group}-posix,{GROUPS}", ["posixGroup"], gidNumber="1", memberUid=names)
    connection.unbind()


def person_dn(person: str) -> str:
    """The name of a person's entry, by ldap3's escapes."""
    from ldap3.utils.dn import escape_rdn

    return f"uid={escape_rdn(person)},{PEOPLE}"
