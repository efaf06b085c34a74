"""Which partitions are rewritten, get skeletons or are registered only: by mode, predicate, regex or types.

Follows Hudi's `BootstrapModeSelector`s: metadata only, full record, and `BootstrapRegexModeSelector`, whose
regular expression must match the whole partition path. Values only: predicates are evaluated by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hudisql.errors import InvalidArgumentError

SELECTOR_PACKAGE: Final = "org.apache.hudi.client.bootstrap.selector"
METADATA_ONLY_SELECTOR: Final = f"{SELECTOR_PACKAGE}.MetadataOnlyBootstrapModeSelector"
FULL_RECORD_SELECTOR: Final = f"{SELECTOR_PACKAGE}.FullRecordBootstrapModeSelector"
REGEX_SELECTOR: Final = f"{SELECTOR_PACKAGE}.BootstrapRegexModeSelector"
SELECTORS: Final = (METADATA_ONLY_SELECTOR, FULL_RECORD_SELECTOR, REGEX_SELECTOR)
SELECTOR_OPTION: Final = "hoodie.bootstrap.mode.selector"
REGEX_OPTION: Final = "hoodie.bootstrap.mode.selector.regex"
REGEX_MODE_OPTION: Final = "hoodie.bootstrap.mode.selector.regex.mode"
MODE_OPTIONS: Final = (SELECTOR_OPTION, REGEX_OPTION, REGEX_MODE_OPTION)


class BootstrapMode(StrEnum):
    """How a bootstrap treats a partition."""

    METADATA_ONLY = "metadata_only"
    """Skeletons beside the untouched source files."""
    FULL_RECORD = "full_record"
    """New base files with all columns."""
    REGISTER_ONLY = "register_only"
    """Nothing: hudisql and Hive read the source files, Apache Hudi does not see their rows."""

    @property
    def other(self) -> BootstrapMode:
        """The mode of partitions that a selector does not match."""
        return (
            BootstrapMode.FULL_RECORD if self is BootstrapMode.METADATA_ONLY else BootstrapMode.METADATA_ONLY
        )


_MODES_OF_TABLES: Final = (BootstrapMode.METADATA_ONLY, BootstrapMode.FULL_RECORD)


class UnsafeTypePolicy(StrEnum):
    """The handling of files whose columns have a type that Apache Hudi or Hive is incompatible with."""

    FAIL = "fail"
    """Nothing is written."""
    WARN = "warn"
    """The bootstrap continues and names them."""
    FULL_RECORD = "full_record"
    """Their partitions are rewritten, where that fixes the type."""


class PartitionMismatchPolicy(StrEnum):
    """The handling of files that contain a partition column with another value than their directory's."""

    FAIL = "fail"
    """Nothing is written."""
    WARN = "warn"
    """The bootstrap continues and names them; the directory's value has priority, as in Spark and Hive."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """How the mode of each partition is chosen.

    Without `where` and `regex` every partition has `mode`. With `where`, a SQL predicate over the partition
    columns, matching ones are rewritten. With `regex`, partition paths that match it as a whole have `mode`,
    the others the other one. Partitions that match `register_only_where` are only registered.
    """

    mode: BootstrapMode = BootstrapMode.METADATA_ONLY
    where: str | None = None
    regex: str | None = None
    register_only_where: str | None = None

    def __str__(self) -> str:
        """The choice in words, for messages."""
        if self.where is not None:
            return f"full_record where {self.where}"
        return self.mode.value if self.regex is None else f"{self.mode.value} where the path is {self.regex}"

    def of_paths(self, paths: Sequence[str]) -> list[BootstrapMode]:
        """The mode of each partition path, ignoring `where`."""
        if self.regex is None:
            return [self.mode] * len(paths)
        matches = _compiled(self.regex).fullmatch
        return [self.mode if matches(path) else self.mode.other for path in paths]


def parse_mode(text: str) -> BootstrapMode:
    """The mode of that name, in any case. Raises InvalidArgumentError."""
    bootstrap_mode = next((mode for mode in _MODES_OF_TABLES if mode.value == text.strip().lower()), None)
    if bootstrap_mode is None:
        raise InvalidArgumentError(
            f"mode '{text}' is unknown",
            hint="it is 'metadata_only' or 'full_record'; for some partitions give full_record_where or"
            " register_only_where",
        )
    return bootstrap_mode


def choose_mode(
    mode: str, full_record_where: str | None, register_only_where: str | None = None
) -> ModeChoice:
    """The choice by the arguments of `bootstrap_table`. Raises InvalidArgumentError."""
    parsed = parse_mode(mode)
    if full_record_where is not None and parsed is BootstrapMode.FULL_RECORD:
        raise InvalidArgumentError(
            "full_record_where says which partitions are rewritten, mode => 'full_record' that all are",
            hint="leave one of them out",
        )
    return ModeChoice(parsed, where=full_record_where, register_only_where=register_only_where)


def mode_choice_from_options(options: Mapping[str, str]) -> ModeChoice | None:
    """The choice by Hudi's options, None if they name no selector.

    Raises InvalidArgumentError for an unknown selector or mode and an invalid regular expression.
    """
    selector = options.get(SELECTOR_OPTION)
    if selector is None:
        if unused := [name for name in MODE_OPTIONS if name in options]:
            raise InvalidArgumentError(
                f"option {unused[0]} needs the regex selector", hint=f"{SELECTOR_OPTION}={REGEX_SELECTOR}"
            )
        return None
    if selector not in SELECTORS:
        raise InvalidArgumentError(
            f"the bootstrap mode selector '{selector}' is unknown", hint=f"it is {' or '.join(SELECTORS)}"
        )
    if selector != REGEX_SELECTOR:
        is_full = selector == FULL_RECORD_SELECTOR
        return ModeChoice(BootstrapMode.FULL_RECORD if is_full else BootstrapMode.METADATA_ONLY)
    regex = options.get(REGEX_OPTION, ".*")
    _compiled(regex)
    return ModeChoice(parse_mode(options.get(REGEX_MODE_OPTION, BootstrapMode.METADATA_ONLY)), regex=regex)


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        raise InvalidArgumentError(f"'{regex}' is not a regular expression: {error}") from error
