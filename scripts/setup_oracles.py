"""Sets up the oracles on a fresh machine: PySpark 3.5, Apache Hudi, a real HiveServer2, HDFS, s3a and more.

Everything is cached below `${XDG_CACHE_HOME:-~/.cache}/hudisql` and made only if it is not there, so the
Makefile and the test fixtures may both call it, also at the same time. Versions are pinned here, in
the pom.xml of `tests/hive`, `tests/storage` and `tests/ingest`, and in `tests/catalog/metastores`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hudisql.java_runtime import java_version
from scripts.maven import SetupError, cache_directory, copy_artifacts, find_maven, installing, run
from scripts.setup_metastores import CI_METASTORES, METASTORES, install_metastore

PYSPARK_VERSION = "3.5.9"
# pandas 3 and numpy 2.3 are newer than what PySpark 3.5 was made for.
ORACLE_PACKAGES = (
    f"pyspark=={PYSPARK_VERSION}",
    "pandas>=2.2,<3",
    "numpy<2.3",
    "pyarrow>=18",
    "setuptools<81",
)
HUDI_VERSIONS = ("0.15.0", "1.2.0")
ORACLES = ("hudi", "hive", "metastores", "hdfs", "s3a", "delta", "hudi-rs", "kafka", "pyspark")
DELTA_PYSPARK_VERSION = "4.0.1"
# PySpark beside the one that requirements.lock has, on which hudisql itself runs.
OTHER_PYSPARK_VERSIONS = {"4.0": DELTA_PYSPARK_VERSION, "3.5": PYSPARK_VERSION}
DELTA_PACKAGES = (f"pyspark=={DELTA_PYSPARK_VERSION}", "pandas>=2.2,<3", "numpy<2.3", "pyarrow>=18")
DELTA_JARS = ("io.delta:delta-spark_2.13:4.0.1", "io.delta:delta-storage:4.0.1")
HUDI_RS_VERSION = "0.5.0"
HUDI_RS_PACKAGES = (f"hudi=={HUDI_RS_VERSION}", "pyarrow>=18")
# Newer versions of dbt-core build a package from a download of GitHub's when they are installed.
DBT_SPARK_VERSION = "1.10.3"
DBT_PACKAGES = ("dbt-core==1.10.23", f"dbt-spark[PyHive]=={DBT_SPARK_VERSION}")
ICEBERG_VERSION = "1.9.2"
TRINO_VERSION = "476"
TRINO_JAVA = 24
HIVE_VERSION = "2.3.10"
# Hive's reader of bootstrapped slices needs an unshaded kryo, which neither Hive nor the bundle brings.
HIVE_AUXILIARY_JARS = (
    "com.esotericsoftware:kryo-shaded:4.0.2",
    "com.esotericsoftware:minlog:1.3.0",
    "org.objenesis:objenesis:3.3",
)
# Drivers of database tools (DBeaver, DataGrip); that of 2.3 is among the jars of Hive itself.
HIVE_JDBC_VERSIONS = ("3.1.3", "4.0.1")
HADOOP_VERSION = "3.4.2"
KAFKA_VERSION = "4.0.0"
# Spark 3.5's source of Kafka topics, with what it needs beside Spark; Maven Central has it up to 3.5.7.
SPARK_KAFKA_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.7",
    "org.apache.kafka:kafka-clients:3.4.1",
    "org.apache.commons:commons-pool2:2.11.1",
)
# The whole of a name node and a data node in shaded jars, and the two loggers that they do not shade.
HADOOP_JARS = (
    f"org.apache.hadoop:hadoop-client-api:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-client-runtime:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
    "commons-logging:commons-logging:1.2",
    "org.slf4j:slf4j-api:2.0.17",
)
ROOT = Path(__file__).resolve().parent.parent
HIVE_POM = ROOT / "tests" / "hive" / "pom.xml"
# Hadoop's s3a for this project's own PySpark, which names its Hadoop.
S3A_POM = HIVE_POM.parent.parent / "storage" / "pom.xml"
KAFKA_POM = HIVE_POM.parent.parent / "ingest" / "pom.xml"
S3A_VERSION = "3.5.0"
# Spark brings these itself, in newer versions.
S3A_LEFT_OUT = ("io.netty", "org.slf4j", "commons-codec", "commons-logging")


@dataclass(frozen=True)
class HiveInstallation:
    """Directories of jars: `libraries` has HiveServer2 and beeline, `auxiliary` what Hudi's readers need."""

    libraries: Path
    auxiliary: Path


