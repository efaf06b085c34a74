"""The numbers of buckets of a bucket index by partition: rules, and the file that stores them.

Follows `PartitionBucketIndexHashingConfig`, `RegexRuleEngine` and `PartitionBucketIndexCalculator` of Hudi
1.2: of rules `pattern,number;pattern,number` the first whose pattern is found in a partition's path counts.
Knows no tables.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.format.keys.java_pattern import java_pattern

REGEX: Final = "regex"
"""The only type of rules that Hudi has."""
FIRST_RULES: Final = "00000000000000"
"""The instant of the rules that a table is made with."""
# What Java's `String.trim` removes.
_SPACE: Final = "".join(map(chr, range(33)))
_INTEGER: Final = re.compile(r"\+?\d{1,8}", re.ASCII)


@dataclass(frozen=True)
class BucketRules:
    """`expressions` gives numbers of buckets to partitions, `default` is that of the others.

    `instant_time` is that of the commit that moved the rows to their buckets. Made by `bucket_rules` or
    `rules_from_json`, which check the expressions.
    """

    expressions: str
    default: int
    instant_time: str = FIRST_RULES
    rule: str = REGEX
    version: int = 1

    def count(self, path: str) -> int:
        """The number of buckets of the partition at this path."""
        return next((count for pattern, count in self._rules if pattern.search(path)), self.default)

    def to_json(self) -> bytes:
        """The content of the file that stores the rules."""
        content = {
            "expressions": self.expressions,
            "defaultBucketNumber": self.default,
            "rule": self.rule,
            "version": self.version,
            "instant": self.instant_time,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()

    @cached_property
    def _rules(self) -> tuple[tuple[re.Pattern[str], int], ...]:
        return tuple(_parsed(rule) for rule in self.expressions.rstrip(";").split(";"))


def bucket_rules(expressions: str, default: int, rule: str = REGEX) -> BucketRules:
    """The rules of a table's settings. Raises ValueError for rules that are not valid or not supported."""
    rules = BucketRules(expressions, default, rule=rule)
    _check(rules)
    return rules


def rules_from_json(content: bytes, path: str) -> BucketRules:
    """The rules that a file stores; `path` is for errors. Raises CorruptTableError."""
    try:
        parsed: dict[str, Any] = json.loads(content)
        rules = BucketRules(
            str(parsed["expressions"]),
            int(parsed["defaultBucketNumber"]),
            str(parsed["instant"]),
            str(parsed["rule"]),
            int(parsed["version"]),
        )
        _check(rules)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(f"{path} has no numbers of buckets that can be followed: {error}") from error
    return rules


def _check(rules: BucketRules) -> None:
    if rules.rule.lower() != REGEX:
        raise ValueError(f"the rule type is '{rules.rule}', and only {REGEX} is known")
    if min(rules.default, *(count for _, count in rules._rules)) < 1:
        raise ValueError("a number of buckets is not above 0")


def _parsed(text: str) -> tuple[re.Pattern[str], int]:
    parts = text.strip(_SPACE).rstrip(",").split(",")
    number = parts[-1].strip(_SPACE)
    if len(parts) != 2 or not _INTEGER.fullmatch(number):
        raise ValueError(f"'{text}' is not of the form pattern,number")
    try:
        return java_pattern(parts[0].strip(_SPACE)), int(number)
    except ValueError as error:
        raise ValueError(f"the pattern of '{text}' is not supported: {error}") from None
