"""Gateways that connect for other users, by beeline, PyHive and HTTP, and attempts to become one of these."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyhive import hive
from pyhive.exc import OperationalError
from TCLIService import ttypes
from thrift.transport.THttpClient import THttpClient

from hudisql.console import SilentConsole
from hudisql.errors import AuthenticationError
from hudisql.server.http_transport import proxied_user
from hudisql.server.rights.rights_file import RightsFile
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks
from tests.hive.beeline import run_beeline
from tests.server.test_hostile_clients import HELLO, http, talk
from tests.server.test_wire_format import OPEN

pytestmark = [
    *(pytest.mark.spark, pytest.mark.hms),
    # Thrift and PyHive leave sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
PROXY = "hive.server2.proxy.user"
RIGHTS = """root: admin *
@ops = op, root
gate: proxy *
knox: proxy ada, proxy @ops
ada: reader shop.*
"""
WHO = "SELECT current_user()"


class Notes(SilentConsole):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(scope="module")
def notes() -> Notes:
    """The lines of the server's console."""
    return Notes()


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rights") / "rights"
    path.write_text(RIGHTS)
    return path


def check_password(user: str, password: str) -> None:
    if password != f"of-{user}":
        raise AuthenticationError(f"no user {user!r} with this password")


@pytest.fixture(scope="module")
def gateway(session: Any, notes: Notes, rights: Path) -> Iterator[ThriftServer]:
    """A server whose users have rights, `gate` and `knox` those to act as others."""
    server = ThriftServer(
        *(session, listen_on("127.0.0.1", 0), ServerLimits(), notes),
        users=UserChecks(check_password),
        rights=RightsFile(rights),
    )
    yield server
    server.close()


def by_sasl(server: ThriftServer, user: str, settings: dict[str, str]) -> Any:
    return hive.connect(
        *("127.0.0.1", server.port),
        username=user,
        password=f"of-{user}",
        auth="CUSTOM",
        configuration=settings,
    )


def by_http(server: ThriftServer, user: str, query: str, settings: dict[str, str] | None = None) -> Any:
    transport = THttpClient(f"http://127.0.0.1:{server.port}/cliservice{query}")
    credentials = base64.b64encode(f"{user}:of-{user}".encode()).decode()
    transport.setCustomHeaders({"Authorization": f"Basic {credentials}"})
    return hive.Connection(thrift_transport=transport, configuration=settings)


def who(connection: Any) -> str:
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute(WHO)
        ((user,),) = cursor.fetchall()
        return str(user)


@pytest.mark.hive
def test_beeline_acts_as_the_user_of_its_url(gateway: ThriftServer, notes: Notes) -> None:
    url = f"jdbc:hive2://127.0.0.1:{gateway.port}/default;{PROXY}="
    credentials = ("-n", "knox", "-p", "of-knox")
    done = run_beeline(f"{url}ada", f"{WHO}; SELECT id FROM vault.t;", *credentials)
    assert "ada" in done.stdout.split(), done.stderr
    assert "user 'ada' may not read vault.t" in done.stderr
    assert f"allowed ada by knox: {WHO}" in notes.lines
    assert any(line.startswith("refused ada by knox: SELECT id FROM vault.t") for line in notes.lines)


@pytest.mark.soak
@pytest.mark.hive
def test_beeline_over_http_is_refused_another_user(gateway: ThriftServer) -> None:
    url = f"jdbc:hive2://127.0.0.1:{gateway.port}/default;transportMode=http;httpPath=cliservice;{PROXY}="
    credentials = ("-n", "knox", "-p", "of-knox")
    assert "ada" in run_beeline(f"{url}ada", f"{WHO};", *credentials).stdout.split()
    refused = run_beeline(f"{url}bo", f"{WHO};", *credentials)
    assert "user 'knox' may not act as 'bo': the right 'proxy bo' is missing" in refused.stderr


@pytest.mark.parametrize(
    ("user", "other"), [("gate", "bo"), ("knox", "op"), ("knox", "knox"), ("gate", "a b")]
)
def test_a_gateway_names_its_user_in_the_query_of_a_request(
    gateway: ThriftServer, notes: Notes, user: str, other: str
) -> None:
    assert who(by_http(gateway, user, f"?x=1&DoAs={quote(other)}")) == other
    assert (f"allowed {user}: connect as {other}" in notes.lines) == (user != other)


@pytest.mark.parametrize(
    ("user", "other"),
    [
        *(("gate", "root"), ("gate", "no body"), ("gate", "*"), ("gate", "@ops")),
        *(("knox", "bo"), ("knox", "ADA"), ("knox", " ada"), ("knox", "@ops"), ("knox", "*")),
        *(("ada", "bo"), ("ada", "root"), ("nobody", "ada"), ("root", "ada"), ("op", "root")),
    ],
)
def test_who_lacks_the_right_is_refused_on_every_way(gateway: ThriftServer, user: str, other: str) -> None:
    if user == "gate" and other != "root":
        # Anybody but admins, of whatever name: it has the rights of that name, which are none.
        assert who(by_sasl(gateway, user, {PROXY: other})) == other
        return
    words = f"user '{user}' may not act as '{other}': the right 'proxy {other}' is missing"
    with pytest.raises(OperationalError) as caught:
        by_sasl(gateway, user, {PROXY: other})
    assert words in str(caught.value)
    assert caught.value.args[0].status.sqlState == "42501"
    with pytest.raises(OperationalError) as caught:
        by_http(gateway, user, f"?doAs={quote(other)}")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {PROXY: ""},
        {PROXY: "ada", f"set:hiveconf:{PROXY}": "op"},
        {PROXY: "knox", f"set:hiveconf:{PROXY}": "ada", f"set:system:{PROXY}": "root"},
        {f"set:hivevar:{PROXY}": "bo"},
        {f"set:{PROXY}": "bo"},
    ],
)
def test_no_settings_make_it_ambiguous(gateway: ThriftServer, settings: dict[str, str]) -> None:
    with pytest.raises(OperationalError, match="may not act as") as caught:
        by_sasl(gateway, "knox", settings)
    assert caught.value.args[0].status.sqlState == "42501"


