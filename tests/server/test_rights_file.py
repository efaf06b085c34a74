"""Declarations of rights: what a file may say, and what it grants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudisql.cli.main import app
from hudisql.errors import RightMissingError, SettingsError
from hudisql.server.rights.rights_file import Right, RightsFile


def rights_in(tmp_path: Path, text: str) -> RightsFile:
    (tmp_path / "rights").write_text(text)
    return RightsFile(tmp_path / "rights")


def test_rights_on_all_tables_on_a_database_and_on_a_table(tmp_path: Path) -> None:
    file = rights_in(
        tmp_path,
        "# who may what\nada: admin *\n\nbo: writer sales.*, reader HR.People\n"
        "bo: reader logs.*\ncy: reader *\n",
    )
    assert file.rights_of("ada").is_admin
    bo = file.rights_of("bo")
    assert not bo.is_admin
    assert bo.has(Right.WRITER, "sales", "orders")
    assert bo.has(Right.WRITER, "sales")
    assert bo.has(Right.READER, "hr", "people")
    assert not bo.has(Right.WRITER, "hr", "people")
    assert not bo.has(Right.READER, "hr", "pay")
    assert not bo.has(Right.READER, "hr")
    assert bo.has(Right.READER, "logs", "x")
    assert not bo.has(Right.WRITER, "logs", "x")
    assert [name for name in ("sales", "hr", "logs", "other", "default") if bo.sees_database(name)] == [
        *("sales", "hr", "logs", "default")
    ]
    assert file.rights_of("cy").has(Right.READER, "any", "thing")
    assert not file.rights_of("dee").has(Right.READER, "sales", "orders")


def test_the_rights_of_everybody_come_beside_ones_own(tmp_path: Path) -> None:
    file = rights_in(tmp_path, "*: reader public.*\nada: writer sales.*\n")
    assert file.rights_of("ada").has(Right.READER, "public", "x")
    assert file.rights_of("nobody").has(Right.READER, "public", "x")
    assert not file.rights_of("nobody").has(Right.READER, "sales", "x")


def test_groups_have_rights(tmp_path: Path) -> None:
    file = rights_in(tmp_path, "@analysts = ada, bo\n@analysts: reader sales.*\nada: writer sales.orders\n")
    assert file.rights_of("ada").has(Right.WRITER, "sales", "orders")
    assert file.rights_of("ada").has(Right.READER, "sales", "items")
    assert file.rights_of("bo").has(Right.READER, "sales", "items")
    assert not file.rights_of("@analysts").has(Right.READER, "other", "x")
    assert not file.rights_of("cy").has(Right.READER, "sales", "items")


def test_who_may_act_as_whom(tmp_path: Path) -> None:
    file = rights_in(
        tmp_path,
        "root: admin *\n@ops = op, root\n@ops: reader logs.*\n@gates = knox\n"
        "hue: proxy *, reader public.*\n@gates: proxy ada, proxy bo\njump: Proxy @ops\n",
    )
    allowed = {
        (user, other)
        for user in ("hue", "knox", "jump", "ada")
        for other in ("ada", "bo", "op", "root", "*", "@ops")
        if may_act_as(file, user, other)
    }
    assert allowed == {
        *(("hue", other) for other in ("ada", "bo", "op", "*", "@ops")),
        *(("knox", "ada"), ("knox", "bo"), ("jump", "op"), ("jump", "root")),
    }
    with pytest.raises(RightMissingError, match="user 'ada' may not act as 'bo': the right 'proxy bo' is"):
        file.require_proxy("ada", "bo")
    # A user of that name has not the rights of the group.
    assert not file.rights_of("@ops").has(Right.READER, "logs", "x")
    assert file.rights_of("hue").has(Right.READER, "public", "x")


def may_act_as(file: RightsFile, user: str, other: str) -> bool:
    try:
        file.require_proxy(user, other)
    except RightMissingError:
        return False
    return True


def test_a_missing_right_is_named(tmp_path: Path) -> None:
    ada = rights_in(tmp_path, "ada: reader sales.*\n").rights_of("ada")
    with pytest.raises(RightMissingError) as caught:
        ada.require(Right.WRITER, "sales", "orders")
    assert caught.value.message == (
        "user 'ada' may not write sales.orders: the right 'writer' on sales.orders is missing"
    )


def test_a_changed_file_counts_at_once_and_a_broken_one_grants_nothing(tmp_path: Path) -> None:
    file = rights_in(tmp_path, "ada: admin *\n")
    (tmp_path / "rights").write_text("ada: reader sales.*\n")
    os.utime(tmp_path / "rights", ns=(1, 1))
    assert not file.rights_of("ada").is_admin
    (tmp_path / "rights").write_text("ada: everything\n")
    os.utime(tmp_path / "rights", ns=(2, 2))
    with pytest.raises(RightMissingError, match=r"cannot read the rights of users: .*rights, line 1"):
        file.rights_of("ada")
    (tmp_path / "rights").unlink()
    with pytest.raises(RightMissingError, match="cannot read the rights"):
        file.rights_of("ada")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ada", "no user with rights"),
        ("@a = ", "a group has users"),
        ("@a = *", "a group has users, not groups"),
        ("@a = @b", "a group has users, not groups"),
        ("@a: reader *", "the group @a is not declared"),
        ("ada: proxy @a", "the group @a is not declared"),
        ("ada: proxy", "is not a right and its scope"),
        (": reader *", "no user with rights"),
        ("ada:", "no user with rights"),
        ("ada: reader", "'reader' is not a right and its scope"),
        ("ada: reader sales", "'reader sales' is not a right and its scope"),
        ("ada: reader *.orders", "'reader .*' is not a right and its scope"),
        ("ada: reader a.b.c", "is not a right and its scope"),
        ("ada: reader sales.*,", "'' is not a right and its scope"),
        ("ada: reader sal*", "is not a right and its scope"),
        ("ada: owner sales.*", "there is no right 'owner'"),
        ("ada: admin sales.*", "admin is for all tables"),
    ],
)
def test_a_line_that_grants_nothing_is_an_error_with_its_place(
    tmp_path: Path, line: str, complaint: str
) -> None:
    with pytest.raises(SettingsError, match=f"rights, line 2: .*{complaint}"):
        rights_in(tmp_path, f"\n{line}\n")


def test_a_group_is_declared_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="rights, line 2: the group @a is declared twice"):
        rights_in(tmp_path, "@a = ada\n@a = bo\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rights", "x"], "--rights needs users"),
        (["--rights", "x", "--users", "/no/such"], "cannot read the users"),
    ],
)
def test_bad_usage_is_one_error_before_anything_starts(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code == 2
    assert complaint in done.stderr
