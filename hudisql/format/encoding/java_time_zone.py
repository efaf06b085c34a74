"""The time zone that Java takes from this machine (`TimeZone.getDefault`)."""

from __future__ import annotations

import os
from datetime import datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_WITHOUT_OFFSET = ("UTC", "GMT", "UT", "Z", "UCT", "Zulu", "Universal", "Etc/UTC", "Etc/GMT", "Etc/UCT")


def machine_time_zone() -> str:
    """The name of this machine's time zone in Java; `UTC` if it has none."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named and not named.startswith("/"):
        return named
    _, found, zone = os.path.realpath(named or "/etc/localtime").partition("/zoneinfo/")
    return zone if found else "UTC"


def is_utc(zone: str) -> bool:
    """True if the zone with this name is never ahead of or behind UTC."""
    return zone in _WITHOUT_OFFSET


def in_machine_zone(moment: datetime) -> datetime:
    """A time of any zone as this machine's local time, in its zone."""
    return moment.astimezone(_zone(machine_time_zone()))


def local_time(moment: datetime) -> datetime:
    """A time without a zone as one of this machine's zone: the earlier one where clocks are set back."""
    return moment.replace(tzinfo=_zone(machine_time_zone()), fold=0)


@cache
def _zone(name: str) -> tzinfo:
    """The zone; UTC for a name that is not known, as in Java."""
    try:
        return ZoneInfo("UTC" if is_utc(name) else name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")
