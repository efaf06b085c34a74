"""Hive Metastores beside that of Spark's jars, from Maven, with the schemas of their databases."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hudisql.catalog.embedded import render_hive_site
from scripts.maven import cache_directory, copy_artifacts, find_java, find_maven, installing, run

# Hive Metastores beside that of Spark's jars: the artifact of the server, the class of its schema tool.
METASTORES = {
    "3.1.3": ("hive-standalone-metastore", "tools.MetastoreSchemaTool"),
    "4.0.1": ("hive-standalone-metastore-server", "tools.schematool.MetastoreSchemaTool"),
}
CI_METASTORES = ("3.1.3",)
POSTGRES_DRIVER_VERSION = "42.7.4"
SCHEMA_SCRIPTS = ("scripts/metastore/upgrade/derby/", "scripts/metastore/upgrade/postgres/")
METASTORE_POMS = Path(__file__).resolve().parent.parent / "tests" / "catalog" / "metastores"


@dataclass(frozen=True)
class MetastoreInstallation:
    """A Hive Metastore: the directory of its jars, and a Derby database with its schema, to be copied."""

    libraries: Path
    derby: Path


@dataclass(frozen=True)
class MetastoreSchemaTool:
    """Hive's schema tool: the directory that has its scripts, and its main class."""

    home: Path
    main: str

    def make_schema(self, database: str, settings: Mapping[str, str], class_path: Sequence[str]) -> None:
        """Make the tables of an empty database.

        `database` is the tool's name of the kind of database (`derby`, `postgres`), `settings` are those by
        which the metastore connects, `class_path` has the metastore and the driver. Raises SetupError if the
        tool fails.
        """
        with tempfile.TemporaryDirectory() as configuration:
            (Path(configuration) / "metastore-site.xml").write_text(render_hive_site(settings))
            classes = ["-cp", ":".join([configuration, *class_path]), self.main]
            java = [
                find_java(),
                "-Dderby.system.durability=test",
                f"-Dderby.stream.error.file={configuration}/derby.log",
            ]
            environment = {**os.environ, "METASTORE_HOME": str(self.home)}
            run([*java, *classes, "-dbType", database, "-initSchema"], environment=environment)


def install_metastore(version: str) -> MetastoreInstallation:
    """Return a Hive Metastore of METASTORES; fetch it with Maven and make its schema if absent."""
    directory = cache_directory() / f"metastore-{version}"
    metastore = MetastoreInstallation(directory / "lib", directory / "derby")
    complete = directory / "complete"
    with installing(f"metastore-{version}"):
        if not complete.exists():
            pom = METASTORE_POMS / f"metastore-{version}.pom.xml"
            output = f"-DoutputDirectory={metastore.libraries}"
            scope = "-DincludeScope=runtime"
            run([find_maven(), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", scope, output])
            shutil.rmtree(metastore.derby, ignore_errors=True)
            url = f"jdbc:derby:;databaseName={metastore.derby};create=true"
            settings = {"javax.jdo.option.ConnectionURL": url}
            metastore_schema_tool(version).make_schema("derby", settings, [f"{metastore.libraries}/*"])
            complete.touch()
    return metastore


def install_metastore_client(version: str) -> Path:
    """Return the directory of the jars of Hive's client by which Spark speaks to a metastore of `version`."""
    directory = cache_directory() / f"metastore-client-{version}"
    complete = directory / "complete"
    with installing(f"metastore-client-{version}"):
        if not complete.exists():
            pom = METASTORE_POMS / f"client-{version}.pom.xml"
            options = ["-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
            run([find_maven(), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options])
            complete.touch()
    return directory


def install_postgres_driver() -> Path:
    """Return the jar by which Java connects to PostgreSQL; fetch it with Maven if absent."""
    directory = cache_directory() / "jars"
    jar = directory / f"postgresql-{POSTGRES_DRIVER_VERSION}.jar"
    with installing(jar.stem):
        if not jar.exists():
            copy_artifacts([f"org.postgresql:postgresql:{POSTGRES_DRIVER_VERSION}"], directory)
    return jar


def metastore_schema_tool(version: str) -> MetastoreSchemaTool:
    """Return Hive's schema tool for the databases of a metastore; fetch its scripts if absent."""
    artifact, tool = METASTORES[version]
    home = cache_directory() / f"metastore-schema-{version}"
    complete = home / "complete"
    with installing(home.name):
        if not complete.exists():
            _fetch_schema_scripts(f"org.apache.hive:{artifact}:{version}:tar.gz:bin", home)
            complete.touch()
    return MetastoreSchemaTool(home, f"org.apache.hadoop.hive.metastore.{tool}")


def _fetch_schema_scripts(distribution: str, home: Path) -> None:
    """Only the distribution of a metastore has them, not its jars."""
    with tempfile.TemporaryDirectory() as fetched:
        options = [f"-Dartifact={distribution}", f"-DoutputDirectory={fetched}"]
        run([find_maven(), "-q", "-B", "dependency:copy", *options])
        with tarfile.open(next(Path(fetched).glob("*.tar.gz"))) as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if member.isfile() and name.startswith(SCHEMA_SCRIPTS):
                    archive.extract(member.replace(name=name), home, filter="data")
