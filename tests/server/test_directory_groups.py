"""Groups of a real LDAP directory as groups of the rights file, and ways to get into one of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from hudisql.errors import AuthenticationError, RightMissingError, SettingsError
from hudisql.server.ldap_server import DirectoryGroups, DirectoryLogin, LdapServer, escape_name
from hudisql.server.rights.rights_file import Right, RightsFile
from tests.server.ldap_directory import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    READER,
    LdapDirectory,
    missing_for_ldap,
    start_directory,
)

# ldap3 uses names of pyasn1 that have new ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")
of_slapd = pytest.mark.skipif(missing_for_ldap() is not None, reason=missing_for_ldap() or "")
ODD = ("ada,x", "a\\2cb", "a,b", "#sharp", "ä ö", "plus+uid=ada", "(paren*)", "root", "spy")
IN_ANALYSTS = ("ada", "a,b", "#sharp", "ä ö")
USER_DN, GROUP_DN = f"uid={{user}},{PEOPLE}", f"cn={{group}},{GROUPS}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LdapDirectory]:
    """A directory of two groups; their names are in others' groups, too."""
    started = start_directory(
        tmp_path_factory.mktemp("directory"),
        ("ada", "bo", "eve", *ODD),
        {"analysts": IN_ANALYSTS, "admins": ("root",), "ada": ("eve",)},
    )
    yield started
    started.close()


Ask = Callable[..., DirectoryGroups]


