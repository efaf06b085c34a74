"""A Kerberized Hive Metastore 3.1.3: the Thrift client, and a table migrated by Spark's built-in client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_login import kerberos_security
from hudisql.errors import MetastoreUnavailableError
from tests.catalog.metastores.server import MetastoreLaunch, OtherMetastore, other_metastore
from tests.kerberos.metastore import SERVICE
from tests.kerberos.realm import Realm
from tests.kerberos.test_whole_session import MIGRATION, hive_directory, logged_in, run

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.kerberos, pytest.mark.soak]

CORE = {"hadoop.security.authentication": "kerberos"}


@pytest.fixture(scope="module")
def secured_3(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherMetastore]:
    """A metastore 3.1.3 with the principal hive/localhost."""
    settings = {
        "metastore.sasl.enabled": "true",
        "metastore.kerberos.principal": SERVICE,
        "metastore.kerberos.keytab.file": str(realm.keytab("hive/localhost")),
    }
    launch = MetastoreLaunch(
        (str(Path(__file__).with_name("SecuredMetastore3.java")),),
        (realm.java_option, "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"),
        settings,
        CORE,
    )
    with other_metastore("3.1.3", tmp_path_factory.mktemp("secured-3"), launch) as started:
        yield started


def by_name(metastore: OtherMetastore) -> str:
    """The principal has the name, not the address."""
    return metastore.uri.replace("127.0.0.1", "localhost")


def test_a_ticket_logs_in(secured_3: OtherMetastore, ticket: Path) -> None:
    assert ticket.exists()
    with MetastoreClient(by_name(secured_3), security=kerberos_security("hive/_HOST")) as client:
        assert "default" in client.list_databases()
    with (
        pytest.raises(MetastoreUnavailableError, match="set metastore_sasl"),
        MetastoreClient(by_name(secured_3), attempts=1) as client,
    ):
        client.list_databases()


def test_a_table_is_migrated(realm: Realm, secured_3: OtherMetastore, tmp_path: Path) -> None:
    directory = hive_directory(by_name(secured_3), CORE, tmp_path / "conf")
    environment = logged_in(realm, directory, tmp_path / "ada.ticket", "ticket")
    done = run(secured_3.warehouse, MIGRATION.format(d="of_three"), environment)
    assert done.returncode == 0, done.stderr
    assert "1,a,,x\n2,B,,y" in done.stdout.replace("\r", "")
