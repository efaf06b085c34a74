"""Authentication: users with hashed passwords in a file, and how users log in.

A line of the file is `name:scrypt$N$r$p$salt$hash`, as `hudisql serve --new-user` prints it. The file is read
again when it changes. A check takes the same time for unknown users. Passwords are neither stored nor logged:
a correct one is remembered for minutes as a keyed digest, since HTTP clients send it with every request; for
a file, until it changes. A user that is removed from the file can neither connect nor continue.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hudisql.errors import AuthenticationError, SettingsError
from hudisql.server.watched_file import WatchedFile

if TYPE_CHECKING:
    from hudisql.kerberos import KerberosServer

_COST, _BLOCK, _LANES = 1 << 14, 8, 1
_MOST_MEMORY: Final = 64 << 20
_CONCURRENT_CHECKS: Final = 4
_REMEMBERED_SECONDS: Final = 300.0
_MOST_REMEMBERED: Final = 1000
_SALT_BYTES: Final = 16
_HINT: Final = "see docs/serving.md; `hudisql serve --new-user NAME` prints a line"


def hash_password(password: str) -> str:
    """The file's entry for a password."""
    salt = secrets.token_bytes(_SALT_BYTES)
    hashed = _scrypt(password, salt, _COST, _BLOCK, _LANES)
    return f"scrypt${_COST}${_BLOCK}${_LANES}${_as_text(salt)}${_as_text(hashed)}"


@dataclass(frozen=True)
class UserChecks:
    """How users log in: by a password, by Kerberos, or either.

    `password` and `known` raise AuthenticationError, for a wrong password and for a removed user;
    `kerberos` makes the server's side of one login.
    """

    password: Callable[[str, str], None] | None = None
    known: Callable[[str], None] = lambda _: None
    kerberos: Callable[[], KerberosServer] | None = None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms, for people."""
        plain = ("PLAIN",) if self.password is not None else ()
        return (*plain, *(("GSSAPI",) if self.kerberos is not None else ()))


class PasswordFile:
    """The users of a file. Raises SettingsError for a file that cannot be read or has a bad line."""

    def __init__(self, path: Path) -> None:
        self._hashes = WatchedFile(path, "users", _parse_users)
        self._checks = threading.BoundedSemaphore(_CONCURRENT_CHECKS)
        self._unknown = hash_password(secrets.token_hex())

    def check(self, user: str, password: str) -> None:
        """Raise AuthenticationError unless the user exists and the password is correct."""
        known = self._current_hashes().get(user)
        with self._checks:
            is_right = _matches(self._unknown if known is None else known, password)
        if known is None or not is_right:
            raise AuthenticationError(f"no user {user!r} with this password")

    def check_known(self, user: str) -> None:
        """Raise AuthenticationError if the user is no longer in the file, or the file cannot be read."""
        if user not in self._current_hashes():
            raise AuthenticationError(f"the user {user!r} is no longer among the users of this server")

    def version(self) -> object:
        """Changes whenever the file does; None while it is missing."""
        return self._hashes.version()

    def _current_hashes(self) -> dict[str, str]:
        try:
            return self._hashes.value()
        except SettingsError as error:
            raise AuthenticationError(f"the server cannot read its users: {error.message}") from error


class RememberedUsers:
    """Remembers the successes of another check for five minutes, or until `version()` changes."""

    def __init__(
        self, check: Callable[[str, str], None], version: Callable[[], object] = lambda: None
    ) -> None:
        self._check = check
        self._version = version
        self._remembered_version = version()
        self._key = secrets.token_bytes(32)
        self._until: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def check(self, user: str, password: str) -> None:
        """Raise AuthenticationError as the other check does."""
        given = f"{len(user)}:{user}{password}".encode(errors="replace")
        digest = hmac.digest(self._key, given, "sha256")
        now = time.monotonic()
        version = self._version()
        with self._lock:
            if version != self._remembered_version:
                self._until.clear()
                self._remembered_version = version
            if self._until.get(digest, 0.0) > now:
                return
        self._check(user, password)
        with self._lock:
            if version != self._remembered_version:
                return
            if len(self._until) >= _MOST_REMEMBERED:
                self._until.clear()
            self._until[digest] = now + _REMEMBERED_SECONDS


def _parse_users(path: Path, text: str) -> dict[str, str]:
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, hashed = line.strip().partition(":")
        if not name or not _is_hash(hashed):
            raise SettingsError(f"{path}, line {number}: no name and hash of a user", hint=_HINT)
        users[name] = hashed
    return users


def _is_hash(text: str) -> bool:
    try:
        _matches(text, None)
    except (ValueError, TypeError):
        return False
    return True


def _matches(stored: str, password: str | None) -> bool:
    """True if the password matches the hash; for None only the form of the hash is checked."""
    kind, cost, block, lanes, salt, hashed = stored.split("$")
    if kind != "scrypt" or not salt or not hashed:
        raise ValueError(kind)
    numbers = int(cost), int(block), int(lanes)
    expected = base64.b64decode(hashed, validate=True)
    salt_bytes = base64.b64decode(salt, validate=True)
    cost_factor, block_size, lane_count = numbers
    is_power_of_two = cost_factor > 1 and cost_factor & (cost_factor - 1) == 0
    if (
        not is_power_of_two
        or min(block_size, lane_count) < 1
        or 128 * cost_factor * block_size >= _MOST_MEMORY
    ):
        raise ValueError("the numbers of the hash cannot be used")
    if password is None:
        return False
    return hmac.compare_digest(_scrypt(password, salt_bytes, *numbers), expected)


def _scrypt(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    secret = password.encode(errors="replace")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=lanes, maxmem=_MOST_MEMORY, dklen=32)


def _as_text(content: bytes) -> str:
    return base64.b64encode(content).decode()
