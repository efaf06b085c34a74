"""Java's regular expressions as Python's: they match the same texts, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.format.keys.java_pattern import java_pattern

PATTERNS = (
    r"\d{4}-(06-(01|17|18)|11-(01|10|11))",
    r"^dt=2024",
    r"-0[1-3]$",
    r"a.b",
    r"\w+\s*$",
    r"[^\d=]{3}",
    r"(?:a|b)++c",
    r"(?<=dt=)x(?!y)",
    r"\.|\+",
    "é$",
)
TEXTS = (
    "dt=2024-06-17",
    "dt=2024-03-02",
    "dt=2024-03-02\n",
    "dt=2024-03-02\r\n",
    "a\nb",
    "a\u2028b",
    "a\u0085",
    "region=eu/dt=xz",
    "dt=xy",
    "aabc",
    "é",
    "é\u2029",
    "²\u00a0",
    "1.5",
    "",
)


@pytest.mark.spark
def test_patterns_match_what_java_matches(session: Any) -> None:
    import pyspark.sql.functions as sf

    frame = session.spark.createDataFrame([(text,) for text in TEXTS], "text string")
    rows = frame.select(*(sf.col("text").rlike(pattern) for pattern in PATTERNS)).collect()
    for text, row in zip(TEXTS, rows, strict=True):
        assert [bool(java_pattern(each).search(text)) for each in PATTERNS] == list(row), text


@pytest.mark.parametrize(
    "pattern",
    [
        *("[a-z&&[b]]", "[a[b]]", "[]a]", "[^]a]", "[a--b]", "[a", "a{2,", "a{", "x**", "a(", "+"),
        *("(?i)a", "(?<name>a)", r"\p{L}", r"\bx", r"\1", r"\Qa\E", r"\A", r"\x41", "a\\"),
    ],
)
def test_what_python_lacks_or_reads_differently_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"^'|multiple repeat|nothing to repeat|unterminated"):
        java_pattern(pattern)
