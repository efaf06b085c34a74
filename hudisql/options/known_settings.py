"""Finds misspelt names of settings and suggests the intended name.

A name that Apache Hudi knows is never reported, whether hudisql uses it or not: `hudi_settings.txt` holds the
names in the classes of Hudi 0.15 and 1.2. Other names are reported only if they are close to one of these.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from hudisql.config.hudi_config import COMMIT_METADATA_PREFIX, CONFIG_KEYS, SYNC
from hudisql.console import Console
from hudisql.errors import InvalidArgumentError

# Hudi's SQL names of table properties; other TBLPROPERTIES are free.
_OF_TABLES: Final = ("primaryKey", "preCombineField", "orderingFields", "payloadClass", "type")
# Other forms of these names that both releases of Hudi accept, and similar words that neither accepts.
_OTHER_FORMS: Final = {"precombine": "preCombineField"}
_NO_FORMS: Final = {
    **dict.fromkeys(("recordkey", "record_key", "recordkeyfield", "recordkeyfields"), "primaryKey"),
    **dict.fromkeys(("precombinekey", "precombinecolumn", "ordering", "orderingcolumn"), "preCombineField"),
    **{"payload": "payloadClass", "tabletype": "type", "table_type": "type"},
}
# Hudi's settings of a table, with its name in them.
_CONSUME_MODE: Final = re.compile(r"hoodie\..+\.consume\..+")
_OF_READS: Final = ("as.of.instant",)
# Commits never store Spark's settings: they may hold secrets.
_NEVER_STORED: Final = "spark."
_ALIKE: Final = 0.92
_ALIKE_OF_TABLES: Final = 0.85
_ALIKE_OF_PROPERTIES: Final = 0.8


def misspelt_settings(names: Iterable[str]) -> dict[str, str]:
    """Names that are close to a setting of Hudi or hudisql, each with that setting."""
    return _misspelt(names, {setting.lower(): setting for setting in _known()}, _ALIKE)


def misspelt_properties(names: Iterable[str]) -> dict[str, str]:
    """`misspelt_settings`, and names that are close to Hudi's short names of table properties."""
    given = list(names)
    known = {setting.lower(): setting for setting in _OF_TABLES} | _OTHER_FORMS
    short = _misspelt(given, known, _ALIKE_OF_PROPERTIES)
    others = {name: _NO_FORMS[name.lower()] for name in given if name.lower() in _NO_FORMS}
    return {**misspelt_settings(given), **short, **others}


def unknown_setting(name: str) -> Iterator[tuple[str, str | None]]:
    """The problem and the hint of a `hoodie.*` name that neither Apache Hudi nor hudisql knows; else none."""
    if _is_known(name):
        return
    meant = difflib.get_close_matches(name, _known(), n=1, cutoff=_ALIKE_OF_TABLES)
    yield f"there is no setting '{name}'", f"did you mean '{meant[0]}'?" if meant else None


def warn_of_settings(console: Console, values: Mapping[str, str], origin: str) -> None:
    """Warn of settings that are probably misspelt, which are not changed.

    `origin` names the place where they were set.
    """
    _say(console, misspelt_settings(values), origin)


def is_stored_in_commits(name: str, prefix: str) -> bool:
    """True of the name of a setting that begins with the prefix, unless it is one of Spark's."""
    return bool(prefix) and name.startswith(prefix) and not name.startswith(_NEVER_STORED)


def warn_of_properties(
    console: Console, values: Iterable[str], origin: str, table_properties: Mapping[str, str]
) -> None:
    """Warn of TBLPROPERTIES that are probably misspelt or unknown names of Hudi; they are not changed.

    `table_properties` are all of the table: some that commits store are known by their prefix.
    """
    prefix = table_properties.get(COMMIT_METADATA_PREFIX.name, COMMIT_METADATA_PREFIX.default)
    names = [name for name in values if not is_stored_in_commits(name, prefix)]
    misspelt = misspelt_properties(names)
    _say(console, misspelt, origin)
    for name in names:
        is_setting = name.lower().startswith("hoodie.") and not _CONSUME_MODE.fullmatch(name.lower())
        if is_setting and name not in misspelt and not _is_known(name):
            console.warning(f"{origin}: unknown setting '{name}' has no effect")


def refuse_misspelt_options(names: Iterable[str]) -> None:
    """Raise InvalidArgumentError for an option of the data source that is probably misspelt.

    Data sources have no console for a warning.
    """
    given = list(names)
    short = _misspelt(given, {option: option for option in _OF_READS}, _ALIKE_OF_TABLES)
    for name, meant in {**misspelt_settings(given), **short}.items():
        raise InvalidArgumentError(f"there is no option '{name}'", hint=f"did you mean '{meant}'?")


def _say(console: Console, misspelt: Mapping[str, str], origin: str) -> None:
    for name, meant in misspelt.items():
        console.warning(f"{origin}: unknown setting '{name}'; did you mean '{meant}'?")


def _misspelt(names: Iterable[str], known: dict[str, str], alike: float) -> dict[str, str]:
    near = {
        name: difflib.get_close_matches(name.lower(), known, n=1, cutoff=alike)
        for name in names
        if name.lower() not in known
    }
    return {name: known[found[0]] for name, found in near.items() if found}


def _is_known(name: str) -> bool:
    """True for the name of a setting, in any case, that Apache Hudi or hudisql knows."""
    return name.lower() in _known_in_lower_case()


@cache
def _known_in_lower_case() -> frozenset[str]:
    own = (known for key in CONFIG_KEYS for known in (key.name, *key.alternatives))
    return frozenset(setting.lower() for setting in (*_known(), *own))


@cache
def _known() -> tuple[str, ...]:
    text = (files("hudisql.options") / "hudi_settings.txt").read_text(encoding="utf-8")
    return (SYNC.name, *(line for line in text.splitlines() if not line.startswith("#")))
