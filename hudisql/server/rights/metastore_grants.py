"""The rights that grants of the Hive Metastore give, as SQL-standard authorization of Hive keeps them there.

Hive's privileges are finer than rights: a user gets no right with a part that was not granted. SELECT makes a
reader, and all of SELECT, INSERT, UPDATE and DELETE an editor. Altering and dropping need ownership in Hive,
which no grant gives here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Final

from hudisql.errors import MetastoreError, RightMissingError
from hudisql.server.rights.rights_file import Grant, Right, UserRights

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.catalog.metastore_table import PrincipalGrant

_ALL: Final = "all"
_READING: Final = frozenset({"select"})
_CHANGING: Final = frozenset({"select", "insert", "update", "delete"})
_PUBLIC: Final = "public"
# Its members act by it only after SET ROLE.
_ADMIN: Final = "admin"
_MOST_ROLES: Final = 100


def with_metastore_grants(rights: UserRights, metastore: MetastoreClient) -> UserRights:
    """The rights with those that the metastore grants to the user within `rights.followed`.

    Raises RightMissingError if the metastore does not tell them.
    """
    if rights.is_admin or not rights.followed:
        return rights
    try:
        granted = metastore.list_principal_grants(rights.user, "USER")
        for role in _roles_of(rights.user, metastore):
            granted += metastore.list_principal_grants(role, "ROLE")
    except MetastoreError as error:
        raise RightMissingError(f"the server cannot read the grants of the metastore: {error}") from error
    pairs = ((grant, scope) for grant in _as_rights(granted) for scope in rights.followed)
    followed = (grant for grant in starmap(_within, pairs) if grant is not None)
    return UserRights(rights.user, (*rights.grants, *followed), rights.followed)


def _roles_of(user: str, metastore: MetastoreClient) -> list[str]:
    """The roles of a user, also by way of other roles, and that of everybody."""
    roles = {_PUBLIC: None, **dict.fromkeys(metastore.list_roles_of(user, "USER"))}
    for role in (waiting := list(roles)):
        if len(roles) > _MOST_ROLES:
            raise RightMissingError(f"user {user!r} has more than {_MOST_ROLES} roles in the metastore")
        further = [name for name in metastore.list_roles_of(role, "ROLE") if name not in roles]
        roles |= dict.fromkeys(further)
        waiting += further
    return [role for role in roles if role.lower() != _ADMIN]


def _as_rights(granted: Iterable[PrincipalGrant]) -> Iterator[Grant]:
    privileges: defaultdict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    for grant in granted:
        privilege = grant.privilege.lower()
        privileges[grant.database, grant.table] |= _CHANGING if privilege == _ALL else {privilege}
    for (database, table), names in privileges.items():
        if names >= _CHANGING:
            yield Grant(Right.EDITOR, database, table)
        elif names >= _READING:
            yield Grant(Right.READER, database, table)


def _within(grant: Grant, scope: Grant) -> Grant | None:
    """What is in both the grant and the scope: the narrower one of them, with the grant's right."""
    database, table = grant.database or scope.database, grant.table or scope.table
    is_inside = scope.database in (None, database) and scope.table in (None, table)
    is_inside = is_inside and grant.database in (None, database) and grant.table in (None, table)
    return Grant(grant.right, database, table) if is_inside else None
