"""The runner itself: what it reads in a script, and which differences it finds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.differential.difference import find_differences
from tests.differential.engines import Outcome
from tests.differential.script import DifferentialScript, read_script

TEXT = """\
-- shows: what a script can say
-- meta: _hoodie_record_key commit
-- rows t: [[1, "2024-01-01"]]
-- why: because it is only an example
CREATE TABLE t (id INT) USING hudi;
CREATE TABLE gone (id INT) USING hudi;
DROP TABLE gone;
SET hoodie.x = 1;
-- fails: hudisql too old
INSERT INTO t VALUES (1);
SELECT * FROM t;
WRITE upsert INTO t OPTIONS ('a' = 'b', 'c' = 'd') SELECT 1 AS id;
"""


def _script(directory: Path, text: str) -> DifferentialScript:
    path = directory / "example.sql"
    path.write_text(text)
    return read_script(path)


def test_a_script_says_what_is_compared_and_what_fails(tmp_path: Path) -> None:
    script = _script(tmp_path, TEXT)
    assert (script.name, script.oracle, script.meta) == (
        "example",
        "hudi-0.15",
        ("_hoodie_record_key", "commit"),
    )
    assert script.tables == ("t",)
    assert script.settings == ("hoodie.x",)
    assert script.rows == {"t": [[1, "2024-01-01"]]}
    assert [(step.fails, step.said) for step in script.steps if step.fails] == [("hudisql", "too old")]
    assert [step.text for step in script.steps if step.is_query] == ["SELECT * FROM t"]
    write = script.steps[-1].write
    assert write is not None
    assert (write.operation, write.table, write.query) == ("upsert", "t", "SELECT 1 AS id")
    assert write.options == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "-- shows: x\n-- oracle: mysql\nSELECT 1;",
        "-- shows: x\n-- rows t: []\nSELECT 1;",
        "-- just a remark\nSELECT 1;",
    ],
)
def test_a_script_without_a_whole_header_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"example\.sql"):
        _script(tmp_path, text)


def _outcome(ids: list[int], commits: list[str], kind: pa.DataType | None = None) -> Outcome:
    columns = {
        "_hoodie_commit_time": commits,
        "_hoodie_record_key": [str(each) for each in ids],
        "id": pa.array(ids, kind or pa.int32()),
    }
    return Outcome({"t": pa.table(columns)})


def test_rows_types_and_commits_are_compared(tmp_path: Path) -> None:
    script = _script(tmp_path, "-- shows: x\n-- meta: _hoodie_record_key commit\nSELECT 1;")
    ours = _outcome([1, 2, 2], ["20", "10", "10"])
    assert find_differences(script, ours, _outcome([2, 2, 1], ["3", "3", "7"])) == []
    assert "only hudisql" in find_differences(script, ours, _outcome([1, 2], ["7", "3"]))[0]
    assert "only hudisql" in find_differences(script, ours, _outcome([2, 2, 1], ["7", "3", "3"]))[0]
    assert "int32" in find_differences(script, ours, _outcome([2, 2, 1], ["3", "3", "7"], pa.int64()))[0]


def test_rows_in_the_script_stand_for_a_true_difference(tmp_path: Path) -> None:
    script = _script(tmp_path, "-- shows: x\n-- rows t: [[1], [2]]\n-- why: so\nSELECT 1;")
    ours = _outcome([1, 2], ["1", "1"])
    assert find_differences(script, ours, _outcome([1], ["1"])) == []
    assert "take them out" in find_differences(script, ours, _outcome([2, 1], ["1", "1"]))[0]
    assert "the script says" in find_differences(script, _outcome([1], ["1"]), _outcome([3], ["1"]))[0]
