"""Users and groups of an LDAP server, over TLS only.

A user logs in by a simple bind. Membership of a group is decided by the operation Compare (RFC 4511, section
4.10): the server compares names, and no filter has anything that a client sent. Entries are found by name
patterns, as by `hive.server2.authentication.ldap.userDNPattern` and `.groupDNPattern` of Hive.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hudisql.errors import AuthenticationError, RightMissingError, SettingsError

_SECONDS: Final = 10
_REMEMBERED_SECONDS: Final = 300.0
_MOST_REMEMBERED: Final = 1000
# They are escaped as hexadecimal numbers (RFC 4514, section 2.4).
_SPECIAL: Final = re.compile(r"(?![A-Za-z0-9._@-])[\x00-\x7f]")
_NAMES_ONLY: Final = "memberuid"
_OF_USERS: Final = "memberof"
# As long as names of users may be in schemas of directories.
_LONGEST_NAME: Final = 256
_BY_NAME: Final = re.compile(r"(?P<attribute>[A-Za-z][A-Za-z0-9-]*)=\{user\},.+")
# Compare's answers: false, true, and no such attribute, entry or value of its syntax.
_IS_MEMBER: Final = 6
_NO_ENTRY: Final = 32
_NO_MEMBER: Final = frozenset({5, 16, 21, _NO_ENTRY})
_SUCCESS: Final = 0


class LdapServer:
    """Users of an LDAP server, authenticated by a simple bind; `user_dn` has `{user}` for the name."""

    def __init__(self, url: str, user_dn: str) -> None:
        """Raises SettingsError without TLS, for a name pattern without `{user}`, or if ldap3 is missing."""
        if not url.startswith("ldaps://"):
            raise SettingsError(
                f"the LDAP server {url} would be sent passwords in the clear", hint="give an ldaps:// URL"
            )
        if "{user}" not in user_dn:
            raise SettingsError(
                f"the name {user_dn} is the same for all users", hint="as uid={user},ou=people,dc=example"
            )
        try:
            import ldap3  # noqa: F401
        except ImportError as error:
            raise SettingsError("LDAP needs the package ldap3", hint="pip install 'hudisql[ldap]'") from error
        self.url, self._user_dn = url, user_dn

    def name_of(self, user: str) -> str:
        """The distinguished name of a user's entry."""
        return self._user_dn.replace("{user}", escape_name(user))

    @property
    def name_attribute(self) -> str:
        """The attribute of an entry that has its user's name.

        Raises SettingsError if the pattern has none.
        """
        match = _BY_NAME.fullmatch(self._user_dn)
        if match is None:
            raise SettingsError(
                f"groups need the entries of users, whose names {self._user_dn} does not give",
                hint="write --ldap-user-dn as uid={user},ou=people,dc=example",
            )
        return match["attribute"]

    def check(self, user: str, password: str) -> None:
        """Raise AuthenticationError unless the server accepts the user and the password."""
        from ldap3.core.exceptions import LDAPException

        # A bind without a password succeeds anonymously.
        if not user or not password:
            raise AuthenticationError("the client gave no user or no password")
        if not _may_be_name(user):
            raise AuthenticationError(f"no user has a name of {len(user)} letters like these")
        try:
            with self.bound(self.name_of(user), password) as connection:
                accepted = connection is not None
        except LDAPException as error:
            raise AuthenticationError(f"the LDAP server {self.url} does not answer: {error}") from error
        if not accepted:
            raise AuthenticationError(f"no user {user!r} with this password")

    @contextmanager
    def bound(self, name: str | None, password: str | None) -> Iterator[Any]:
        """A connection of ldap3, as nobody without a name; None if the server refuses the login.

        Raises LDAPException if it does not answer, or cannot prove itself.
        """
        import ldap3

        tls = ldap3.Tls(validate=ssl.CERT_REQUIRED)
        server = ldap3.Server(self.url, tls=tls, connect_timeout=_SECONDS, get_info=ldap3.NONE)
        connection = ldap3.Connection(
            server,
            name,
            password,
            client_strategy=ldap3.SYNC,
            receive_timeout=_SECONDS,
            # Another server would be sent the password.
            auto_referrals=False,
            # Names are sent as they are, and not as ldap3 would parse and write them.
            check_names=False,
        )
        _close_failed_sockets(connection)
        try:
            yield connection if connection.bind() else None
        finally:
            connection.unbind()


@dataclass(frozen=True)
class DirectoryLogin:
    """The name by which groups are read, and the file of its password."""

    name: str
    password_file: Path

    def password(self) -> str:
        """The first line of the file. Raises SettingsError if there is none."""
        try:
            password = self.password_file.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the password in {self.password_file}: {error}") from error
        if not password:
            raise SettingsError(f"the password in {self.password_file} is empty")
        return password