def test_no_statement_and_no_setting_of_another_case_changes_the_user(gateway: ThriftServer) -> None:
    with pytest.raises(OperationalError, match="may not use the setting"):
        by_sasl(gateway, "knox", {PROXY.upper(): "root"})
    with (
        closing(by_sasl(gateway, "knox", {PROXY: "ada"})) as connection,
        closing(connection.cursor()) as cursor,
    ):
        for statement in (f"SET {PROXY} = root", f"SET hiveconf:{PROXY} = root", "SET spark.sql.user = root"):
            with pytest.raises(OperationalError, match="may not"):
                cursor.execute(statement)
        cursor.execute(WHO)
        assert cursor.fetchall() == [("ada",)]


def test_a_query_and_a_setting_name_one_user(gateway: ThriftServer) -> None:
    assert who(by_http(gateway, "knox", "?doAs=ada", {PROXY: "ada"})) == "ada"
    with pytest.raises(OperationalError, match="may not act as"):
        by_http(gateway, "knox", "?doAs=ada", {PROXY: "op"})


def test_a_session_is_of_the_user_that_it_was_opened_for(gateway: ThriftServer) -> None:
    """Even among the users of one gateway, whose password they share."""
    connection = by_http(gateway, "gate", "?doAs=ada")
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute(WHO)
        request = ttypes.TExecuteStatementReq(connection.sessionHandle, WHO)
        fetch = ttypes.TFetchResultsReq(cursor._operationHandle, 0, 10)
        for user, query in (("gate", "?doAs=bo"), ("knox", "?doAs=ada"), ("ada", "")):
            with closing(by_http(gateway, user, query)) as other:
                for answer in (other.client.ExecuteStatement(request), other.client.FetchResults(fetch)):
                    assert answer.status.statusCode != ttypes.TStatusCode.SUCCESS_STATUS, (user, query)
        assert cursor.fetchall() == [("ada",)]


def test_a_right_that_is_taken_away_ends_with_the_next_statement(gateway: ThriftServer, rights: Path) -> None:
    connections = {user: by_sasl(gateway, user, {PROXY: "ada"}) for user in ("knox", "gate")}
    cursors = {user: connection.cursor() for user, connection in connections.items()}
    try:
        for cursor in cursors.values():
            cursor.execute(WHO)
            assert cursor.fetchall() == [("ada",)]
        # Whoever becomes an admin is no longer one of `proxy *`.
        rights.write_text(RIGHTS.replace("proxy ada, ", "") + "ada: admin *\n")
        for user, cursor in cursors.items():
            with pytest.raises(OperationalError, match=f"user '{user}' may not act as 'ada'"):
                cursor.execute(WHO)
            request = ttypes.TGetSchemasReq(connections[user].sessionHandle)
            status = connections[user].client.GetSchemas(request).status
            assert f"user '{user}' may not act as 'ada'" in status.errorMessage
    finally:
        rights.write_text(RIGHTS)
        for connection in connections.values():
            connection.close()


@pytest.mark.parametrize(
    "target",
    [
        *("/cliservice?doAs=", "/cliservice?doAs", "/cliservice?doAs=a&doAs=b", "/cliservice?doAs=a&DOAS=a"),
        *("/cliservice?x=1;doAs=root", "/cliservice;doAs=root", "/doAs=root", "/cliservice?x=doAs=root"),
        *("/cliservice?d%256FAs=root", "/cliservice?doAs=%ff", "/cliservice? doAs=root"),
    ],
)
def test_a_target_that_may_name_a_user_and_does_not_is_refused(gateway: ThriftServer, target: str) -> None:
    with pytest.raises(ValueError, match=r"the user to act as|codec can't decode"):
        proxied_user(target)
    request = http(OPEN, "gate:of-gate").replace(b"/cliservice", target.encode())
    assert talk(gateway, request).startswith(b"HTTP/1.1 403")


def test_what_names_a_user(gateway: ThriftServer) -> None:
    assert proxied_user("/cliservice") is None
    assert proxied_user("/cliservice?x=1&y") is None
    assert proxied_user("/cliservice?doas=a") == "a"
    assert proxied_user("/cliservice?d%6FAs=a%2Bb+c&x=2") == "a+b+c"
    # The authorization identity of SASL PLAIN is no way, either.
    assert talk(gateway, HELLO + b"\x02\x00\x00\x00\x10ada\0knox\0of-knox").startswith(b"\x03")
