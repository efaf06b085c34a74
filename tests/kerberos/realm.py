"""A real Kerberos realm EXAMPLE.TEST: MIT's krb5kdc on the loopback address, in a directory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from scripts.install_kerberos import missing
from tests.free_port import find_free_port

REALM = "EXAMPLE.TEST"
_START_SECONDS = 20.0

_KRB5 = """[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  default_ccache_name = FILE:{directory}/ticket
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_KDC = """[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1d
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
"""


@dataclass
class Realm:
    """A running key distribution centre; make one with `start_realm`."""

    directory: Path
    process: subprocess.Popen[bytes]
    _keytabs: dict[str, Path] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """krb5.conf, for MIT's library (KRB5_CONFIG) and for Java (`java.security.krb5.conf`)."""
        return self.directory / "krb5.conf"

    @property
    def java_option(self) -> str:
        """Java reads neither KRB5_CONFIG nor the default of this directory."""
        return f"-Djava.security.krb5.conf={self.configuration}"

    def environment(self, cache: Path | str | None = None) -> Mapping[str, str]:
        """What a process of this realm has in its environment; `cache` holds its tickets."""
        ticket = f"FILE:{self.directory / 'ticket'}" if cache is None else str(cache)
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5CCNAME": ticket,
            "JAVA_TOOL_OPTIONS": self.java_option,
            # No archive of Spark's classes for each configuration directory of a test.
            "SPARK_SUBMIT_OPTS": "-Xshare:auto",
        }

    def keytab(self, principal: str, *, life: str = "1 day") -> Path:
        """The keytab of a principal, which is made at the first call."""
        if principal not in self._keytabs:
            path = self.directory / f"{principal.replace('/', '.')}.keytab"
            self._kadmin(f'addprinc -randkey -maxlife "{life}" {principal}')
            self._kadmin(f"ktadd -norandkey -k {path} {principal}")
            self._keytabs[principal] = path
        return self._keytabs[principal]

    def kinit(self, principal: str, cache: Path, *options: str, life: str = "1 day") -> None:
        """Get a ticket of the principal into the file `cache`."""
        keytab = self.keytab(principal, life=life)
        self._run("kinit", *options, "-c", f"FILE:{cache}", "-k", "-t", str(keytab), principal)

    def close(self) -> None:
        """End the server."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)

    def _kadmin(self, command: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", command)

    def _run(self, program: str, *arguments: str) -> None:
        run_program(self.directory, program, *arguments)


def missing_for_kerberos() -> str | None:
    """What this machine lacks for these tests, and how to install it; None if nothing."""
    if programs := missing(["krb5kdc", "kadmin.local", "kinit"]):
        return f"{', '.join(programs)} is missing: make kerberos-system kerberos-package"
    if find_spec("gssapi") is None:
        return "the package gssapi is missing: make kerberos-package"
    return None


def start_realm(directory: Path) -> Realm:
    """Make the realm's database and start its server; names what to install if MIT Kerberos is missing."""
    assert missing_for_kerberos() is None, missing_for_kerberos()
    directory.mkdir(parents=True, exist_ok=True)
    port = find_free_port()
    names = {"realm": REALM, "directory": directory, "port": port}
    (directory / "krb5.conf").write_text(_KRB5.format(**names))
    (directory / "kdc.conf").write_text(_KDC.format(**names))
    (directory / "acl").write_text("")
    run_program(directory, "kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    with (directory / "kdc.log").open("wb") as log:
        process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM], env=_environment(directory), stdout=log, stderr=log
        )
    realm = Realm(directory, process)
    _wait_for_ticket(realm)
    return realm


def run_program(directory: Path, program: str, *arguments: str) -> str:
    """Run one of MIT Kerberos' programs in the realm of `directory` and return what it printed."""
    done = subprocess.run(
        [program, *arguments], env=_environment(directory), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def _wait_for_ticket(realm: Realm) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            realm.kinit("probe", realm.directory / "probe.ticket")
            return
        except AssertionError:
            if time.monotonic() > deadline or realm.process.poll() is not None:
                raise
            time.sleep(0.1)


def _environment(directory: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "PATH": _path(),
        "KRB5_CONFIG": str(directory / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
    }


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
