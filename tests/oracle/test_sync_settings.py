"""The declared settings of the Hive sync are all that Apache Hudi 0.15 has."""

from __future__ import annotations

import re
import zipfile

import pytest

from hudisql.catalog.sync_settings import SYNC_PREFIX, SYNC_SETTINGS
from scripts.setup_oracles import install_hudi_bundle

pytestmark = pytest.mark.oracle
_CLASSES = (
    "org/apache/hudi/hive/HiveSyncConfigHolder",
    "org/apache/hudi/hive/HiveSyncConfig",
    "org/apache/hudi/sync/common/HoodieSyncConfig",
)


def test_each_setting_of_hudis_hive_sync_is_declared() -> None:
    found = set()
    with zipfile.ZipFile(install_hudi_bundle("0.15.0")) as jar:
        for name in _CLASSES:
            content = jar.read(f"{name}.class")
            found |= set(re.findall(rb"hoodie\.datasource\.hive_sync\.([a-z_.]+)", content))
    names = {name.decode().rstrip(".") for name in found}
    assert names == {each.name for each in SYNC_SETTINGS}, SYNC_PREFIX
