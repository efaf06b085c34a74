"""How the client logs in to a metastore: nobody asks, a user and a password, or Kerberos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.config.settings import Settings
from hudisql.errors import SettingsError
from hudisql.kerberos import (
    PROTECTIONS,
    KerberosClient,
    KerberosError,
    ServicePrincipal,
    check_kerberos_package,
    parse_principal,
)
from hudisql.storage.hadoop_files import hadoop_settings

if TYPE_CHECKING:
    from hudisql.catalog.sasl_transport import Mechanism


_HIVE: Final = ServicePrincipal("hive")


@dataclass(frozen=True)
class MetastoreSecurity:
    """How to log in: `mechanism` NONE, PLAIN (`user`, `password`) or GSSAPI (Kerberos).

    For GSSAPI `server` is the metastore's principal, `user` the own one (None: that of the ticket), and the
    first of `protections` (Hadoop's names) that the server offers is used.
    """

    mechanism: str = "NONE"
    user: str | None = None
    password: str | None = None
    server: ServicePrincipal = _HIVE
    protections: tuple[str, ...] = tuple(PROTECTIONS)

    def __repr__(self) -> str:
        return f"MetastoreSecurity({self.mechanism}, server={self.server!r}, user={self.user!r})"


def kerberos_security(principal: str = "", user: str = "", protection: str = "") -> MetastoreSecurity:
    """Kerberos login to a metastore of this principal (`service/host@REALM`; `_HOST` or no host: the URI's).

    `protection` is `hadoop.rpc.protection`: names by preference, empty: what the server offers, the cheapest
    first. Raises SettingsError if the text is not a principal or no protection.
    """
    names = tuple(name.strip().lower() for name in protection.split(",") if name.strip())
    unknown = [name for name in names if name not in PROTECTIONS]
    if unknown:
        raise SettingsError(
            f"hadoop.rpc.protection: there is no protection {unknown[0]!r}",
            hint=f"write {', '.join(PROTECTIONS)}",
        )
    server = parse_principal(principal)
    return MetastoreSecurity("GSSAPI", user or None, None, server, names or tuple(PROTECTIONS))


def metastore_security(settings: Settings, user: str = "") -> MetastoreSecurity:
    """The login that the settings ask for; `user` is named to a metastore without Kerberos.

    Raises SettingsError for a bad principal or `hadoop.rpc.protection`.
    """
    if not settings.metastore_sasl:
        return MetastoreSecurity(user=user or None)
    protection = hadoop_settings(settings.conf, settings.hiveconf).get("hadoop.rpc.protection", "")
    return kerberos_security(settings.metastore_principal, settings.kerberos_principal, protection)


def open_mechanism(host: str, security: MetastoreSecurity) -> Mechanism:
    """The client's side of a login to the metastore on this host. Raises KerberosError."""
    from hudisql.catalog.sasl_transport import PlainMechanism

    if security.mechanism == "PLAIN":
        return PlainMechanism(security.user or "", security.password or "")
    server = security.server.name_on(host)
    return KerberosClient(server, user=security.user, protections=security.protections)


def hint_of_failure(error: Exception, security: MetastoreSecurity) -> str:
    """What to do about a connection that could not be opened."""
    from thrift.transport.TTransport import TTransportException

    from hudisql.catalog.sasl_transport import RefusedLoginError

    if isinstance(error, KerberosError):
        return error.hint
    if isinstance(error, RefusedLoginError):
        if security.mechanism == "GSSAPI":
            return (
                "metastore_principal must be the server's own (hive.metastore.kerberos.principal in "
                "its hive-site.xml), with its host name; the server's log says more"
            )
        return "the server's log says why"
    kind = TTransportException.END_OF_FILE if isinstance(error, EOFError) else getattr(error, "type", None)
    is_silent = kind == TTransportException.TIMED_OUT and security.mechanism != "NONE"
    # Hive 3 answers by a status of SASL, which reads as the length of a message.
    if kind in (TTransportException.END_OF_FILE, TTransportException.SIZE_LIMIT) or is_silent:
        if security.mechanism == "NONE":
            return (
                "the server takes connections and ends them: if it asks for Kerberos, set metastore_sasl "
                "(HUDISQL_METASTORE_SASL=true); else its log says why"
            )
        return (
            "the server does not go on with the login: if it does not use Kerberos, unset metastore_sasl; "
            "else its log says why"
        )
    return "check the address given with --metastore, and that the server runs and is reachable"


def check_security(security: MetastoreSecurity) -> None:
    """Refuse a login that cannot work, naming what is missing."""
    if security.mechanism not in ("NONE", "PLAIN", "GSSAPI"):
        raise SettingsError(
            f"unknown metastore authentication {security.mechanism!r}", hint="use NONE, PLAIN or GSSAPI"
        )
    if security.mechanism == "GSSAPI":
        check_kerberos_package()
    elif security.mechanism == "PLAIN" and not security.user:
        raise SettingsError("PLAIN authentication needs a user name")
