"""Names of base files and log files.

Follows `FSUtils` of Hudi 0.15: `<file id>_<write token>_<instant>.parquet` and
`.<file id>_<base instant>.log.<version>_<write token>`. File ids hold no underscore, but for those of a
partitioned record index, which have the name of a partition.
Pure text, no file access.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, NamedTuple

# Base files of metadata tables are HFiles; each of their own actions adds three digits to an instant.
_BASE_FILE = re.compile(r"(record-index-.+|[^_.][^_]*)_(\d+-\d+-\d+)_(\d{14,})\.(parquet|hfile)", re.ASCII)
_LOG_FILE = re.compile(r"\.(record-index-.+|[^_]+)_(\d{14,})\.log\.(\d+)(?:_(\d+-\d+-\d+))?", re.ASCII)


CHANGE_LOG_SUFFIX: Final = ".cdc"
"""The end of a change log's name, which else is that of a log file."""
PARQUET: Final = "parquet"
HFILE: Final = "hfile"

FileGroup = tuple[str, str]
"""Partition path and file id."""


class BaseFileName(NamedTuple):
    """The parts of a base file's name."""

    file_id: str
    write_token: str
    instant_time: str


class LogFileName(NamedTuple):
    """The parts of a log file's name; `write_token` is empty for logs of old writers."""

    file_id: str
    base_instant_time: str
    version: int
    write_token: str


def new_file_id() -> str:
    """A file id for a skeleton: a random UUID without a suffix, as Hudi's bootstrap makes them."""
    return str(uuid.uuid4())


def write_token(task_partition_id: int, stage_id: int, task_attempt_id: int) -> str:
    """The token that tells apart files of several attempts of one task."""
    return f"{task_partition_id}-{stage_id}-{task_attempt_id}"


def base_file_name(file_id: str, write_token: str, instant_time: str) -> str:
    """Name of a base or skeleton parquet file."""
    return f"{file_id}_{write_token}_{instant_time}.parquet"


def parse_base_file_name(name: str, extension: str = PARQUET) -> BaseFileName | None:
    """The parts of a base file's name, or None if the name is not one of a base file of this format."""
    matched = _BASE_FILE.fullmatch(name)
    if matched is None or matched[4] != extension:
        return None
    return BaseFileName(matched[1], matched[2], matched[3])


def log_file_name(file_id: str, base_instant_time: str, version: int, write_token: str) -> str:
    """Name of a log file of the slice that began at `base_instant_time`."""
    return f".{file_id}_{base_instant_time}.log.{version}_{write_token}"


def parse_log_file_name(name: str) -> LogFileName | None:
    """The parts of a log file's name, or None. Change-data logs (`.cdc`) are not logs of a snapshot."""
    matched = _LOG_FILE.fullmatch(name)
    if matched is None:
        return None
    file_id, base_instant_time, version, token = matched.groups()
    return LogFileName(file_id, base_instant_time, int(version), token or "")


def change_log_name(file_id: str, instant_time: str, write_token: str) -> str:
    """Name of the change log of the commit that wrote a base file of this file group."""
    return log_file_name(file_id, instant_time, 1, write_token) + CHANGE_LOG_SUFFIX


def parse_change_log_name(name: str) -> LogFileName | None:
    """The parts of a change log's name, or None."""
    return parse_log_file_name(name.removesuffix(CHANGE_LOG_SUFFIX)) if is_change_log(name) else None


def is_change_log(path: str) -> bool:
    """True if the path is that of a change log."""
    return path.endswith(CHANGE_LOG_SUFFIX) and is_log_file(path.removesuffix(CHANGE_LOG_SUFFIX))


def is_log_file(path: str) -> bool:
    """True if the path is that of a log file."""
    return parse_log_file_name(path.rpartition("/")[2]) is not None


def is_data_file(path: str) -> bool:
    """True if the path is that of a base file or a log file."""
    return parse_base_file_name(path.rpartition("/")[2]) is not None or is_log_file(path)


def is_hidden(name: str) -> bool:
    """True for names that Spark does not read (`_SUCCESS`, `.part.crc`); `_key=value` directories are
    read.
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