@dataclass(frozen=True)
class TrinoInstallation:
    """The directories of a Trino server's jars and of its plugins, and the Java that runs it."""

    libraries: Path
    plugins: Path
    java: Path


def install_oracle_python() -> Path:
    """Return the interpreter of a virtual environment with PySpark 3.5; make it if absent."""
    return _install_python("spark35", f"pyspark-{PYSPARK_VERSION}", ORACLE_PACKAGES)


def install_other_pyspark(name: str, python: str | None = None) -> Path:
    """Return the interpreter of a virtual environment with hudisql's packages and another PySpark.

    `name` is one of OTHER_PYSPARK_VERSIONS, or a whole version; `python` is the Python to make it with.
    """
    version = OTHER_PYSPARK_VERSIONS.get(name, name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = [each for each in project["dependencies"] if not each.startswith("pyspark")]
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(line for line in locked if not line.startswith("pyspark==")))
        constraints.flush()
        wanted = [f"pyspark=={version}", *packages, "setuptools<81", "--constraint", constraints.name]
        label = "" if python is None else f"-python{Path(python).name.removeprefix('python')}"
        return _install_python(f"pyspark-{version}{label}", f"pyspark-{version}", wanted, python)


def install_delta_python() -> Path:
    """Return the interpreter of a virtual environment with the PySpark that Delta is made for."""
    return _install_python("delta", f"pyspark-{DELTA_PYSPARK_VERSION}", DELTA_PACKAGES)


def install_hudi_rs() -> Path:
    """Return the interpreter of a virtual environment with hudi-rs, the reader that is written in Rust."""
    return _install_python("hudi-rs", f"hudi-{HUDI_RS_VERSION}", HUDI_RS_PACKAGES)


def install_dbt() -> Path:
    """Return the interpreter of a virtual environment with dbt-spark."""
    return _install_python("dbt", f"dbt_spark-{DBT_SPARK_VERSION}", DBT_PACKAGES)


def install_delta_jars() -> list[Path]:
    """Return the jars of Delta Lake; fetch them with Maven if absent."""
    return _install_jars("delta-jars", DELTA_JARS)


def install_spark_kafka_jars() -> list[Path]:
    """Return the jars of Spark 3.5's Kafka source; fetch them with Maven if absent."""
    return _install_jars("spark-kafka-jars", SPARK_KAFKA_JARS)


