"""What the tests of Kerberos and LDAP need beside the locked packages, as far as this machine gives it.

`system` installs Debian's packages by apt-get, where there is one and the right to use it; `package` compiles
`gssapi` if MIT Kerberos is there. What is missing is named and no error: the tests that need it are skipped.
The standard library alone, so that any Python can run it before the others are installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("krb5kdc", "kadmin.local", "kinit", "krb5-config", "gcc", "slapd")
TO_COMPILE = ("krb5-config", "gcc")
PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-dev", "gcc", "libc6-dev", "slapd")
# Without it Debian sets up a directory of its own and starts it on all addresses.
NO_DIRECTORY = "slapd slapd/no_configuration boolean true\n"
SECONDS = 300


def missing(programs: Sequence[str]) -> list[str]:
    """Those that are not there; Debian's servers are not on the path of a user."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in programs if shutil.which(name, path=path) is None]


def install_system() -> None:
    """Install the programs by apt-get, unless all are there."""
    has_headers = (Path(sysconfig.get_path("include")) / "Python.h").exists()
    if not missing(PROGRAMS) and has_headers:
        return
    packages = PACKAGES if has_headers else (*PACKAGES, "python3-dev")
    try:
        as_root = _as_root()
        _run([*as_root, "debconf-set-selections"], NO_DIRECTORY)
        waits = ("DPkg::Lock::Timeout=120", "Acquire::http::Timeout=20", "Acquire::Retries=1")
        options = ("-y", "-qq", "--no-install-recommends", *(f"--option={wait}" for wait in waits))
        apt_get = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
        install = [*apt_get, "install", *options, *packages]
        try:
            _run(install)
        except OSError:
            # A new machine has no lists, an old one lists of packages that are gone.
            _run([*apt_get, "update", "-qq"])
            _run(install)
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"cannot install {' '.join(packages)}: {error}")


def install_package() -> None:
    """Compile `gssapi` into the environment of this Python, unless it is there or cannot be compiled."""
    if without := missing(PROGRAMS):
        _say(f"{', '.join(without)} is missing: apt-get install {' '.join(PACKAGES)}")
    if find_spec("gssapi") is not None or missing(TO_COMPILE):
        return
    uv = str(Path(sys.executable).parent / "uv")
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    locked = ["--constraint", str(ROOT / "requirements.lock")]
    try:
        # It compiles in a third of the time without optimization.
        _run(["env", "CFLAGS=-O0 -g0", *command, *locked, "gssapi"])
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"gssapi cannot be compiled: {error}")


def _as_root() -> Sequence[str]:
    if shutil.which("apt-get") is None:
        raise FileNotFoundError("this machine has no apt-get")
    if os.geteuid() == 0:
        return ()
    _run(["sudo", "-n", "true"])
    return ("sudo", "-n")


def _run(command: Sequence[str], standard_input: str = "") -> None:
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise OSError(f"{' '.join(command[:2])}: {(done.stderr or done.stdout).strip()[-500:]}")


def _say(text: str) -> None:
    print(f"tests of Kerberos or LDAP are skipped: {text}", file=sys.stderr)


if __name__ == "__main__":
    {"system": install_system, "package": install_package}[sys.argv[1]]()
