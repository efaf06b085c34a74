"""`ConfigKey`, a `hoodie.*` setting, and `HudiConfig`, which looks up its value.

Follows `ConfigProperty` and `HoodieConfig` of Hudi. The look-up function knows the sources of texts (a
session, TBLPROPERTIES, a data source's options). Invalid values are errors that name the setting.
`hudi_config` declares the settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hudisql.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Lookup = Callable[[str, str], str]
"""The text of a setting, or the default."""

WRITES: Final = "SET, TBLPROPERTIES, write options"
"""Where settings of writes may be set."""
SESSION: Final = "SET"
"""Where settings of the session are set."""
READS: Final = "SET, options of a read"
"""Where settings of reads may be set."""


@dataclass(frozen=True, slots=True)
class ConfigKey(Generic[T]):
    """One setting; `default` is a text, empty where another setting or the table decides.

    `alternatives` are other names of the setting, those of Hudi 1.x.
    """

    name: str
    type: str
    default: str
    meaning: str
    parse: Callable[[str, str], T]
    set_by: str = WRITES
    alternatives: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def default_value(self) -> T:
        """`default` as a value. Raises SettingsError for a key whose default is decided elsewhere."""
        return self.parse(self.name, self.default)


@dataclass(frozen=True, slots=True)
class HudiConfig:
    """The settings of one statement or write; `lookup` gives the text of one, or the given default.

    `names` gives the names of those that are set, where they are known.
    """

    lookup: Lookup
    names: Callable[[], Iterable[str]] = tuple

    def get(self, key: ConfigKey[T], default: str | None = None) -> T:
        """The value of a setting; `default` replaces the key's default. Raises SettingsError."""
        for name in key.alternatives:
            if not self.lookup(key.name, "") and (text := self.lookup(name, "")):
                return key.parse(name, text)
        return key.parse(key.name, self.lookup(key.name, key.default if default is None else default))

    def get_class(self, key: ConfigKey[str], package: str, known: Collection[str]) -> str:
        """The name of a known class, without its package. Raises SettingsError for another one."""
        name = self.get(key).removeprefix(package)
        if name not in known:
            raise SettingsError(
                f"{key} = {self.get(key)} is not supported",
                hint=f"use {', '.join(f'{package}{class_name}' for class_name in known)}",
            )
        return name

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True if the setting has a text that is not empty."""
        return any(self.lookup(name, "") for name in (key.name, *key.alternatives))

    def under(self, values: Mapping[str, str]) -> HudiConfig:
        """The same settings, overridden by `values`."""
        return HudiConfig(
            lambda name, default: values.get(name) or self.lookup(name, default),
            lambda: {*self.names(), *values},
        )

    def over(self, values: Callable[[str], str | None]) -> HudiConfig:
        """The same settings, with `values` as defaults of unset settings."""
        return HudiConfig(lambda name, default: self.lookup(name, values(name) or default), self.names)


def config_of_session(spark: SparkSession) -> HudiConfig:
    """The settings of the session, as changed by `SET`."""
    return HudiConfig(lambda name, default: str(spark.conf.get(name, default)).strip())


def parse_flag(name: str, text: str) -> bool:
    """True or false. Raises SettingsError."""
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name} must be true or false, not '{text.lower()}'")
    return text.lower() == "true"


def parse_number(name: str, text: str) -> int:
    """A whole number. Raises SettingsError."""
    if not text.isdigit():
        raise SettingsError(f"{name} must be a whole number, not '{text}'")
    return int(text)


def parse_fraction(name: str, text: str) -> float:
    """A number between 0 and 1. Raises SettingsError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise SettingsError(f"{name} must be a number between 0 and 1, not '{text}'")
    return value


def parse_ratio(name: str, text: str) -> float:
    """A number above 0. Raises SettingsError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf:
        raise SettingsError(f"{name} must be a number above 0, not '{text}'")
    return value


def parse_text(_: str, text: str) -> str:
    """The text itself."""
    return text


def parse_names(_: str, text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return split_names(text)


def split_names(text: str) -> tuple[str, ...]:
    """The parts of a list with commas, without blanks around them; empty ones are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def one_of(*choices: str) -> Callable[[str, str], str]:
    """Parses one of the choices, in any case."""

    def parse(name: str, text: str) -> str:
        found = next((choice for choice in choices if choice.lower() == text.lower()), None)
        if found is None:
            shown = text.upper() if choices[0].isupper() else text.lower()
            raise SettingsError(f"{name} must be one of {', '.join(choices)}, not '{shown}'")
        return found

    return parse


def flag_key(
    name: str, default: str, meaning: str, set_by: str = WRITES, *alternatives: str
) -> ConfigKey[bool]:
    """A setting that is true or false."""
    return ConfigKey(name, "boolean", default, meaning, parse_flag, set_by, alternatives)


def number_key(name: str, default: int, meaning: str, *alternatives: str) -> ConfigKey[int]:
    """A setting that is a whole number."""
    return ConfigKey(name, "number", str(default), meaning, parse_number, alternatives=alternatives)


def ratio_key(name: str, default: str, meaning: str) -> ConfigKey[float]:
    """A setting that is a number above 0."""
    return ConfigKey(name, "number", default, meaning, parse_ratio)


def choice_key(
    name: str, default: str, choices: tuple[str, ...], meaning: str, *alternatives: str
) -> ConfigKey[str]:
    """A setting with one of some values, in any case."""
    parse = one_of(*choices)
    return ConfigKey(name, " \\| ".join(choices), default, meaning, parse, alternatives=alternatives)


def text_key(name: str, meaning: str, default: str = "") -> ConfigKey[str]:
    """A setting of any text."""
    return ConfigKey(name, "string", default, meaning, parse_text)


def names_key(name: str, meaning: str) -> ConfigKey[tuple[str, ...]]:
    """A setting with names of columns or partitions."""
    return ConfigKey(name, "columns", "", meaning, parse_names)