def install_hudi_bundle(version: str) -> Path:
    """Return the jar of Apache Hudi `version` for Spark 3.5; fetch it with Maven if absent."""
    directory = cache_directory() / "jars"
    jar = directory / f"hudi-spark3.5-bundle_2.12-{version}.jar"
    with installing(f"hudi-{version}"):
        if not jar.exists():
            copy_artifacts([f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}"], directory)
    return jar


def install_iceberg() -> Path:
    """Return the jar of Apache Iceberg for Spark 3.5; fetch it with Maven if absent."""
    directory = cache_directory() / "jars"
    jar = directory / f"iceberg-spark-runtime-3.5_2.12-{ICEBERG_VERSION}.jar"
    with installing(f"iceberg-{ICEBERG_VERSION}"):
        if not jar.exists():
            artifact = f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{ICEBERG_VERSION}"
            copy_artifacts([artifact], directory)
    return jar


def install_trino() -> TrinoInstallation:
    """Return a Trino server with its Iceberg connector; fetch it with Maven if absent (540 MB).

    Raises SetupError without a Java that is new enough for it.
    """
    directory = cache_directory() / f"trino-{TRINO_VERSION}"
    complete = directory / "complete"
    java = _newer_java(TRINO_JAVA)
    with installing(directory.name):
        if not complete.exists():
            with tempfile.TemporaryDirectory() as fetched:
                for artifact in ("trino-server-core:{}:tar.gz", "trino-iceberg:{}:zip"):
                    name = f"-Dartifact=io.trino:{artifact.format(TRINO_VERSION)}"
                    run([find_maven(), "-q", "-B", "dependency:copy", name, f"-DoutputDirectory={fetched}"])
                _extract_trino(Path(fetched), directory)
            complete.touch()
    return TrinoInstallation(directory / "lib", directory / "plugin", java)


def _extract_trino(fetched: Path, directory: Path) -> None:
    """The server's jars, and the connector as the only plugin."""
    server, connector = f"trino-server-core-{TRINO_VERSION}", f"trino-iceberg-{TRINO_VERSION}"
    with tarfile.open(fetched / f"{server}.tar.gz") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if name.startswith("lib/"):
                archive.extract(member.replace(name=name), directory, filter="tar")
    with zipfile.ZipFile(fetched / f"{connector}.zip") as plugin:
        plugin.extractall(directory / "plugin")
    (directory / "plugin" / connector).replace(directory / "plugin" / "iceberg")


def _newer_java(least: int) -> Path:
    """The `java` of the newest Java below `/usr/lib/jvm`, if it is of this version or newer."""
    launchers = Path("/usr/lib/jvm").glob("*/bin/java")
    newest, java = max(((java_version(java) or 0, java) for java in launchers), default=(0, Path()))
    if newest < least:
        raise SetupError(f"no Java {least} or newer is below /usr/lib/jvm, as Trino {TRINO_VERSION} needs")
    return java


def install_hive() -> HiveInstallation:
    """Return the jars of HiveServer2 2.3.10 and beeline; fetch them with Maven if absent."""
    directory = cache_directory() / f"hive-{HIVE_VERSION}"
    hive = HiveInstallation(directory / "lib", directory / "auxiliary")
    complete = directory / "complete"
    with installing(f"hive-{HIVE_VERSION}"):
        if not complete.exists():
            output = f"-DoutputDirectory={hive.libraries}"
            run([find_maven(), "-q", "-B", "-f", str(HIVE_POM), "dependency:copy-dependencies", output])
            copy_artifacts(HIVE_AUXILIARY_JARS, hive.auxiliary)
            complete.touch()
    return hive


def hadoop_jars() -> Path | None:
    """The directory of the jars of Hadoop's mini cluster, None if they are not set up."""
    directory = cache_directory() / f"hadoop-{HADOOP_VERSION}"
    names = [f"{name}-{version}.jar" for _, name, version in (jar.split(":") for jar in HADOOP_JARS)]
    return directory if all((directory / name).exists() for name in names) else None


def install_hive_jdbc(version: str) -> Path:
    """Return the jar of Hive's JDBC driver with all that it needs; fetch it with Maven if absent."""
    directory = cache_directory() / "jars"
    jar = directory / f"hive-jdbc-{version}-standalone.jar"
    with installing(jar.stem):
        if not jar.exists():
            copy_artifacts([f"org.apache.hive:hive-jdbc:{version}:jar:standalone"], directory)
    return jar


def install_hadoop() -> Path:
    """Return the directory of the jars of Hadoop's mini cluster (HDFS); fetch them with Maven if absent."""
    directory = cache_directory() / f"hadoop-{HADOOP_VERSION}"
    with installing(f"hadoop-{HADOOP_VERSION}"):
        if hadoop_jars() is None:
            copy_artifacts(HADOOP_JARS, directory)
    return directory


def s3a_jars() -> list[Path]:
    """The jars that give Spark s3a:// paths, none if they are not set up."""
    directory = cache_directory() / f"s3a-{S3A_VERSION}"
    return sorted(directory.glob("*.jar")) if (directory / "complete").exists() else []


def install_s3a() -> Path:
    """Return the directory of the jars of Hadoop's s3a; fetch them with Maven if absent."""
    directory = cache_directory() / f"s3a-{S3A_VERSION}"
    with installing(f"s3a-{S3A_VERSION}"):
        if not s3a_jars():
            command = [find_maven(), "-q", "-B", "-f", str(S3A_POM), "dependency:copy-dependencies"]
            left_out = f"-DexcludeGroupIds={','.join(S3A_LEFT_OUT)}"
            run([*command, "-DincludeScope=runtime", left_out, f"-DoutputDirectory={directory}"])
            (directory / "complete").touch()
    return directory


def install_kafka() -> Path:
    """Return the directory of the jars of a Kafka broker; fetch them with Maven if absent."""
    directory = cache_directory() / f"kafka-{KAFKA_VERSION}"
    complete = directory / "complete"
    with installing(f"kafka-{KAFKA_VERSION}"):
        if not complete.exists():
            command = [find_maven(), "-q", "-B", "-f", str(KAFKA_POM), "dependency:copy-dependencies"]
            run([*command, f"-DoutputDirectory={directory}"])
            complete.touch()
    return directory


def _install_jars(name: str, artifacts: Sequence[str]) -> list[Path]:
    """The jars of Maven artifacts, fetched if one is absent."""
    directory = cache_directory() / "jars"
    jars = [directory / "{1}-{2}.jar".format(*artifact.split(":")) for artifact in artifacts]
    with installing(name):
        if not all(jar.exists() for jar in jars):
            copy_artifacts(artifacts, directory)
    return jars


def _install_python(name: str, proof: str, packages: Sequence[str], maker: str | None = None) -> Path:
    """A virtual environment with `packages`, made if the distribution `proof` is not in it.

    `maker` is the Python to make it with, by default the one that runs.
    """
    directory = cache_directory() / "venvs" / name
    python = directory / "bin" / "python"
    with installing(name):
        if not list(directory.glob(f"lib/python*/site-packages/{proof}.dist-info")):
            shutil.rmtree(directory, ignore_errors=True)
            run([maker or sys.executable, "-m", "venv", str(directory)])
            run([str(python), "-m", "pip", "install", "--quiet", *packages])
    return python


def main() -> int:
    """Install what the named oracles need."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracles", nargs="*", choices=[*ORACLES, []], default=[], help="default: all")
    named = parser.parse_args().oracles
    wanted = named or ORACLES
    try:
        if {"hudi", "hive"} & set(wanted):
            print(f"PySpark {PYSPARK_VERSION}: {install_oracle_python()}")
            for version in HUDI_VERSIONS:
                print(f"Hudi {version}: {install_hudi_bundle(version)}")
        if "delta" in wanted:
            print(f"PySpark {DELTA_PYSPARK_VERSION}: {install_delta_python()}")
            print(f"Delta: {install_delta_jars()[0]}")
        if "hudi-rs" in wanted:
            print(f"hudi-rs {HUDI_RS_VERSION}: {install_hudi_rs()}")
        if "hdfs" in wanted:
            print(f"Hadoop {HADOOP_VERSION}: {install_hadoop()}")
        if "s3a" in wanted:
            print(f"s3a of Hadoop {S3A_VERSION}: {install_s3a()}")
        if "kafka" in wanted:
            print(f"Kafka {KAFKA_VERSION}: {install_kafka()}")
        if "pyspark" in wanted:
            for name in OTHER_PYSPARK_VERSIONS:
                print(f"PySpark {name} for hudisql: {install_other_pyspark(name)}")
        if "hive" in wanted:
            print(f"Hive {HIVE_VERSION}: {install_hive().libraries}")
        if "metastores" in wanted:
            # The others are installed by the tests that need them, or by name.
            for version in METASTORES if named else CI_METASTORES:
                print(f"Hive Metastore {version}: {install_metastore(version).libraries}")
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
