"""The file system settings of a process without a JVM: Hadoop's site files and their overrides.

Reads `core-site.xml`, `hdfs-site.xml` and Hive's `hive-site.xml` as Hadoop's `Configuration` does, without
variables and includes.
Values may be secrets and are never printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from hudisql.errors import SettingsError

_SITE_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_SPARK_PREFIX: Final = "spark.hadoop."


def hadoop_settings(
    conf: Mapping[str, str], hiveconf: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings in HADOOP_CONF_DIR, overridden by `hiveconf` and the `spark.hadoop.*` of Spark's settings.

    Raises SettingsError for a file that is not XML.
    """
    environment = os.environ if environment is None else environment
    directory = environment.get("HADOOP_CONF_DIR")
    found: dict[str, str] = {}
    for name in _SITE_FILES if directory else ():
        found |= _read_site_file(Path(str(directory), name))
    of_spark = {
        key.removeprefix(_SPARK_PREFIX): value for key, value in conf.items() if key.startswith(_SPARK_PREFIX)
    }
    return {**found, **hiveconf, **of_spark}


def hive_site_settings(environment: Mapping[str, str] | None = None) -> tuple[dict[str, str], str]:
    """The settings of hive-site.xml in HIVE_CONF_DIR, else in HADOOP_CONF_DIR, and its path; none: empty.

    Raises SettingsError for a file that is not XML.
    """
    environment = os.environ if environment is None else environment
    for name in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR"):
        path = Path(environment.get(name) or "", "hive-site.xml")
        if environment.get(name) and path.is_file():
            return dict(_read_site_file(path)), str(path)
    return {}, ""


def _read_site_file(path: Path) -> Mapping[str, str]:
    try:
        version = path.stat()
    except OSError:
        return {}
    return _parse_site_file(path, (version.st_mtime_ns, version.st_size, version.st_ino))


@lru_cache(maxsize=16)
def _parse_site_file(path: Path, _version: tuple[int, int, int]) -> Mapping[str, str]:
    """The settings of a version of a file: Spark's login and the metastore's look at the same one."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    named = [(element.findtext("name"), element.findtext("value")) for element in root.iter("property")]
    return {name.strip(): value.strip() for name, value in named if name and value is not None}
