"""The settings of the Hive sync are those of Apache Hudi 0.15, and its own syncs agree with the entries."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hudisql.catalog.sync_settings import SYNC_PREFIX, SYNC_SETTINGS
from hudisql.session import Session
from scripts.setup_oracles import install_hudi_bundle
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, bootstrap_shape

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


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize("oracle", ["oracle_015", "oracle_120"])
def test_statements_of_hudi_sync_timestamps_as_they_are_declared(
    request: pytest.FixtureRequest, session: Session, tmp_path: Path, oracle: str
) -> None:
    """By default Hudi's SQL declares timestamps as such, which the metastore refuses of a bigint."""
    hudi: HudiOracle = request.getfixturevalue(oracle)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name = f"synced_by_{hudi.version[:1]}"
    bootstrap_shape(session, replace(SHAPES[0], name=name), tmp_path)
    hudi.sql(f"REFRESH TABLE oracle.{name}")
    hudi.sql(f"UPDATE oracle.{name} SET note = 'theirs' WHERE seq = 30")
    session.sql(f"UPDATE oracle.{name} SET note = 'ours' WHERE seq = 31")
    query = f"SELECT seq, note, at FROM oracle.{name} WHERE seq IN (30, 31) ORDER BY seq"
    hudi.sql(f"REFRESH TABLE oracle.{name}")
    ours = session.sql(query).arrow()
    assert ours["note"].to_pylist() == ["theirs", "ours"]
    assert hudi.sql(query).to_pylist() == ours.to_pylist()
    entry = session.context.metastore.get_table("oracle", name)
    assert entry is not None
    assert {column.name: column.type for column in entry.columns}["at"] == "bigint"
