"""Path arithmetic on hudisql's internal paths: absolute, unencoded, local ones plain (`/a/b`).

Others are `scheme://authority/key`; percent signs are not decoded, as in Hadoop's `Path`. `s3`, `s3n` and
`s3a` name the same store. A path keeps its scheme, because metastores and Spark identify tables by that text;
`canonical` maps all three to `s3a` to compare two paths. This module knows no store.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Iterator
from typing import Final

from hudisql.errors import InvalidArgumentError, StorageError, hide_credentials

S3_SCHEMES: Final = ("s3a", "s3", "s3n")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_S3_ALIAS = re.compile(r"(?:s3|s3n)://")
_STAGED_SUFFIX: Final = ".hudisql-staged"


def parent_of(path: str) -> str:
    """The path of the directory that holds `path`; a root (`/`, `s3a://bucket`) is its own."""
    if not path.startswith("/") and path.count("/") == 2:
        return path
    return path.rsplit("/", 1)[0] or "/"


def ancestors_of(path: str) -> Iterator[str]:
    """The directories above `path`, the nearest first and the root last."""
    while (parent := parent_of(path)) != path:
        yield parent
        path = parent


def staged_path(path: str) -> str:
    """A hidden path beside `path`, for a file that is then renamed to `path` in one step."""
    return f"{parent_of(path)}/.{uuid.uuid4().hex}{_STAGED_SUFFIX}"


def is_staged(path: str) -> bool:
    """True for a path from `staged_path`; such a file may disappear soon."""
    return path.endswith(_STAGED_SUFFIX)


def join(base: str, *parts: str) -> str:
    """Join path components with single slashes; empty parts are left out."""
    return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts if part.strip("/"))])


def is_inside(path: str, directory: str) -> bool:
    """True if `path` is `directory` or lies below it (both qualified)."""
    path, directory = canonical(path), canonical(directory)
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def canonical(path: str) -> str:
    """`path` for comparisons: the schemes `s3` and `s3n` become `s3a`."""
    return _S3_ALIAS.sub("s3a://", path, count=1) if path.startswith("s3") else path


def scheme_of(path: str) -> str:
    """The scheme in lower case; empty for local paths."""
    if path.startswith("/"):
        return ""
    match = _SCHEME.match(path)
    return match.group(1).lower() if match else ""


def check_holds_no_credentials(path: str) -> None:
    """Raise InvalidArgumentError for `scheme://key:secret@bucket/x`: paths are stored and printed.

    Names of buckets have neither `:` nor `@`; HDFS allows a port, and a user only with a password.
    """
    if path.startswith("/") or "://" not in path:
        return
    authority = path.partition("://")[2].partition("/")[0]
    in_bucket = scheme_of(path) in S3_SCHEMES and (":" in authority or "@" in authority)
    if hide_credentials(path) == path and not in_bucket:
        return
    scheme, _, rest = path.partition("://")
    shown = f"{scheme}://******@{rest.rpartition('@')[2]}" if "@" in rest else f"{scheme}://******"
    raise InvalidArgumentError(
        f"the path {shown} holds credentials, which would be stored and shown with it",
        hint="give them as fs.s3a.access.key and fs.s3a.secret.key (--conf spark.hadoop.fs.s3a.…), in "
        "core-site.xml or by the environment, and the path without them",
    )


def split_uri(path: str) -> tuple[str, str]:
    """`scheme://authority/a/b` → (`authority`, `/a/b`); the root is `/`."""
    authority, _, key = path.split("://", 1)[1].partition("/")
    return authority, f"/{key}"


def normalized_uri(path: str, default_authority: str = "") -> str:
    """`scheme:[//authority]/a//b/` → `scheme://authority/a/b`, as Hadoop's `Path` reads it.

    Raises StorageError if neither the path nor `default_authority` names the bucket or name service.
    """
    scheme, _, rest = path.partition(":")
    authority, key = default_authority, rest
    if rest.startswith("//"):
        given, _, key = rest[2:].partition("/")
        authority = given or default_authority
    if not authority:
        raise StorageError(
            f"no bucket or name service in {path}",
            hint="write scheme://bucket/path; for HDFS, fs.defaultFS may name the name service",
        )
    key = posixpath.normpath("/" + key.lstrip("/"))
    return f"{scheme.lower()}://{authority}{'' if key == '/' else key}"
