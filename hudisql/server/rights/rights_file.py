"""The rights of users, as a file declares them.

A line is `user: right scope, right scope, …`: a right is `reader`, `editor` (of rows), `writer` or `admin`, a
scope `*` (all), `db.*` or `db.table`. The user `*` stands for every user. Each right includes those before
it; `admin` is for `*` only, since whoever reads by path reads every table. `grants scope` stands for the
rights that the metastore grants there. `@group = user, user` declares a group, whose rights stand at
`@group: …`; `ldap:name` among its users stands for those of a group of the LDAP directory. `user: proxy
other` lets a user act as another one (`hive.server2.proxy.user`), as one of a group, or with `*` as everyone
but admins. The file is read again when it changes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from hudisql.errors import RightMissingError, SettingsError
from hudisql.server.watched_file import WatchedFile

EVERYBODY: Final = "*"
_GROUP: Final = "@"
_PROXY: Final = "proxy"
_FOLLOW: Final = "grants"
_DIRECTORY: Final = "ldap:"
GroupsOf = Callable[[str, Collection[str]], Collection[str]]
"""Those of some groups of a directory that a user is in; raises RightMissingError if it does not answer."""
_HINT: Final = "write `user: reader sales.*, writer sales.orders`, or `user: admin *`; see docs/serving.md"
_GRANT: Final = re.compile(r"(?P<right>\S+)\s+(?P<database>\*|[^\s.*]+)(?:\.(?P<table>\*|[^\s.*]+))?")


class Right(IntEnum):
    """What a user may do with tables; a higher one includes the lower ones."""

    READER = 1
    EDITOR = 2
    WRITER = 3
    ADMIN = 4


_VERBS: Final = {Right.READER: "read", Right.EDITOR: "change rows of", Right.WRITER: "write"}


@dataclass(frozen=True)
class Grant:
    """One right on all tables (both names None), on a database (`table` None) or on a table."""

    right: Right
    database: str | None = None
    table: str | None = None


class UserRights:
    """The rights of one user; names of databases and tables are in lower case."""

    def __init__(self, user: str, grants: tuple[Grant, ...], followed: tuple[Grant, ...] = ()) -> None:
        """`followed` has the scopes within which grants of the metastore count, too."""
        self.user = user
        self.grants = grants
        self.followed = followed

    @property
    def is_admin(self) -> bool:
        """True for a user who may do everything."""
        return any(grant.right is Right.ADMIN for grant in self.grants)

    def has(self, right: Right, database: str, table: str | None = None) -> bool:
        """True if the user has the right on a table, or without `table` on all tables of the database."""
        return any(
            grant.right >= right
            and grant.database in (None, database)
            and (grant.table is None or grant.table == table)
            for grant in self.grants
        )

    def sees_database(self, database: str) -> bool:
        """True if the user has a right on a table of the database; everybody sees `default`."""
        return database == "default" or any(grant.database in (None, database) for grant in self.grants)

    @property
    def databases(self) -> frozenset[str] | None:
        """The databases that the user sees; None for all."""
        named = {grant.database for grant in self.grants if grant.database is not None}
        return (
            None if any(grant.database is None for grant in self.grants) else frozenset(named | {"default"})
        )

    def sees_table(self, database: str, table: str) -> bool:
        """True if the user has a right on the table; names in any case."""
        return self.has(Right.READER, database.lower(), table.lower())

    def require(self, right: Right, database: str, table: str | None = None) -> None:
        """Raise RightMissingError unless the user has the right on the table, or the whole database."""
        if not self.has(right, database, table):
            scope = f"{database}.{table or '*'}"
            raise RightMissingError(
                f"user {self.user!r} may not {_VERBS[right]} {scope}: "
                f"the right '{right.name.lower()}' on {scope} is missing"
            )

    def require_sight_of(self, database: str) -> None:
        """Raise RightMissingError unless the user sees the database."""
        if not self.sees_database(database):
            raise RightMissingError(
                f"user {self.user!r} may not see the database {database}: "
                f"a right on {database}.* or one of its tables is missing"
            )

    def refuse(self, what: str) -> RightMissingError:
        """The error for something that only admins may do, such as `read by path`."""
        return RightMissingError(f"user {self.user!r} may not {what}: the right 'admin' is missing")


ALL_RIGHTS: Final = UserRights("", (Grant(Right.ADMIN),))
"""Those of every user of a server without rights."""


@dataclass
class _Declared:
    """What the lines of a file say of users, and of groups by their name with `@`."""

    grants: defaultdict[str, list[Grant]] = field(default_factory=lambda: defaultdict(list))
    followed: defaultdict[str, list[Grant]] = field(default_factory=lambda: defaultdict(list))
    """Scopes within which the grants of the metastore count."""
    proxied: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    members: dict[str, frozenset[str]] = field(default_factory=dict)
    directory_groups: dict[str, frozenset[str]] = field(default_factory=dict)
    """Of a group of the file those of the directory that belong to it."""
    places: dict[str, str] = field(default_factory=dict)
    """Where a group is first named."""

    def names_of(self, user: str) -> tuple[str, ...]:
        """The names whose rights a user has: everybody's, those of the user's groups, and its own."""
        groups = (group for group, members in self.members.items() if user in members)
        own = () if user == EVERYBODY or user.startswith(_GROUP) else (user,)
        return (EVERYBODY, *groups, *own)

    def rights_of(self, user: str, names: Collection[str]) -> UserRights:
        """The rights of all these names as those of one user."""
        grants = tuple(grant for name in names for grant in self.grants.get(name, ()))
        followed = tuple(scope for name in names for scope in self.followed.get(name, ()))
        return UserRights(user, grants, followed)


class RightsFile:
    """The rights that a file declares. Raises SettingsError for one that is unreadable or has a bad line."""

    def __init__(self, path: Path, groups_of: GroupsOf | None = None) -> None:
        """`groups_of` asks the directory that `ldap:` in the file stands for."""
        self._groups_of = groups_of

        def parse(path: Path, text: str) -> _Declared:
            return _parse_rights(path, text, has_directory=groups_of is not None)

        self._declared = WatchedFile(path, "rights", parse)

    def rights_of(self, user: str) -> UserRights:
        """The rights of a user as the file and the directory have them now.

        Raises RightMissingError if one of them cannot be read.
        """
        declared = self._read()
        rights = declared.rights_of(user, declared.names_of(user))
        # An admin of the file stays one without the directory.
        return rights if rights.is_admin else declared.rights_of(user, self._names_of(declared, user))

    def require_proxy(self, user: str, other: str) -> None:
        """Raise RightMissingError unless `user` may act as `other`.

        As `hadoop.proxyuser.<user>.users` and `.groups` of Hadoop, but that `*` leaves admins out.
        """
        declared = self._read()
        names = self._names_of(declared, user)
        allowed = {proxied for name in names for proxied in declared.proxied.get(name, ())}
        named = allowed.intersection(self._names_of(declared, other)) - {EVERYBODY}
        if not named and (EVERYBODY not in allowed or self.rights_of(other).is_admin):
            raise RightMissingError(
                f"user {user!r} may not act as {other!r}: the right 'proxy {other}' is missing"
            )

    def _names_of(self, declared: _Declared, user: str) -> tuple[str, ...]:
        """Also those of the groups that the directory has the user in."""
        names = declared.names_of(user)
        asked = frozenset().union(*declared.directory_groups.values())
        if not asked or self._groups_of is None or user == EVERYBODY:
            return names
        groups = frozenset(self._groups_of(user, asked))
        return (*names, *(name for name, of in declared.directory_groups.items() if of & groups))

    def _read(self) -> _Declared:
        try:
            return self._declared.value()
        except SettingsError as error:
            raise RightMissingError(f"the server cannot read the rights of users: {error.message}") from error


def _parse_rights(path: Path, text: str, *, has_directory: bool) -> _Declared:
    declared = _Declared()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{path}, line {number}"
        if line.lstrip().startswith(_GROUP) and "=" in line:
            _add_group(declared, place, line, has_directory=has_directory)
            continue
        user, _, scopes = (part.strip() for part in line.partition(":"))
        if not user or not scopes:
            raise SettingsError(f"{place}: no user with rights", hint=_HINT)
        declared.places.setdefault(user, place)
        for scope in scopes.split(","):
            _add_right(declared, place, user, scope.strip())
    _check_groups(declared)
    return declared


def _add_right(declared: _Declared, place: str, user: str, scope: str) -> None:
    right, _, proxied = scope.partition(" ")
    if right.lower() == _FOLLOW:
        declared.followed[user].append(_parse_grant(place, f"{Right.READER.name}{scope[len(right) :]}"))
        return
    if right.lower() != _PROXY or not proxied.strip():
        declared.grants[user].append(_parse_grant(place, scope))
        return
    declared.places.setdefault(proxied.strip(), place)
    declared.proxied[user].add(proxied.strip())


def _add_group(declared: _Declared, place: str, line: str, *, has_directory: bool) -> None:
    group, _, users = line.strip().partition("=")
    members = frozenset(filter(None, (user.strip() for user in users.split(","))))
    of_directory = frozenset(user for user in members if user.startswith(_DIRECTORY))
    if of_directory and not has_directory:
        raise SettingsError(
            f"{place}: {min(of_directory)} is a group of a directory, and none is given",
            hint="give --ldap-url, --ldap-user-dn and --ldap-group-dn",
        )
    if _DIRECTORY in of_directory:
        raise SettingsError(f"{place}: {_DIRECTORY} names no group", hint="write `@analysts = ldap:analysts`")
    if not members or any(user == EVERYBODY or user.startswith(_GROUP) for user in members):
        raise SettingsError(f"{place}: a group has users, not groups", hint="write `@analysts = ada, bo`")
    name = group.strip()
    if name in declared.members:
        raise SettingsError(
            f"{place}: the group {name} is declared twice", hint="write its users in one line"
        )
    declared.members[name] = members - of_directory
    if of_directory:
        names = (member.removeprefix(_DIRECTORY).strip() for member in of_directory)
        declared.directory_groups[name] = frozenset(names)


def _check_groups(declared: _Declared) -> None:
    """Raise SettingsError for a group that has rights, or is named by `proxy`, and is not declared."""
    for name, place in declared.places.items():
        if name.startswith(_GROUP) and name not in declared.members:
            raise SettingsError(
                f"{place}: the group {name} is not declared", hint=f"write `{name} = ada, bo`"
            )


def _parse_grant(place: str, text: str) -> Grant:
    match = _GRANT.fullmatch(text)
    if match is None or (match["table"] is None) is not (match["database"] == "*"):
        raise SettingsError(f"{place}: {text!r} is not a right and its scope", hint=_HINT)
    try:
        right = Right[match["right"].upper()]
    except KeyError:
        raise SettingsError(
            f"{place}: there is no right {match['right']!r}",
            hint="it is reader, editor, writer, admin, grants or proxy",
        ) from None
    if match["database"] == "*":
        return Grant(right)
    if right is Right.ADMIN:
        raise SettingsError(
            f"{place}: {text!r}: admin is for all tables, since an admin also reads by path",
            hint=f"write `admin *`, or `writer {match['database']}.{match['table']}`",
        )
    table = None if match["table"] == "*" else match["table"].lower()
    return Grant(right, match["database"].lower(), table)
