"""Checks each statement of a client against the rights of its user, and logs who ran what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import RightMissingError
from hudisql.server.rights.harmless import is_harmless_setting
from hudisql.server.rights.metastore_grants import with_metastore_grants
from hudisql.server.rights.rights_file import RightsFile, UserRights
from hudisql.server.rights.statement_rights import require_rights
from hudisql.server.rights.visible_names import only_visible
from hudisql.sql.text.script import ScriptStatement, Variables

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.result import Result
    from hudisql.session import Session

_LOGGED_LETTERS: Final = 300
_VARIABLE_NAMESPACES: Final = frozenset({"hivevar", "hiveconf", "conf", "spark", "sparkconf"})


class StatementGuard:
    """The rights of all users; `log` writes a line for each statement."""

    def __init__(
        self, file: RightsFile, log: Callable[[str], None], metastore: Callable[[], MetastoreClient]
    ) -> None:
        """`metastore` has the grants that the file may follow."""
        self._file = file
        self._metastore = metastore
        self._log = log

    def rights_of(self, user: str, *, login: str) -> UserRights:
        """The rights of a user now.

        Raises RightMissingError if their file, the directory or the grants cannot be read, or `login` may no
        longer act as the user.
        """
        if login != user:
            self._file.require_proxy(login, user)
        rights = self._file.rights_of(user)
        return with_metastore_grants(rights, self._metastore()) if rights.followed else rights

    def require_proxy(self, login: str, user: str) -> None:
        """Raise RightMissingError unless the user who logged in may act as `user`."""
        try:
            self._file.require_proxy(login, user)
        except RightMissingError as error:
            self._log(f"refused {_one_line(login)}: connect ({_one_line(error.message)})")
            raise
        self._log(f"allowed {_one_line(login)}: connect as {_one_line(user)}")

    def allow(self, session: Session, user: str, statement: str, *, login: str) -> AllowedStatement:
        """The statement as it is to be run, with its variables substituted.

        `login` is the user of the connection, for the log: another one if it acts as `user`.

        Raises RightMissingError if the user lacks a right, and what the session raises for a bad statement.
        """
        shown = _one_line(user if login == user else f"{user} by {login}")
        try:
            allowed = self._allowed(session, self.rights_of(user, login=login), statement)
        except RightMissingError as error:
            self._log(f"refused {shown}: {_one_line(statement)} ({_one_line(error.message)})")
            raise
        except Exception as error:
            self._log(f"failed {shown}: {_one_line(statement)} ({_one_line(str(error))})")
            raise
        self._log(f"allowed {shown}: {_one_line(allowed.text)}")
        return allowed

    def check_setting(self, user: str, name: str, *, login: str) -> None:
        """Raise RightMissingError unless the user may change a setting of the session."""
        rights = self.rights_of(user, login=login)
        if not rights.is_admin and not is_harmless_setting(name):
            raise rights.refuse(f"use the setting {name}")

    def _allowed(self, session: Session, rights: UserRights, statement: str) -> AllowedStatement:
        if rights.is_admin:
            return AllowedStatement(statement)

        def harmless(variables: Variables) -> Variables:
            return _HarmlessVariables(variables.hivevar, variables.hiveconf, {}, rights)

        text = session.substitute(ScriptStatement(statement), harmless)
        lists_names = require_rights(session.context, rights, text)
        return AllowedStatement(text, rights if lists_names else None)


@dataclass(frozen=True)
class AllowedStatement:
    """The text to run; a user with `sight` sees only some of the names that it lists."""

    text: str
    sight: UserRights | None = None

    def shown(self, result: Result) -> Result:
        """The rows that the user may see."""
        return result if self.sight is None else only_visible(result, self.sight)


@dataclass(frozen=True)
class _HarmlessVariables(Variables):
    """Variables without those of the environment, and without settings that may have secrets."""

    rights: UserRights | None = None

    def lookup(self, namespace: str | None, name: str) -> str | None:
        """The value, or None. Raises RightMissingError for other variables than a user's own."""
        is_own = namespace is None or namespace.lower() in _VARIABLE_NAMESPACES
        if not is_own or not is_harmless_setting(name):
            assert self.rights is not None
            raise self.rights.refuse(f"use the variable {f'{namespace}:' if namespace else ''}{name}")
        return super().lookup(namespace, name)


def _one_line(text: str) -> str:
    """The beginning of a text, without line breaks and other marks that could forge a line of the log."""
    shown = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return shown if len(shown) <= _LOGGED_LETTERS else f"{shown[: _LOGGED_LETTERS - 1]}…"
