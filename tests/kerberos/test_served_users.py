"""Users of `hudisql serve` by Kerberos: beeline's three protections, HTTP, a plain client, wrong tickets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import AuthenticationError
from hudisql.kerberos import KerberosClient, KerberosServer
from hudisql.server.rights.rights_file import RightsFile
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks
from tests.kerberos.beeline import run_with_ticket
from tests.kerberos.realm import REALM, Realm

pytestmark = [
    *(pytest.mark.spark, pytest.mark.hive, pytest.mark.kerberos, pytest.mark.soak),
    # PyHive and impyla leave their sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

STATEMENTS = """SELECT current_user() AS who;
SELECT sum(id) AS total, max(repeat('x', 70000)) AS wide FROM range(100000);
"""


def refuse_passwords(user: str, password: str) -> None:
    if password != "right":
        raise AuthenticationError(f"no user {user!r} with this password")


@pytest.fixture(scope="session")
def kerberized(session: Any, realm: Realm) -> Iterator[ThriftServer]:
    """A server whose users have tickets, or the password `right`."""
    keytab = str(realm.keytab("hive/localhost"))
    users = UserChecks(
        refuse_passwords, refuse_removed, lambda: KerberosServer(keytab, f"hive/localhost@{REALM}")
    )
    server = ThriftServer(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole(), users=users)
    yield server
    server.close()


def refuse_removed(user: str) -> None:
    """The file of passwords holds bob alone."""
    if user != "bob":
        raise AuthenticationError(f"the user {user!r} is no longer among the users of this server")


@pytest.mark.parametrize("options", ["", ";saslQop=auth-int", ";saslQop=auth-conf", ";transportMode=http"])
def test_beeline_logs_in_by_its_principal(
    kerberized: ThriftServer, realm: Realm, ticket: Path, options: str
) -> None:
    path = ";httpPath=cliservice" if "http" in options else ""
    url = f"jdbc:hive2://localhost:{kerberized.port}/default;principal=hive/_HOST@{REALM}{options}{path}"
    done = run_with_ticket(realm, ticket, url, STATEMENTS)
    lines = done.stdout.split()
    assert "ada" in lines, done.stderr[-3000:]
    assert "4999950000," + "x" * 70000 in lines


@pytest.mark.parametrize("options", ["", ";transportMode=http;httpPath=cliservice"])
def test_a_gateway_acts_as_another_user_by_its_ticket(
    session: Any, realm: Realm, ticket: Path, tmp_path: Path, options: str
) -> None:
    (tmp_path / "rights").write_text("ada: proxy bob\n")
    keytab = str(realm.keytab("hive/localhost"))
    server = ThriftServer(
        *(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole()),
        users=UserChecks(kerberos=lambda: KerberosServer(keytab, f"hive/localhost@{REALM}")),
        rights=RightsFile(tmp_path / "rights"),
    )
    url = f"jdbc:hive2://localhost:{server.port}/default;principal=hive/_HOST@{REALM}{options}"
    with closing(server):
        done = run_with_ticket(realm, ticket, f"{url};hive.server2.proxy.user=bob", STATEMENTS)
        assert "bob" in done.stdout.split(), done.stderr[-3000:]
        refused = run_with_ticket(realm, ticket, f"{url};hive.server2.proxy.user=eve", STATEMENTS)
    assert "user 'ada' may not act as 'eve': the right 'proxy eve' is missing" in refused.stderr
    assert "eve" not in refused.stdout


def test_pyhive_and_impyla_log_in_beside_passwords(kerberized: ThriftServer, ticket: Path) -> None:
    from impala.dbapi import connect
    from pyhive import hive

    assert ticket.exists()
    with closing(
        hive.connect("localhost", kerberized.port, username="bob", password="right", auth="CUSTOM")
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT current_user()")
        assert cursor.fetchall() == [("bob",)]
    with (
        closing(
            connect("localhost", kerberized.port, auth_mechanism="PLAIN", user="bob", password="right")
        ) as connection,
        closing(connection.cursor()) as cursor,
    ):
        # A cursor of impyla that is not closed connects again when it is collected.
        cursor.execute("SELECT current_user()")
        assert cursor.fetchall() == [("bob",)]


def test_wrong_tickets_are_refused_with_a_reason(
    kerberized: ThriftServer, realm: Realm, ticket: Path, tmp_path: Path
) -> None:
    realm.keytab("other/localhost")
    assert ticket.exists()
    url = f"jdbc:hive2://localhost:{kerberized.port}/default;principal="
    of_another = run_with_ticket(realm, ticket, f"{url}other/localhost@{REALM}", STATEMENTS)
    assert of_another.returncode
    assert "Error" in of_another.stderr
    without = run_with_ticket(realm, tmp_path / "absent", f"{url}hive/localhost@{REALM}", STATEMENTS)
    assert without.returncode
    assert "ada" not in without.stdout


def test_a_client_cannot_act_as_another_user(realm: Realm, ticket: Path) -> None:
    """The layer's own checks, without a network: both sides in this process."""
    assert ticket.exists()
    server = KerberosServer(str(realm.keytab("hive/localhost")), f"hive/localhost@{REALM}")
    client = KerberosClient(f"hive/localhost@{REALM}", protections=("privacy",))
    challenge = server.step(client.step())
    offer = server.step(client.step(challenge))
    assert offer
    acting = bytes(client._context.wrap(b"\x04\xff\xff\xffroot", encrypt=False).message)
    with pytest.raises(Exception, match="asks to act as another user, root"):
        server.step(acting)
    assert server.user is None