@pytest.fixture
def groups(directory: LdapDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Reads the groups of the directory, of `member` by default."""
    monkeypatch.setenv("SSL_CERT_FILE", str(directory.certificate))
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    login = DirectoryLogin(READER, tmp_path / "password")

    def make(attribute: str = "member", *, login: DirectoryLogin | None = login, seconds: float = 300.0):
        server = LdapServer(directory.url, USER_DN)
        return DirectoryGroups(server, GROUP_DN, attribute, login, seconds)

    return make


@pytest.fixture
def collected() -> Iterator[None]:
    """Sockets of failed connections are gone after the test."""
    yield
    gc.collect()


@of_slapd
@pytest.mark.parametrize(("attribute", "group"), [("member", "analysts"), ("memberOf", "analysts")])
def test_a_user_is_in_the_groups_that_the_directory_has(groups: Ask, attribute: str, group: str) -> None:
    reader = groups(attribute)
    in_group = [user for user in ("ada", "bo", "eve", *ODD) if reader.groups_of(user, [group])]
    assert in_group == list(IN_ANALYSTS)
    assert reader.groups_of("root", ["analysts", "admins", "absent"]) == {"admins"}


@of_slapd
def test_groups_of_names_are_compared_by_name(groups: Ask) -> None:
    reader = groups("memberUid")
    in_group = [user for user in ("ada", "bo", "eve", *ODD) if reader.groups_of(user, ["analysts-posix"])]
    assert in_group == ["ada", "a,b", "#sharp"]


@of_slapd
@pytest.mark.parametrize("attribute", ["member", "memberOf", "memberUid"])
@pytest.mark.parametrize(
    "user",
    [
        "",
        "*",
        "absent",
        "ad*",
        "ada)(|(uid=*",
        "*)(objectClass=*",
        "ada\x00",
        "\x00ada",
        "ADA",
        " ada",
        "ada ",
        "a,  b",
        "ada\u200b",
        f"ada,{PEOPLE}",
        f"uid=ada,{PEOPLE}",
        "ada+sn=x",
        "x+uid=ada",
        "a\\2cb",
        "\\61da",
        "\\23sharp",
        "#616461",
        "ada;lang-de",
        "ada\nmember: x",
        "a" * 100_000,
        "ada\ud800",
        f"ada,{PEOPLE}??sub?(objectClass=*)",
        "@analysts",
        "ldap:analysts",
    ],
)
def test_no_name_gets_into_a_group_of_another_user(groups: Ask, attribute: str, user: str) -> None:
    assert groups(attribute).groups_of(user, ["analysts", "admins", "analysts-posix"]) == frozenset()


@of_slapd
@pytest.mark.parametrize(
    "group", ["*", f"analysts,{GROUPS}", "analysts)(cn=*", "x+cn=analysts", "\\61nalysts", "analysts\x00"]
)
def test_no_name_of_a_group_stands_for_another_one(groups: Ask, group: str) -> None:
    assert groups().groups_of("ada", [group]) == frozenset()


@of_slapd
def test_a_log_in_takes_no_other_name(groups: Ask, directory: LdapDirectory) -> None:
    assert groups()
    server = LdapServer(directory.url, USER_DN)
    for user in ("ada", "a,b", "a\\2cb", "#sharp", "ä ö", "plus+uid=ada"):
        server.check(user, PASSWORD)
    for user in ("a" * 100_000, "ada\ud800"):
        with pytest.raises(AuthenticationError, match="no user has a name"):
            server.check(user, PASSWORD)
    for user in ("\\61da", f"ada,{PEOPLE}", "x+uid=ada", "*", "#616461", "ada\x00"):
        with pytest.raises(AuthenticationError, match="no user"):
            server.check(user, PASSWORD)


def rights_in(tmp_path: Path, text: str, reader: DirectoryGroups | None) -> RightsFile:
    (tmp_path / "rights").write_text(text)
    return RightsFile(tmp_path / "rights", None if reader is None else reader.groups_of)


RIGHTS = """
boss: admin *
@analysts = ldap:analysts, cy
@analysts: reader sales.*
@admins = ldap:admins
@admins: admin *
hue: proxy *
jump: proxy @analysts
*: reader public.*
"""


@of_slapd
def test_groups_of_the_directory_have_rights_and_are_acted_for(groups: Ask, tmp_path: Path) -> None:
    file = rights_in(tmp_path, RIGHTS, groups())
    readers = [
        user for user in ("ada", "bo", "cy", "a\\2cb") if file.rights_of(user).has(Right.READER, "sales", "x")
    ]
    assert readers == ["ada", "cy"]
    assert file.rights_of("root").is_admin
    assert not file.rights_of("ada").is_admin
    assert not file.rights_of("@admins").is_admin
    assert not file.rights_of("ldap:admins").is_admin
    file.require_proxy("jump", "ada")
    file.require_proxy("hue", "bo")
    for user, other in (("hue", "root"), ("hue", "boss"), ("jump", "bo"), ("ada", "cy")):
        with pytest.raises(RightMissingError, match=f"user '{user}' may not act as '{other}'"):
            file.require_proxy(user, other)


@of_slapd
@pytest.mark.usefixtures("collected")
def test_a_directory_that_does_not_say_is_a_refusal(groups: Ask, tmp_path: Path) -> None:
    """Also of `proxy *`, since it is not known who is an admin."""
    without_login = rights_in(tmp_path, RIGHTS, groups(login=None))
    (tmp_path / "wrong").write_text("wrong\n")
    wrong = rights_in(tmp_path, RIGHTS, groups(login=DirectoryLogin(READER, tmp_path / "wrong")))
    absent = DirectoryGroups(LdapServer("ldaps://localhost:1", USER_DN), GROUP_DN)
    for file in (wrong, rights_in(tmp_path, RIGHTS, absent)):
        for user in ("ada", "root", "cy"):
            with pytest.raises(RightMissingError, match="cannot read the groups of users: the LDAP server"):
                file.rights_of(user)
        with pytest.raises(RightMissingError, match="cannot read the groups"):
            file.require_proxy("hue", "root")
        assert file.rights_of("boss").is_admin
    # This directory shows its groups to the reader alone.
    assert not without_login.rights_of("root").is_admin
    (tmp_path / "wrong").unlink()
    with pytest.raises(RightMissingError, match="cannot read the password"):
        wrong.rights_of("ada")


@of_slapd
@pytest.mark.usefixtures("collected")
def test_an_untrusted_directory_is_asked_for_nothing(groups: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = groups()
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(RightMissingError, match="does not answer"):
        reader.groups_of("ada", ["analysts"])


@of_slapd
@pytest.mark.usefixtures("collected")
def test_an_answer_is_remembered_for_its_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = start_directory(tmp_path / "d", ["ada"], {"analysts": ["ada"]})
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(directory.certificate))
        (tmp_path / "password").write_text(PASSWORD)
        login = DirectoryLogin(READER, tmp_path / "password")
        server = LdapServer(directory.url, USER_DN)
        reader, forgetful = (
            DirectoryGroups(server, GROUP_DN, login=login, seconds=seconds) for seconds in (300.0, 0.05)
        )
        for each in (reader, forgetful):
            assert each.groups_of("ada", ["analysts"]) == {"analysts"}
            assert each.groups_of("bo", ["analysts"]) == frozenset()
    finally:
        directory.close()
    time.sleep(0.1)
    assert reader.groups_of("ada", ["analysts"]) == {"analysts"}
    for user, group in (("ada", "others"), ("cy", "analysts")):
        with pytest.raises(RightMissingError, match="does not answer"):
            reader.groups_of(user, [group])
    with pytest.raises(RightMissingError, match="does not answer"):
        forgetful.groups_of("ada", ["analysts"])


def test_every_special_letter_of_a_name_is_escaped() -> None:
    assert escape_name("ada.b_c-d@x9") == "ada.b_c-d@x9"
    assert escape_name(' #a,b=\\"\x00ä') == "\\20\\23a\\2cb\\3d\\5c\\22\\00ä"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("@a = ldap:x", "ldap:x is a group of a directory, and none is given")],
)
def test_a_group_of_no_directory_is_an_error(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=f"rights, line 1: {complaint}"):
        rights_in(tmp_path, line, None)


def test_a_directory_s_group_without_a_name_is_an_error(tmp_path: Path) -> None:
    reader = DirectoryGroups(LdapServer("ldaps://localhost:1", USER_DN), GROUP_DN)
    with pytest.raises(SettingsError, match="rights, line 1: ldap: names no group"):
        rights_in(tmp_path, "@a = ldap:, ada", reader)


BASE = ["serve", "--rights", "x", "--ldap-url", "ldaps://x", "--ldap-user-dn", "uid={user},dc=x"]
BIND_PASSWORD = ("--ldap-bind-password-file", "/no")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([*BASE, "--ldap-group-dn", "cn=x"], "the same for all groups"),
        ([*BASE, "--ldap-group-dn", "cn={group}", "--ldap-group-key", "a)(b"], "is not an attribute"),
        ([*BASE, "--ldap-bind-dn", "cn=x"], "needs --ldap-bind-dn and --ldap-bind-password-file"),
        (
            [*BASE, "--ldap-bind-dn", "cn=x", *BIND_PASSWORD],
            "reads groups, and --ldap-group-dn names none",
        ),
        (
            [
                *BASE,
                "--ldap-group-dn",
                "cn={group}",
                "--ldap-bind-dn",
                "x",
                "--ldap-bind-password-file",
                "/no",
            ],
            "cannot read the password in /no",
        ),
        ([*BASE[:-1], "{user}@x", "--ldap-group-dn", "cn={group}"], "groups need the entries of users"),
        (["serve", "--ldap-group-dn", "cn={group}"], "--ldap-group-dn needs --ldap-url"),
        ([*BASE[:1], *BASE[3:], "--ldap-group-dn", "cn={group}"], "for the groups that --rights names"),
        ([*BASE, "--ldap-groups-only"], "--ldap-groups-only needs --ldap-group-dn"),
        ([*BASE, "--ldap-groups-only", "--ldap-group-dn", "cn={group}"], "--rights needs users"),
    ],
)
def test_bad_usage_is_one_error_before_anything_starts(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert complaint in done.stderr
