"""An empty database of a real PostgreSQL server that listens on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.setup_metastores import install_postgres_driver
from tests.free_port import find_free_port

USER = "hive"


@dataclass(frozen=True)
class PostgresDatabase:
    """The settings by which a metastore connects to it, and the jar of the driver."""

    settings: Mapping[str, str]
    driver: Path


@contextmanager
def postgres_database() -> Iterator[PostgresDatabase]:
    """Run a server with one empty database. Skips the test without PostgreSQL.

    PostgreSQL refuses to run as root: root runs it as the user `postgres` of the Debian package.
    """
    programs = _programs()
    account = "postgres" if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    if account:
        shutil.chown(directory, account)
    port, password = find_free_port(), secrets.token_hex(8)
    data = directory / "data"
    password_file = directory / "password"
    password_file.write_text(password)
    if account:
        shutil.chown(password_file, account)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(programs / program), *arguments], user=account, cwd=directory, check=True, timeout=120
        )

    try:
        given = ["-U", USER, "-A", "scram-sha-256", "--pwfile", str(password_file), "--no-sync"]
        run("initdb", "-D", str(data), *given)
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {directory} -c fsync=off"
        run("pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(directory / "log"), "start")
        try:
            yield PostgresDatabase(
                {
                    "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
                    "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
                    "javax.jdo.option.ConnectionUserName": USER,
                    "javax.jdo.option.ConnectionPassword": password,
                },
                install_postgres_driver(),
            )
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory)


def _programs() -> Path:
    """Where Debian has the newest version, else the directory of the first `initdb` on the PATH."""
    of_debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(of_debian, key=lambda program: int(program.parts[-3]), default=None)
    program = newest or shutil.which("initdb")
    if program is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    return Path(program).parent
