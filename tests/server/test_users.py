"""Users of a file and of an LDAP server."""

from __future__ import annotations

import gc
import os
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from hudisql.errors import AuthenticationError, SettingsError
from hudisql.server.ldap_server import LdapServer
from hudisql.server.users import PasswordFile, RememberedUsers, hash_password
from tests.certificates import make_certificate


def test_a_user_of_the_file_needs_the_right_password(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"# people\nada:{hash_password('secret ä')}\n")
    users = PasswordFile(path)
    users.check("ada", "secret ä")
    for user, password in (("ada", "secret"), ("ada", ""), ("bo", "secret ä"), ("", "")):
        with pytest.raises(AuthenticationError, match="no user"):
            users.check(user, password)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"ada:{hash_password('one')}\n")
    users = PasswordFile(path)
    path.write_text(f"ada:{hash_password('two')}\n")
    os.utime(path, ns=(1, 1))
    users.check("ada", "two")
    with pytest.raises(AuthenticationError):
        users.check("ada", "one")
    path.write_text("broken")
    os.utime(path, ns=(2, 2))
    with pytest.raises(AuthenticationError, match="cannot read its users"):
        users.check("ada", "two")


@pytest.mark.parametrize(
    "line",
    [
        "ada",
        "ada:",
        ":x",
        "ada:secret",
        "ada:scrypt$1$1$1$?$?",
        "ada:md5$1$1$1$YQ==$YQ==",
        "ada:scrypt$1000$8$1$YQ==$YQ==",
        "ada:scrypt$1073741824$8$1$YQ==$YQ==",
        "ada:scrypt$16384$0$1$YQ==$YQ==",
    ],
)
def test_a_line_that_is_no_user_is_an_error_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "users"
    path.write_text(f"\n{line}\n")
    with pytest.raises(SettingsError, match="users, line 2: no name and hash"):
        PasswordFile(path)


def test_a_file_that_is_no_text_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "users").write_bytes(b"ada:\xff\xfe")
    with pytest.raises(SettingsError, match="it is not UTF-8 text"):
        PasswordFile(tmp_path / "users")


def test_a_success_is_remembered_and_a_failure_is_not() -> None:
    asked: list[str] = []

    def check(user: str, password: str) -> None:
        asked.append(user)
        if password != "right":
            raise AuthenticationError("no user with this password")

    users = RememberedUsers(check)
    for _ in range(3):
        users.check("ada", "right")
        with pytest.raises(AuthenticationError):
            users.check("ada", "wrong")
    assert len(asked) == 4


def test_a_user_that_is_removed_from_the_file_is_no_longer_remembered(tmp_path: Path) -> None:
    path = tmp_path / "users"
    line = f"ada:{hash_password('one')}\n"
    path.write_text(line)
    file = PasswordFile(path)
    users = RememberedUsers(file.check, file.version)
    users.check("ada", "one")
    file.check_known("ada")
    path.write_text(line.replace("ada", "bob"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(AuthenticationError, match="no user 'ada'"):
        users.check("ada", "one")
    with pytest.raises(AuthenticationError, match="'ada' is no longer among the users"):
        file.check_known("ada")
    path.unlink()
    with pytest.raises(AuthenticationError, match="cannot read its users"):
        file.check_known("bob")


def test_the_command_prints_a_line_of_the_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["serve", "--new-user", "ada"], input="secret\n")
    assert done.exit_code == 0
    (tmp_path / "users").write_text(done.stdout)
    PasswordFile(tmp_path / "users").check("ada", "secret")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host", "0.0.0.0"], "listens on the loopback only"),
        (["--users", "/no/such/file"], "cannot read the users"),
        (["--users", "x", "--ldap-url", "ldaps://x"], "not both"),
        (["--ldap-url", "ldap://x", "--ldap-user-dn", "uid={user}"], "in the clear"),
        (["--ldap-url", "ldaps://x"], "the same for all users"),
        (["--tls-key", "x"], "--tls-key needs --tls-certificate"),
        (["--tls-certificate", "/no/such/file"], "cannot use the certificate"),
        (["--max-sessions", "0"], "Invalid value"),
        (["--new-user", "a:b"], "is not a valid user name"),
    ],
)
def test_bad_usage_is_one_error_before_anything_starts(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code == 2
    assert complaint in done.stderr


# ldap3 uses names of pyasn1 that have new ones.
of_ldap3 = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")


@pytest.fixture
def ldap_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that accepts the bind of one name with one password, as RFC 4511 has it."""
    certificate, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                accepted = listener.accept()[0]
            except OSError:
                return
            with (
                accepted,
                suppress(ssl.SSLError),
                context.wrap_socket(accepted, server_side=True) as connection,
            ):
                request = connection.recv(4096)
                is_right = b"uid=ada\\2cx,ou=people" in request and b"\x80\x06secret" in request
                code = 0 if is_right else 49
                # The number of the request, which has two bytes from 128 on.
                number = request[2 : 4 + request[3]]
                answer = number + b"\x61\x07\x0a\x01" + bytes([code]) + b"\x04\x00\x04\x00"
                connection.sendall(b"\x30" + bytes([len(answer)]) + answer)

    threading.Thread(target=serve, daemon=True).start()
    yield f"ldaps://localhost:{listener.getsockname()[1]}"
    listener.close()


@of_ldap3
def test_users_of_an_ldap_server_bind_with_their_own_name(ldap_url: str) -> None:
    users = LdapServer(ldap_url, "uid={user},ou=people")
    users.check("ada,x", "secret")
    with pytest.raises(AuthenticationError, match="no user"):
        users.check("ada,x", "wrong")
    with pytest.raises(AuthenticationError, match="no password"):
        users.check("ada,x", "")


@of_ldap3
def test_an_ldap_server_that_cannot_prove_itself_gets_no_password(
    ldap_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(AuthenticationError, match="does not answer"):
        LdapServer(ldap_url, "uid={user},ou=people").check("ada,x", "secret")


@of_ldap3
def test_a_login_closes_each_socket_of_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    # Of a name with two addresses, as localhost has on many machines.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *name, **how: 2 * resolve(*name, **how))
    with socket.socket() as taken:
        # A port that is bound, and on which nobody listens.
        taken.bind(("127.0.0.1", 0))
        server = LdapServer(f"ldaps://localhost:{taken.getsockname()[1]}", "uid={user},dc=example")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(AuthenticationError, match="does not answer"):
                server.check("ada", "x")
            gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []
