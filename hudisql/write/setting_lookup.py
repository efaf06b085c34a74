"""Parse the text of `hoodie.*` settings: flags, whole numbers, fractions.

The caller's look-up knows where settings come from (a session, TBLPROPERTIES, a data source's options).
Invalid values are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

from hudisql.errors import SettingsError

Lookup = Callable[[str, str], str]
"""The text of a setting, or the default."""


def read_flag(lookup: Lookup, key: str, default: bool) -> bool:
    """`true` or `false`, in any case. Raises SettingsError."""
    text = lookup(key, str(default)).lower()
    if text not in ("true", "false"):
        raise SettingsError(f"{key} must be true or false, not '{text}'")
    return text == "true"


def read_number(lookup: Lookup, key: str, default: int) -> int:
    """A whole number that is not negative. Raises SettingsError."""
    text = lookup(key, str(default))
    if not text.isdigit():
        raise SettingsError(f"{key} must be a whole number, not '{text}'")
    return int(text)


def read_fraction(lookup: Lookup, key: str, default: float) -> float:
    """A number between 0 and 1, neither of them. Raises SettingsError."""
    text = lookup(key, str(default))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise SettingsError(f"{key} must be a number between 0 and 1, not '{text}'")
    return value
