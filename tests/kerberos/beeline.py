"""Hive's beeline, which logs in by the ticket in a cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.hive.beeline import run_beeline
from tests.kerberos.realm import Realm

# Hadoop 2.7 on Java 17, and tickets from outside of Java.
_JAVA_OPTIONS = (
    "-Djavax.security.auth.useSubjectCredsOnly=false",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)


def run_with_ticket(realm: Realm, cache: Path, url: str, statements: str) -> subprocess.CompletedProcess[str]:
    """Run statements, each ended by a semicolon; rows are CSV."""
    environment = {**os.environ, **realm.environment(f"FILE:{cache}")}
    return run_beeline(url, statements, java_options=_JAVA_OPTIONS, environment=environment)
