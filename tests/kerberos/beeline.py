"""Hive's beeline 2.3.10, which logs in by the ticket in a cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hudisql.java_runtime import find_java_home
from scripts.setup_oracles import install_hive
from tests.kerberos.realm import Realm


def run_beeline(realm: Realm, cache: Path, url: str, statements: str) -> subprocess.CompletedProcess[str]:
    """Run statements, each ended by a semicolon; rows are CSV."""
    command = [
        *(f"{find_java_home()}/bin/java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        "-Djavax.security.auth.useSubjectCredsOnly=false",
        "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        *("-cp", f"{install_hive().libraries}/*", "org.apache.hive.beeline.BeeLine", "-u", url),
        *("--silent=true", "--outputformat=csv2", "-e", statements.replace("\n", " ")),
    ]
    environment = {**os.environ, **realm.environment(f"FILE:{cache}")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