class DirectoryGroups:
    """Who is in which group of an LDAP server; an answer is remembered for `seconds`."""

    def __init__(
        self,
        server: LdapServer,
        group_dn: str,
        attribute: str = "member",
        login: DirectoryLogin | None = None,
        seconds: float = _REMEMBERED_SECONDS,
    ) -> None:
        """`group_dn` has `{group}` for a group's name; without `login` the connection is anonymous.

        `attribute` is one of the group, with names of entries (`member`, `uniqueMember`) or of users
        (`memberUid`), or of the user (`memberOf`). Raises SettingsError for a bad pattern or password file.

        A user whose entry has another name, in another case for example, is in no group: directories compare
        names without regard of case and spaces, Kerberos and files of users do not.
        """
        if "{group}" not in group_dn:
            raise SettingsError(
                f"the name {group_dn} is the same for all groups", hint="as cn={group},ou=groups,dc=example"
            )
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", attribute):
            raise SettingsError(f"{attribute!r} is not an attribute", hint="member, memberUid or memberOf")
        if login is not None:
            login.password()
        self._name_attribute = server.name_attribute
        self._server, self._group_dn, self._attribute = server, group_dn, attribute
        self._login, self._seconds = login, seconds
        self._lock = threading.Lock()
        self._remembered: dict[str, tuple[float, dict[str, bool]]] = {}

    def groups_of(self, user: str, groups: Collection[str]) -> frozenset[str]:
        """Those of `groups` that a user is in.

        Raises RightMissingError if the directory does not say it of each.
        """
        known = self._known(user)
        if missing := sorted(set(groups) - known.keys()):
            until, asked = time.monotonic() + self._seconds, self._ask(user, missing)
            known = {**known, **asked}
            self._remember(user, until, asked)
        return frozenset(group for group in groups if known[group])

    def _known(self, user: str) -> dict[str, bool]:
        with self._lock:
            until, known = self._remembered.get(user, (0.0, {}))
            return dict(known) if time.monotonic() < until else {}

    def _remember(self, user: str, until: float, asked: dict[str, bool]) -> None:
        with self._lock:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            earlier, known = self._remembered.get(user, (0.0, {}))
            if earlier > time.monotonic():
                until, asked = earlier, {**known, **asked}
            self._remembered[user] = until, asked

    def _ask(self, user: str, groups: Collection[str]) -> dict[str, bool]:
        from ldap3.core.exceptions import LDAPException

        if not _may_be_name(user):
            return dict.fromkeys(groups, False)
        login = self._login
        try:
            account = (None, None) if login is None else (login.name, login.password())
            with self._server.bound(*account) as connection:
                if connection is None:
                    raise self._failure(f"refuses {login.name if login else 'anonymous logins'}")
                is_there = self._has_entry(connection, user)
                return {group: is_there and self._is_member(connection, user, group) for group in groups}
        except SettingsError as error:
            raise self._failure(f"cannot be asked: {error.message}") from error
        except LDAPException as error:
            raise self._failure(f"does not answer: {error}") from error

    def _has_entry(self, connection: Any, user: str) -> bool:
        """True if the user's entry has exactly this name."""
        import ldap3

        name = self._server.name_of(user)
        connection.search(name, "(objectClass=*)", search_scope=ldap3.BASE, attributes=[self._name_attribute])
        code = connection.result["result"]
        if code not in (_SUCCESS, _NO_ENTRY):
            raise self._failure(f"does not show {name}: {_words(connection)}")
        written = user.encode()
        entries = [entry for entry in connection.response if "raw_attributes" in entry]
        return any(written in values for entry in entries for values in entry["raw_attributes"].values())

    def _is_member(self, connection: Any, user: str, group: str) -> bool:
        user_name = self._server.name_of(user)
        group_name = self._group_dn.replace("{group}", escape_name(group))
        if self._attribute.lower() == _OF_USERS:
            compared = (user_name, self._attribute, group_name)
        else:
            by_name = self._attribute.lower() == _NAMES_ONLY
            compared = (group_name, self._attribute, user if by_name else user_name)
        connection.compare(*compared)
        code = connection.result["result"]
        if code not in _NO_MEMBER and code != _IS_MEMBER:
            raise self._failure(f"does not compare {self._attribute} of {compared[0]}: {_words(connection)}")
        return bool(code == _IS_MEMBER)

    def _failure(self, words: str) -> RightMissingError:
        return RightMissingError(
            f"the server cannot read the groups of users: the LDAP server {self._server.url} {words}"
        )


def escape_name(text: str) -> str:
    """A text as the value of one attribute in a distinguished name, whatever letters it has."""
    return _SPECIAL.sub(lambda letter: f"\\{ord(letter[0]):02x}", text)


def _close_failed_sockets(connection: Any) -> None:
    """Close each socket that cannot be connected: ldap3 drops that of a name's first address."""
    open_socket = connection.strategy._open_socket

    def open_or_close(*arguments: Any, **options: Any) -> None:
        try:
            open_socket(*arguments, **options)
        except BaseException:
            if connection.socket is not None:
                connection.socket.close()
            raise

    connection.strategy._open_socket = open_or_close


def _may_be_name(user: str) -> bool:
    """False for what no entry can have as its user's name."""
    return 0 < len(user) <= _LONGEST_NAME and not any("\ud800" <= letter <= "\udfff" for letter in user)


def _words(connection: Any) -> str:
    result = connection.result
    return f"{result.get('description')} {result.get('message') or ''}".strip()
