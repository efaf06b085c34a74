"""Rights that grants of a real Hive Metastore give, and attempts to get more of them than were granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from pyhive import hive
from pyhive.exc import OperationalError

from hudisql.catalog.client import MetastoreClient
from hudisql.console import SilentConsole
from hudisql.errors import RightMissingError
from hudisql.server.rights.metastore_grants import with_metastore_grants
from hudisql.server.rights.rights_file import Right, RightsFile, UserRights
from hudisql.server.thrift_limits import ServerLimits
from hudisql.server.thrift_server import ThriftServer, listen_on
from hudisql.server.users import UserChecks
from tests.hive.server import HiveServer

pytestmark = [pytest.mark.spark, pytest.mark.hms]
USER, ROLE, GROUP = (ttypes.PrincipalType._NAMES_TO_VALUES[name] for name in ("USER", "ROLE", "GROUP"))
CHANGES = ("INSERT", "UPDATE", "DELETE")
RIGHTS = "*: grants granted.*\nbo: grants other.t\nroot: admin *\ngate: proxy *\n"


@pytest.fixture(scope="module")
def metastore(session: Any) -> Iterator[MetastoreClient]:
    """Tables and roles, and who is granted what on them."""
    client = session.context.metastore
    for database in ("granted", "other"):
        session.sql(f"CREATE DATABASE {database}")
    for table in ("granted.t", "granted.v", "other.t"):
        session.sql(f"CREATE TABLE {table} (id INT, name STRING) USING parquet")
    session.sql("CREATE TABLE granted.u (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    session.sql("INSERT INTO granted.t VALUES (1, 'xyzzy')")
    session.sql("INSERT INTO granted.u VALUES (1, 'xyzzy')")
    for role in ("analysts", "seniors"):
        call(client, "create_role", ttypes.Role(role, 0, "root"))
    grant_role(client, "analysts", "ada", USER)
    grant_role(client, "seniors", "eve", USER)
    grant_role(client, "analysts", "seniors", ROLE)
    grant_role(client, "admin", "mallory", USER)
    grant(client, "SELECT", "granted", "t", "analysts", ROLE)
    for privilege in ("SELECT", *CHANGES):
        grant(client, privilege, "granted", "u", "ada", USER)
    for privilege in CHANGES:
        grant(client, privilege, "granted", "t", "dee", USER)
    for database in ("granted", "other"):
        grant(client, "ALL", database, "t", "bo", USER)
    grant(client, "SELECT", "granted", "v", "public", ROLE)
    grant(client, "SELECT", "granted", "t", "staff", GROUP)
    grant(client, "SELECT", "granted", "t", "cy", USER, "id")
    grant(client, "SELECT", "granted", None, "fay", USER)
    grant(client, "ALL", None, None, "gus", USER)
    yield client
    for role in ("analysts", "seniors"):
        call(client, "drop_role", role)
    call(client, "revoke_role", "admin", "mallory", USER)
    for database in ("granted", "other"):
        session.sql(f"DROP DATABASE {database} CASCADE")


def call(client: MetastoreClient, method: str, *arguments: Any) -> Any:
    return client._connection.call(lambda thrift: getattr(thrift, method)(*arguments))


def grant_role(client: MetastoreClient, role: str, principal: str, kind: int) -> None:
    assert call(client, "grant_role", role, principal, kind, "root", USER, False)


def bag(
    privilege: str,
    database: str | None,
    table: str | None,
    principal: str,
    kind: int,
    column: str | None = None,
) -> Any:
    types = ttypes.HiveObjectType
    chosen = (types.GLOBAL if database is None else types.DATABASE) if table is None else types.TABLE
    granted = ttypes.HiveObjectRef(types.COLUMN if column else chosen, database, table, None, column)
    info = ttypes.PrivilegeGrantInfo(privilege, 1, "root", USER, False)
    return ttypes.PrivilegeBag([ttypes.HiveObjectPrivilege(granted, principal, kind, info)])


def grant(client: MetastoreClient, *named: Any) -> None:
    assert call(client, "grant_privileges", bag(*named))


def rights_of(metastore: MetastoreClient, directory: Path, user: str, text: str = RIGHTS) -> UserRights:
    (directory / "rights").write_text(text)
    return with_metastore_grants(RightsFile(directory / "rights").rights_of(user), metastore)


READS_V = [("granted", "v", Right.READER)]


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("ada", [("granted", "t", Right.READER), ("granted", "u", Right.EDITOR), *READS_V]),
        ("eve", [("granted", "t", Right.READER), *READS_V]),
        ("bo", [("granted", "t", Right.EDITOR), *READS_V, ("other", "t", Right.EDITOR)]),
        ("fay", [("granted", name, Right.READER) for name in ("t", "u", "v")]),
        ("gus", [("granted", name, Right.EDITOR) for name in ("t", "u", "v")]),
        # A role that needs SET ROLE, a group, a column, a part of what writing needs, other cases and names.
        *((user, READS_V) for user in ("mallory", "staff", "cy", "dee", "ADA", "ada ", "analysts", "public")),
        *(
            (user, READS_V)
            for user in ("", "*", "%", "ada' OR '1'='1", "ada\0", "@analysts", "ldap:analysts")
        ),
    ],
)
def test_the_grants_of_a_user_and_of_its_roles_count(
    metastore: MetastoreClient, tmp_path: Path, user: str, expected: list[tuple[str, str, Right]]
) -> None:
    rights = rights_of(metastore, tmp_path, user)
    found = []
    for database, table in (("granted", "t"), ("granted", "u"), ("granted", "v"), ("other", "t")):
        highest = [right for right in Right if rights.has(right, database, table)]
        found += [(database, table, highest[-1])] if highest else []
    assert found == expected
    assert not rights.is_admin
    assert not rights.has(Right.WRITER, "granted")


def test_grants_count_only_where_the_file_says_so(metastore: MetastoreClient, tmp_path: Path) -> None:
    assert rights_of(metastore, tmp_path, "gus", "ada: grants *").grants == ()
    assert not rights_of(metastore, tmp_path, "gus", "gus: grants granted.t").has(
        Right.READER, "granted", "u"
    )
    assert rights_of(metastore, tmp_path, "gus", "gus: grants *").has(Right.EDITOR, "any")
    assert rights_of(metastore, tmp_path, "ada", "@a = ada\n@a: grants *").has(Right.READER, "granted", "t")


def test_a_metastore_that_does_not_answer_is_a_refusal(metastore: MetastoreClient, tmp_path: Path) -> None:
    absent = MetastoreClient("thrift://127.0.0.1:1", attempts=1)
    with pytest.raises(RightMissingError, match="cannot read the grants of the metastore"):
        rights_of(absent, tmp_path, "ada")
    assert rights_of(absent, tmp_path, "root").is_admin
    assert metastore.list_roles_of("ada", "USER") == ["analysts", "public"]


@pytest.fixture(scope="module")
def granting(
    session: Any, metastore: MetastoreClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThriftServer]:
    """A server that follows the grants."""
    assert metastore
    path = tmp_path_factory.mktemp("rights") / "rights"
    path.write_text(RIGHTS)
    server = ThriftServer(
        *(session, listen_on("127.0.0.1", 0), ServerLimits(), SilentConsole()),
        users=UserChecks(lambda _user, _password: None),
        rights=RightsFile(path),
    )
    yield server
    server.close()


def run(server: ThriftServer, user: str, *statements: str, acting: str = "") -> list[tuple[Any, ...]]:
    settings = {"hive.server2.proxy.user": acting} if acting else {}
    connection = hive.connect(
        "127.0.0.1", server.port, username=user, password="x", auth="CUSTOM", configuration=settings
    )
    with closing(connection), closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def test_statements_run_under_grants_and_a_revoked_one_ends_with_the_next(
    granting: ThriftServer, metastore: MetastoreClient
) -> None:
    run(granting, "ada", "INSERT INTO granted.u SELECT id + 1 AS id, name FROM granted.t")
    run(
        granting,
        "ada",
        "MERGE INTO granted.u t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    )
    assert run(granting, "ada", "SELECT name FROM granted.u") == [("xyzzy",)]
    assert run(granting, "gate", "SELECT count(*) FROM granted.u", acting="ada") == [(1,)]
    assert [row[1] for row in run(granting, "ada", "SHOW TABLES IN granted")] == ["t", "u", "v"]
    assert call(metastore, "revoke_privileges", bag("SELECT", "granted", "u", "ada", USER))
    try:
        for statement in ("SELECT * FROM granted.u", "INSERT INTO granted.u VALUES (3, 'x')"):
            with pytest.raises(OperationalError, match="user 'ada' may not"):
                run(granting, "ada", statement)
    finally:
        grant(metastore, "SELECT", "granted", "u", "ada", USER)


@pytest.mark.parametrize(
    ("user", "statement"),
    [
        # Changing rows is not changing the table.
        ("ada", "DROP TABLE granted.u"),
        ("ada", "ALTER TABLE granted.u ADD COLUMNS (x INT)"),
        ("ada", "ALTER TABLE granted.u RENAME TO granted.w"),
        ("ada", "TRUNCATE TABLE granted.u"),
        ("ada", "COMMENT ON TABLE granted.u IS 'x'"),
        ("ada", "CALL rollback_to_instant(table => 'granted.u', instant_time => '2024')"),
        ("ada", "CREATE OR REPLACE TABLE granted.u USING parquet AS SELECT 1 AS id"),
        (
            "ada",
            "MERGE WITH SCHEMA EVOLUTION INTO granted.u t USING (SELECT 1 AS id, 2 AS x) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *",
        ),
        ("ada", "CREATE TABLE granted.mine USING parquet AS SELECT id FROM granted.u"),
        ("ada", "DELETE FROM granted.v"),
        ("ada", "INSERT INTO granted.t SELECT * FROM granted.u"),
        # Changing without SELECT would tell what is there.
        ("dee", "DELETE FROM granted.t WHERE name = 'xyzzy'"),
        ("dee", "INSERT INTO granted.t VALUES (2, 'x')"),
        ("dee", "SELECT * FROM granted.t"),
        ("cy", "SELECT id FROM granted.t"),
        ("mallory", "SET ROLE admin"),
        ("mallory", "SELECT * FROM granted.t"),
        ("ADA", "SELECT * FROM granted.t"),
        ("gus", "SELECT * FROM other.t"),
        ("gus", "SELECT * FROM parquet.`/etc`"),
        ("gus", "DROP DATABASE granted CASCADE"),
        ("bo", "GRANT SELECT ON TABLE granted.u TO USER bo"),
        ("bo", "INSERT INTO granted.u SELECT * FROM granted.t"),
        ("eve", "CREATE OR REPLACE TEMPORARY VIEW w AS SELECT * FROM granted.u"),
    ],
)
def test_no_more_than_what_was_granted(granting: ThriftServer, user: str, statement: str) -> None:
    with pytest.raises(OperationalError) as caught:
        run(granting, user, statement)
    status = caught.value.args[0].status
    assert "xyzzy" not in status.errorMessage
    # Spark knows neither GRANT nor SET ROLE.
    assert status.sqlState == "42501" or "clause: " in status.errorMessage, status.errorMessage


def test_an_editor_of_the_file_changes_rows_and_nothing_else(
    granting: ThriftServer, metastore: MetastoreClient, tmp_path: Path
) -> None:
    rights = rights_of(metastore, tmp_path, "hal", "hal: editor granted.*")
    rights.require(Right.EDITOR, "granted", "t")
    with pytest.raises(RightMissingError, match=r"user 'hal' may not write granted\.t: the right 'writer'"):
        rights.require(Right.WRITER, "granted", "t")
    with pytest.raises(OperationalError, match=r"user 'hal' may not change rows of granted\.t"):
        run(granting, "hal", "DELETE FROM granted.t")


@pytest.mark.soak
@pytest.mark.hive
def test_what_hive_grants_is_what_counts(
    hive_server: HiveServer, metastore: MetastoreClient, tmp_path: Path
) -> None:
    """GRANT and REVOKE of SQL-standard authorization, by the owner of the tables."""
    call(metastore, "create_role", ttypes.Role("loaders", 0, "root"))
    try:
        grant_role(metastore, "loaders", "ivy", USER)
        hive_server.query("GRANT SELECT ON TABLE granted.t TO USER ivy")
        hive_server.query("GRANT ALL ON TABLE granted.v TO ROLE loaders")
        rights = rights_of(metastore, tmp_path, "ivy")
        held = {
            (right, table)
            for right in (Right.READER, Right.EDITOR, Right.WRITER)
            for table in ("t", "u", "v")
            if rights.has(right, "granted", table)
        }
        assert held == {(Right.READER, "t"), (Right.READER, "v"), (Right.EDITOR, "v")}
        hive_server.query("REVOKE SELECT ON TABLE granted.t FROM USER ivy")
        assert not rights_of(metastore, tmp_path, "ivy").has(Right.READER, "granted", "t")
    finally:
        call(metastore, "drop_role", "loaders")
