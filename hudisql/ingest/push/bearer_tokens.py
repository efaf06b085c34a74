"""Which client may push to which table: bearer tokens, of which the configuration has hashes only.

Tokens are random, so that SHA-256 without a salt is enough. Comparisons take the same time whether they
succeed or not, and no message holds a token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from hudisql.errors import InvalidArgumentError, PushRefusedError

ALL_TABLES: Final = "*"
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def new_token() -> str:
    """A token for a client: 256 random bits as text."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The hash of a token for the configuration."""
    return hashlib.sha256(token.encode()).hexdigest()


class TableTokens:
    """The hashes of the tokens of each table; those of `*` are good for all tables.

    None instead of hashes lets everyone push. Raises InvalidArgumentError for an invalid hash.
    """

    def __init__(self, hashes: Mapping[str, Sequence[str]] | None) -> None:
        self.is_open = hashes is None
        self._hashes = {table: tuple(token_hashes) for table, token_hashes in (hashes or {}).items()}
        for table, token_hashes in self._hashes.items():
            if not all(_HASH.fullmatch(token_hash) for token_hash in token_hashes):
                raise InvalidArgumentError(
                    f"a token of {table} is not a SHA-256 hash of 64 lower-case digits",
                    hint="configure what hash_token() returns, never the token",
                )

    def authorize(self, table: str, authorization: str | None) -> None:
        """Let a request pass whose header `Authorization` has a token of the table.

        Raises PushRefusedError: 401 without a known token, 403 if the token is one of other tables.
        """
        if self.is_open:
            return
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthenticated("the request has no bearer token")
        hashed = hash_token(token.strip())
        if self._knows(hashed, table) | self._knows(hashed, ALL_TABLES):
            return
        if sum(self._knows(hashed, other) for other in self._hashes):
            raise PushRefusedError(
                f"the token is not one of table {table}",
                hint="use a token of this table",
                status=403,
                code="forbidden",
            )
        raise _unauthenticated("the bearer token is unknown")

    def _knows(self, hashed: str, table: str) -> bool:
        return sum(hmac.compare_digest(hashed, token_hash) for token_hash in self._hashes.get(table, ())) > 0


def _unauthenticated(reason: str) -> PushRefusedError:
    return PushRefusedError(
        reason, hint="send the header Authorization: Bearer TOKEN", status=401, code="unauthenticated"
    )
