"""`hudisql serve`: HiveServer2's protocol for beeline, JDBC, ODBC and Python clients.

The first SIGTERM or Control-C lets running statements end and takes no new ones; the second one ends the
process at once.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudisql.cli.command_end import stoppable_session
from hudisql.config.settings import Settings, parse_key_values
from hudisql.console import open_console
from hudisql.errors import InvalidArgumentError, SettingsError

if TYPE_CHECKING:
    import ssl

    from hudisql.server.ldap_server import DirectoryGroups, LdapServer
    from hudisql.server.rights.rights_file import RightsFile
    from hudisql.server.thrift_limits import ServerLimits
    from hudisql.server.users import UserChecks


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", help="Port to listen on; 0: any.", min=0, max=0xFFFF),
    ] = 10000,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Users with hashed passwords.")
    ] = None,
    ldap_url: Annotated[
        str | None,
        typer.Option("--ldap-url", metavar="URL", help="Users of an LDAP server, ldaps://…"),
    ] = None,
    ldap_user_dn: Annotated[
        str | None,
        typer.Option("--ldap-user-dn", metavar="DN", help="DN pattern of its users, with {user} in it."),
    ] = None,
    ldap_group_dn: Annotated[
        str | None,
        typer.Option("--ldap-group-dn", metavar="DN", help="DN pattern of the groups that --rights names."),
    ] = None,
    ldap_group_key: Annotated[
        str,
        typer.Option(
            "--ldap-group-key",
            metavar="NAME",
            help="Attribute with the members of a group, or memberOf: of a user with the groups.",
        ),
    ] = "member",
    ldap_groups_only: Annotated[
        bool, typer.Option("--ldap-groups-only", help="Take no passwords of the LDAP server, only groups.")
    ] = False,
    ldap_bind_dn: Annotated[
        str | None,
        typer.Option("--ldap-bind-dn", metavar="DN", help="Who reads the groups; default: nobody."),
    ] = None,
    ldap_bind_password: Annotated[
        Path | None,
        typer.Option("--ldap-bind-password-file", metavar="FILE", help="The password of --ldap-bind-dn."),
    ] = None,
    keytab: Annotated[
        Path | None,
        typer.Option("--keytab", metavar="FILE", help="Users log in by Kerberos: the server's key."),
    ] = None,
    principal: Annotated[
        str | None,
        typer.Option("--principal", metavar="NAME", help="The server's principal, hive/_HOST@REALM."),
    ] = None,
    rights: Annotated[
        Path | None, typer.Option("--rights", metavar="FILE", help="Rights of the users on tables.")
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option("--tls-certificate", metavar="FILE", help="Certificate chain (PEM); then TLS only."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="FILE", help="Private key, if not in the certificate's file."),
    ] = None,
    most_sessions: Annotated[
        int, typer.Option("--max-sessions", metavar="N", help="Sessions at the same time.", min=1)
    ] = 100,
    idle: Annotated[
        float,
        typer.Option("--idle-timeout", metavar="SECONDS", help="Unused sessions end after this time.", min=0),
    ] = 3600.0,
    statement: Annotated[
        float,
        typer.Option(
            "--statement-timeout", metavar="SECONDS", help="Time limit of a statement; 0: none.", min=0
        ),
    ] = 0.0,
    result: Annotated[
        int, typer.Option("--max-result-bytes", metavar="N", help="Size limit of a result; 0: none.", min=0)
    ] = 0,
    drain: Annotated[
        float,
        typer.Option(
            "--drain-timeout", metavar="SECONDS", help="How long SIGTERM waits for statements.", min=0
        ),
    ] = 600.0,
    new_user: Annotated[
        str | None,
        typer.Option(
            "--new-user", metavar="NAME", help="Ask for a password, print the line for --users, exit."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="K=V", help="A Spark setting, or a hoodie.* setting."),
    ] = None,
) -> None:
    """Serve SQL to beeline, JDBC, ODBC and Python clients (HiveServer2's protocol)."""
    if new_user is not None:
        _print_user(new_user)
        return
    from hudisql.server.thrift_limits import ServerLimits

    limits = ServerLimits(
        sessions=most_sessions,
        connections=2 * most_sessions,
        idle_seconds=idle,
        statement_seconds=statement,
        result_bytes=result,
        drain_seconds=drain,
    )
    if users is not None and ldap_url is not None and not ldap_groups_only:
        raise SettingsError(
            "give --users or --ldap-url, not both", hint="with --ldap-groups-only its users may have groups"
        )
    directory = _directory(ldap_url, ldap_user_dn)
    login = (ldap_bind_dn, ldap_bind_password)
    groups = _directory_groups(directory, ldap_group_dn, ldap_group_key, login)
    if ldap_groups_only and groups is None:
        raise SettingsError("--ldap-groups-only needs --ldap-group-dn")
    passwords = _password_checks(users, None if ldap_groups_only else directory)
    checks = _with_kerberos(passwords, keytab, principal)
    granted = _rights(rights, checks, groups)
    tls = _tls_context(tls_certificate, tls_key)
    settings: Settings = context.obj
    settings = settings.with_layer({"conf": parse_key_values(conf or [], "--conf")}, "command line")
    raise typer.Exit(_run(settings, host, port, limits, checks, granted, tls))


def _run(
    settings: Settings,
    host: str,
    port: int,
    limits: ServerLimits,
    users: UserChecks | None,
    rights: RightsFile | None,
    tls: ssl.SSLContext | None,
) -> int:
    from hudisql.cli.batch import EXIT_FAILED, EXIT_OK
    from hudisql.server.thrift_server import ThriftServer, listen_on

    # Spark takes time to start: clients may connect before that, and wait.
    listener = listen_on(host, port, has_users=users is not None)
    console = open_console()
    if users is not None and users.password is not None and tls is None:
        console.warning("passwords are sent unencrypted: give --tls-certificate")
    with listener, stoppable_session(settings, console) as (session, stop):
        session.context.start()
        if stop.is_set():
            return EXIT_OK
        server = ThriftServer(session, listener, limits, console, users=users, rights=rights, tls=tls)
        console.info(f"hudisql serves on {server.host}:{server.port}")
        stop.wait()
        drained = server.drain(limits.drain_seconds)
        if not drained:
            console.warning("the drain time is over; cancelling the statements that are still running")
        server.close()
    return EXIT_OK if drained else EXIT_FAILED


def _directory(url: str | None, user_dn: str | None) -> LdapServer | None:
    from hudisql.server.ldap_server import LdapServer

    return None if url is None else LdapServer(url, user_dn or "")


def _directory_groups(
    directory: LdapServer | None, group_dn: str | None, key: str, login: tuple[str | None, Path | None]
) -> DirectoryGroups | None:
    from hudisql.server.ldap_server import DirectoryGroups, DirectoryLogin

    name, password_file = login
    if (name is None) is not (password_file is None):
        raise SettingsError("a login to the LDAP server needs --ldap-bind-dn and --ldap-bind-password-file")
    if group_dn is None:
        if name is not None:
            raise SettingsError("--ldap-bind-dn reads groups, and --ldap-group-dn names none")
        return None
    if directory is None:
        raise SettingsError("--ldap-group-dn needs --ldap-url and --ldap-user-dn")
    bound = DirectoryLogin(name, password_file) if name is not None and password_file is not None else None
    return DirectoryGroups(directory, group_dn, key, bound)


def _password_checks(users: Path | None, directory: LdapServer | None) -> UserChecks | None:
    from hudisql.server.users import PasswordFile, RememberedUsers, UserChecks

    if users is None:
        return None if directory is None else UserChecks(RememberedUsers(directory.check).check)
    file = PasswordFile(users)
    return UserChecks(RememberedUsers(file.check, file.version).check, file.check_known)


def _with_kerberos(users: UserChecks | None, keytab: Path | None, principal: str | None) -> UserChecks | None:
    if keytab is None and principal is None:
        return users
    if keytab is None or principal is None:
        raise SettingsError("users by Kerberos need both --keytab and --principal")
    from hudisql.kerberos import KerberosError, KerberosServer, check_kerberos_package, server_principal
    from hudisql.server.users import UserChecks

    check_kerberos_package()
    name = server_principal(principal)
    try:
        KerberosServer(str(keytab), name)
    except KerberosError as error:
        raise SettingsError(f"cannot serve as {name} with {keytab}: {error}", hint=error.hint) from error
    return replace(users or UserChecks(), kerberos=lambda: KerberosServer(str(keytab), name))


def _rights(path: Path | None, users: UserChecks | None, groups: DirectoryGroups | None) -> RightsFile | None:
    from hudisql.server.rights.rights_file import RightsFile

    if path is None:
        if groups is not None:
            raise SettingsError("--ldap-group-dn is for the groups that --rights names, which is not given")
        return None
    if users is None:
        raise SettingsError(
            "--rights needs users: without them a client takes any name",
            hint="give --users, --ldap-url or --keytab",
        )
    return RightsFile(path, None if groups is None else groups.groups_of)


def _tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    import ssl

    if certificate is None:
        if key is not None:
            raise SettingsError("--tls-key needs --tls-certificate")
        return None
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(certificate, key)
    except OSError as error:
        raise SettingsError(f"cannot use the certificate {certificate}: {error}") from error
    return made


def _print_user(name: str) -> None:
    from hudisql.server.users import hash_password

    if not name.strip() or ":" in name:
        raise InvalidArgumentError(f"{name!r} is not a valid user name: it is empty or has a colon")
    if sys.stdin.isatty():
        from getpass import getpass

        password = getpass(f"password of {name}: ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise InvalidArgumentError("the password is empty")
    print(f"{name}:{hash_password(password)}")
