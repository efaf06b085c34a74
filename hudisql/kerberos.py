"""Kerberos (GSSAPI) logins of SASL, for clients and servers, by the `gssapi` package.

RFC 4752: tokens are exchanged until both sides have a context, then the server offers protections of the
messages and the client chooses one. What goes wrong is named by what the user can do about it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hudisql.errors import SettingsError

PROTECTIONS: Final[Mapping[str, int]] = {"authentication": 1, "integrity": 2, "privacy": 4}
"""Hadoop's names (`hadoop.rpc.protection`) for SASL's auth, auth-int and auth-conf, and their bits."""
# The longest unwrapped message that this side takes, in 3 bytes.
_LONGEST: Final = (1 << 24) - 1
_KEYTAB_VARIABLE: Final = "KRB5_CLIENT_KTNAME"
_CACHE_VARIABLE: Final = "KRB5CCNAME"
_OWN_CACHE: Final = "MEMORY:hudisql"
# Minor codes of MIT Kerberos (krb5_err.et), as signed 32-bit numbers, and what to do.
_HINTS: Final[Mapping[int, str]] = {
    -1765328352: "the ticket has expired: run kinit again, or give a keytab (kerberos_keytab and "
    "kerberos_principal), whose tickets are renewed",
    -1765328377: "the KDC knows no such server: name the server as its principal does (its host name, not an "
    "address), or give its principal",
    -1765328378: "the KDC does not know the user's principal: correct kerberos_principal, or run kinit",
    -1765328228: "no KDC answers: look at the realm's kdc in krb5.conf (KRB5_CONFIG) and at the network",
    -1765328230: "krb5.conf (KRB5_CONFIG) names no KDC of this realm",
    -1765328347: "the clocks of this machine and of the KDC differ by more than five minutes",
    -1765328353: "the keytab does not hold the present key of this principal: export it again",
    -1765328203: "the keytab has no entry of this principal: `klist -k` lists what it has",
    -1765328174: "the keytab has no entry of this principal: `klist -k` lists what it has",
    13: "the keytab is not readable for this user",
    2: "there is no such file: correct kerberos_keytab, or run kinit",
}
_NO_TICKET: Final = "there is no ticket: run kinit, or give a keytab (kerberos_keytab and kerberos_principal)"


class KerberosError(Exception):
    """A login failed on this side: `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class ServicePrincipal:
    """The principal of a server, `service/host@REALM`; None as the host is that of the address."""

    service: str
    host: str | None = None
    realm: str | None = None

    def name_on(self, host: str) -> str:
        """The principal of the server on this host; without a realm, `service@host` of GSSAPI."""
        host = self.host or host.lower()
        return f"{self.service}/{host}@{self.realm}" if self.realm else f"{self.service}@{host}"


def parse_principal(principal: str) -> ServicePrincipal:
    """`service/host@REALM`, where `_HOST` or no host is that of the address. Raises SettingsError."""
    before, _, realm = principal.partition("@")
    service, _, host = before.partition("/")
    if principal and not service:
        raise SettingsError(f"bad Kerberos principal {principal!r}", hint="write service/host@REALM")
    return ServicePrincipal(service or "hive", None if host in ("", "_HOST") else host, realm or None)


def check_kerberos_package() -> None:
    """Raise SettingsError if the `gssapi` package is missing."""
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        # Also where the library of MIT Kerberos itself is missing.
        raise SettingsError(
            f"Kerberos needs the package gssapi: {error}",
            hint="pip install 'hudisql[kerberos]' (it is compiled: apt-get install gcc libkrb5-dev, or "
            "yum install gcc krb5-devel)",
        ) from error


def use_keytab(keytab: str, principal: str) -> None:
    """Let this process and its children log in from a keytab, into a cache of their own.

    MIT Kerberos gets and renews the tickets of `gssapi` and hdfs-native by itself then. Raises SettingsError
    for a keytab that cannot be read or a missing principal.
    """
    if not principal:
        raise SettingsError(
            "kerberos_keytab needs kerberos_principal", hint="`klist -k` lists the principals of a keytab"
        )
    try:
        with Path(keytab).open("rb") as file:
            is_keytab = file.read(1) == b"\x05"
    except OSError as error:
        raise SettingsError(f"cannot read the keytab {keytab}: {error.strerror}") from error
    if not is_keytab:
        raise SettingsError(f"{keytab} is not a keytab", hint="kadmin's ktadd, or ktutil, makes one")
    os.environ[_KEYTAB_VARIABLE] = f"FILE:{Path(keytab).absolute()}"
    os.environ[_CACHE_VARIABLE] = _OWN_CACHE


class KerberosClient:
    """The client's side of one login: `step` until the server says that it is complete."""

    mechanism: Final = "GSSAPI"

    def __init__(
        self, server: str, *, user: str | None = None, protections: Sequence[str] = tuple(PROTECTIONS)
    ) -> None:
        """`server` is the server's principal, `user` the own one (None: that of the ticket).

        The first of `protections` (Hadoop's names) that the server offers is used.
        """
        import gssapi

        self._server = server
        self._protections = tuple(protections)
        self.layer = MessageLayer()
        try:
            credentials = None if user is None else _credentials_of(user)
            self._context: Any = gssapi.SecurityContext(
                name=_name_of(server),
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=[gssapi.RequirementFlag.mutual_authentication, *_layer_flags()],
            )
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, server) from error

    def step(self, challenge: bytes | None = None) -> bytes:
        """The answer to the server's challenge (None: the first token). Raises KerberosError."""
        import gssapi

        try:
            if self._context.complete:
                return self._choose(self._context.unwrap(challenge or b"").message)
            return self._context.step(challenge or None) or b""
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, self._server) from error

    def _choose(self, offer: bytes) -> bytes:
        if len(offer) != 4:
            raise KerberosError("the server's offer of protections is not 4 bytes", "its log says more")
        chosen = next((name for name in self._protections if offer[0] & PROTECTIONS[name]), None)
        if chosen is None:
            offered = ", ".join(name for name, bit in PROTECTIONS.items() if offer[0] & bit)
            raise KerberosError(
                f"the server offers the protection {offered or 'none'}, this client is set to "
                f"{', '.join(self._protections)}",
                "set hadoop.rpc.protection as the server has it, in core-site.xml or by --hiveconf",
            )
        self.layer = MessageLayer(self._context, chosen)
        answer = bytes([PROTECTIONS[chosen]]) + _LONGEST.to_bytes(3, "big")
        return bytes(self._context.wrap(answer, encrypt=False).message)


class KerberosServer:
    """The server's side of one login, with the key of `principal` in a keytab."""

    def __init__(self, keytab: str, principal: str, protections: Sequence[str] = tuple(PROTECTIONS)) -> None:
        """Raises KerberosError if the keytab has no key of the principal."""
        import gssapi

        self._protections = tuple(protections)
        self._is_offered = False
        self.user: str | None = None
        self.layer = MessageLayer()
        try:
            self._context: Any = gssapi.SecurityContext(creds=_accepting(keytab, principal), usage="accept")
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, principal) from error

    @property
    def is_complete(self) -> bool:
        """True once the client has chosen a protection; `user` and `layer` are then known."""
        return self.user is not None

    def step(self, response: bytes) -> bytes:
        """The next challenge. Raises KerberosError for a client without a right ticket."""
        import gssapi

        try:
            if self._is_offered:
                self._accept(bytes(self._context.unwrap(response).message))
                return b""
            if not self._context.complete:
                token = self._context.step(response) or b""
                # The client has to answer its last token before it is offered anything.
                if token or not self._context.complete:
                    return bytes(token)
            self._is_offered = True
            bits = sum(PROTECTIONS[name] for name in self._protections)
            offer = struct.pack(">I", bits << 24 | _LONGEST)
            return bytes(self._context.wrap(offer, encrypt=False).message)
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, "this server") from error

    def accept_token(self, token: bytes) -> tuple[str, bytes]:
        """The user of a login of one token, as HTTP has them, and the answer. Raises KerberosError."""
        import gssapi

        try:
            answer = self._context.step(token) or b""
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, "this server") from error
        if not self._context.complete:
            raise KerberosError("the login takes more than one token", "use Kerberos, not NTLM")
        return self._user(), bytes(answer)

    def _user(self) -> str:
        """The first part of the client's principal, as Hadoop's default rule has it: of this realm only."""
        name, _, realm = str(self._context.initiator_name).rpartition("@")
        own = str(self._context.target_name).rpartition("@")[2]
        if realm != own:
            raise KerberosError(
                f"{name}@{realm} is of another realm than this server ({own})", "log in to the server's realm"
            )
        user = name.partition("/")[0]
        if user in ("", "WELLKNOWN"):
            raise KerberosError(f"{name}@{realm} does not name a user", "log in as a user")
        return user

    def _accept(self, choice: bytes) -> None:
        chosen = next((name for name in self._protections if choice[:1] == bytes([PROTECTIONS[name]])), None)
        if len(choice) < 4 or chosen is None:
            raise KerberosError("the client chose a protection that was not offered", "set its saslQop")
        user = self._user()
        acting_as = choice[4:].decode(errors="replace")
        if acting_as.partition("@")[0] not in ("", user, str(self._context.initiator_name).partition("@")[0]):
            raise KerberosError(f"{user} asks to act as another user, {acting_as}", "connect as oneself")
        self.layer = MessageLayer(self._context, chosen)
        self.user = user


def server_principal(principal: str) -> str:
    """A server's principal with its own host name for `_HOST`."""
    return principal.replace("/_HOST", f"/{socket.getfqdn().lower()}")


@dataclass(frozen=True)
class MessageLayer:
    """What a login agreed on for the messages after it: nothing, signatures or encryption."""

    context: Any = None
    protection: str = "authentication"

    @property
    def changes_messages(self) -> bool:
        """False if messages travel as they are."""
        return self.protection != "authentication"

    def wrap(self, message: bytes) -> bytes:
        """A message as it is sent."""
        if not self.changes_messages:
            return message
        return bytes(self.context.wrap(message, encrypt=self.protection == "privacy").message)

    def unwrap(self, received: bytes) -> bytes:
        """A received message. Raises KerberosError if it was changed on its way, or is not encrypted."""
        if not self.changes_messages:
            return received
        import gssapi

        try:
            unwrapped = self.context.unwrap(received)
        except gssapi.exceptions.GSSError as error:
            raise _failure(error, "the other side") from error
        if self.protection == "privacy" and not unwrapped.encrypted:
            raise KerberosError("a message came unencrypted", "the other side breaks the agreed protection")
        return bytes(unwrapped.message)


def _layer_flags() -> list[Any]:
    from gssapi import RequirementFlag

    return [
        RequirementFlag.integrity,
        RequirementFlag.confidentiality,
        RequirementFlag.replay_detection,
        RequirementFlag.out_of_sequence_detection,
    ]


def _name_of(principal: str) -> Any:
    import gssapi

    is_full = "/" in principal
    kind = gssapi.NameType.kerberos_principal if is_full else gssapi.NameType.hostbased_service
    return gssapi.Name(principal, kind)


def _credentials_of(user: str) -> Any:
    import gssapi

    return gssapi.Credentials(name=gssapi.Name(user, gssapi.NameType.kerberos_principal), usage="initiate")


def _accepting(keytab: str, principal: str) -> Any:
    import gssapi

    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(name=name, usage="accept", store={"keytab": f"FILE:{keytab}"})


def _failure(error: Any, server: str) -> KerberosError:
    """A GSSAPI error in its own words, with what to do."""
    import gssapi

    text = " ".join(str(error.get_all_statuses(error.min_code, False)[0]).split()) if error.min_code else ""
    if isinstance(error, gssapi.exceptions.SupplementaryError):
        return KerberosError("messages are missing, repeated or out of order", "connect again")
    major = " ".join(str(error.get_all_statuses(error.maj_code, True)[0]).split())
    code = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
    hint = _HINTS.get(code)
    if "find client principal" in text:
        hint = "there is no ticket or key of this user: `klist` and `klist -k` list them"
    elif "key table" in text.lower():
        hint = "give a keytab that has a key of this principal: `klist -k FILE` lists them"
    elif hint is None and "o credentials" in major.lower() + text.lower():
        hint = _NO_TICKET
    return KerberosError(text or major, hint or f"Kerberos refused the login to {server}: {major}")
