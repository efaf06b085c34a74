"""The Thrift client on a Kerberized Hive Metastore 2.3.10 and a real KDC: logins, failures, wide answers."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_login import MetastoreSecurity, kerberos_security
from hudisql.errors import MetastoreUnavailableError, SettingsError
from hudisql.kerberos import use_keytab
from tests.kerberos.metastore import SERVICE, SecuredMetastore, start_secured_metastore
from tests.kerberos.realm import REALM, Realm

pytestmark = [pytest.mark.hms, pytest.mark.kerberos, pytest.mark.soak]

ANY_HOST = f"hive/_HOST@{REALM}"


def databases(uri: str, security: MetastoreSecurity | None) -> list[str]:
    with MetastoreClient(uri, security=security, attempts=1) as client:
        return client.list_databases()


@pytest.mark.parametrize("principal", ["", "hive/_HOST", ANY_HOST, SERVICE, "hive"])
def test_a_ticket_logs_in(secured_metastore: SecuredMetastore, ticket: Path, principal: str) -> None:
    assert ticket.exists()
    assert "default" in databases(secured_metastore.uri, kerberos_security(principal))


@pytest.mark.parametrize("protection", ["integrity", "privacy"])
def test_messages_are_signed_or_encrypted_as_the_server_asks(
    realm: Realm, ticket: Path, tmp_path: Path, protection: str
) -> None:
    assert ticket.exists()
    metastore = start_secured_metastore(tmp_path / "secured", realm, protection)
    try:
        assert databases(metastore.uri, kerberos_security(ANY_HOST)) == ["default"]
        assert databases(metastore.uri, kerberos_security(ANY_HOST, protection=protection)) == ["default"]
        with pytest.raises(MetastoreUnavailableError) as raised:
            databases(metastore.uri, kerberos_security(ANY_HOST, protection="authentication"))
        assert f"the server offers the protection {protection}, this client is set to auth" in str(
            raised.value
        )
        assert "hadoop.rpc.protection" in str(raised.value.hint)
    finally:
        metastore.close()


def test_each_failure_says_what_to_do(
    realm: Realm, secured_metastore: SecuredMetastore, ticket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = secured_metastore.uri
    realm.keytab("other/localhost")

    def refused(security: MetastoreSecurity | None, at: str = uri) -> str:
        with pytest.raises(MetastoreUnavailableError) as raised:
            databases(at, security)
        return str(raised.value)

    assert "set metastore_sasl" in refused(None)
    assert "name the server as its principal does" in refused(kerberos_security("absent"))
    by_address = refused(kerberos_security(ANY_HOST), uri.replace("localhost", "127.0.0.1"))
    assert "not an address" in by_address
    assert f"hive/127.0.0.1@{REALM}" in by_address
    of_another = refused(kerberos_security("other/localhost"))
    assert "the server refuses the login: GSS initiate failed" in of_another
    assert "metastore_principal must be the server's own" in of_another
    assert "no ticket or key of this user" in refused(kerberos_security(ANY_HOST, "bob"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{ticket}.absent")
    assert "run kinit, or give a keytab" in refused(kerberos_security(ANY_HOST))
    realm.kinit("shortly", ticket, life="1 second")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{ticket}")
    wait_until_expired(ticket)
    assert "the ticket has expired" in refused(kerberos_security(ANY_HOST))


def wait_until_expired(ticket: Path) -> None:
    for _ in range(100):
        if subprocess.run(["klist", "-s", "-c", str(ticket)]).returncode:
            # In its last second it serves logins still.
            time.sleep(1.1)
            return
        time.sleep(0.2)
    raise AssertionError("the ticket does not expire")


def test_a_plain_server_is_told_from_a_kerberized_one(metastore_uri: str, ticket: Path) -> None:
    assert ticket.exists()
    with pytest.raises(MetastoreUnavailableError) as raised:
        databases(metastore_uri.replace("127.0.0.1", "localhost"), kerberos_security("hive"))
    assert "unset metastore_sasl" in str(raised.value.hint)


def test_a_keytab_needs_no_ticket(
    realm: Realm, secured_metastore: SecuredMetastore, ticket: Path, tmp_path: Path
) -> None:
    ticket.unlink()
    use_keytab(str(realm.keytab("ada")), f"ada@{REALM}")
    assert os.environ["KRB5CCNAME"] == "MEMORY:hudisql"
    assert "default" in databases(secured_metastore.uri, kerberos_security(ANY_HOST, f"ada@{REALM}"))
    with pytest.raises(MetastoreUnavailableError, match="no ticket or key of this user"):
        databases(secured_metastore.uri, kerberos_security(ANY_HOST, f"bob@{REALM}"))
    with pytest.raises(SettingsError, match="cannot read the keytab"):
        use_keytab(str(tmp_path / "absent"), "ada")
    with pytest.raises(SettingsError, match="is not a keytab"):
        use_keytab(str(Path(__file__)), "ada")
    with pytest.raises(SettingsError, match="kerberos_keytab needs kerberos_principal"):
        use_keytab(str(realm.keytab("ada")), "")


def test_answers_of_more_than_sixteen_megabytes_arrive(
    secured_metastore: SecuredMetastore, ticket: Path
) -> None:
    """1,000 partitions of 400 columns come in one frame."""
    assert ticket.exists()
    columns = [
        ttypes.FieldSchema(f"a_column_of_thirty_letters_{number:04}", "string") for number in range(400)
    ]
    with MetastoreClient(secured_metastore.uri, security=kerberos_security(ANY_HOST)) as client:
        client.create_database("wide", str(secured_metastore.warehouse / "wide.db"))
        location = (secured_metastore.warehouse / "wide.db" / "t").as_uri()
        storage = ttypes.StorageDescriptor(
            columns,
            location,
            "org.apache.hadoop.mapred.TextInputFormat",
            "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=ttypes.SerDeInfo(None, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
            parameters={},
        )
        raw = client._connection
        table = ttypes.Table(
            "t", "wide", "ada", sd=storage, partitionKeys=[ttypes.FieldSchema("p", "string")], parameters={}
        )
        table.tableType = "EXTERNAL_TABLE"
        raw.call(lambda thrift: thrift.create_table(table))
        made = [
            ttypes.Partition([str(number)], "wide", "t", sd=storage, parameters={}) for number in range(1000)
        ]
        raw.call(lambda thrift: thrift.add_partitions(made))
        names = [f"p={number}" for number in range(1000)]
        answer = raw.call(lambda thrift: thrift.get_partitions_by_names("wide", "t", names))
        assert sorted(int(partition.values[0]) for partition in answer) == list(range(1000))
        assert {len(partition.sd.cols) for partition in answer} == {400}
