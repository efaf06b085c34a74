"""One realm and one metastore for the tests of Kerberos, and an environment of a user of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kerberos.hdfs import SecuredHdfs, start_secured_hdfs
from tests.kerberos.metastore import SecuredMetastore, start_secured_metastore
from tests.kerberos.realm import Realm, start_realm


@pytest.fixture(scope="session")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A running realm."""
    realm = start_realm(tmp_path_factory.mktemp("realm"))
    yield realm
    realm.close()


@pytest.fixture(scope="session")
def secured_metastore(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMetastore]:
    """A metastore that asks for Kerberos."""
    metastore = start_secured_metastore(tmp_path_factory.mktemp("secured"), realm)
    yield metastore
    metastore.close()


@pytest.fixture(scope="session")
def secured_hdfs(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredHdfs]:
    """An HDFS that asks for Kerberos."""
    hdfs = start_secured_hdfs(tmp_path_factory.mktemp("secured-hdfs"), realm)
    yield hdfs
    hdfs.close()


@pytest.fixture
def ticket(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process is in the realm; the file holds a ticket of ada's."""
    path = tmp_path / "ada.ticket"
    realm.kinit("ada", path)
    for name, value in realm.environment(f"FILE:{path}").items():
        monkeypatch.setenv(name, value)
    # use_keytab changes it in this process.
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", os.devnull)
    return path
