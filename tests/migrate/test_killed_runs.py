"""A runner that is killed anywhere: the next one goes on, and no statement happens twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.conftest import Project
from tests.migrate.killed_runs import start_run

pytestmark = [pytest.mark.spark, pytest.mark.hms]
SCRIPT = """
CREATE TABLE {db}.t (id INT, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
SET spark.sql.shuffle.partitions = 3;
INSERT INTO {db}.t VALUES (1, 0), (2, 0);
UPDATE {db}.t SET n = n + ${spark.sql.shuffle.partitions};
"""
# 1 lock, 2 begin, 3+4 CREATE, 5 SET, 6+7 INSERT, 8+9 UPDATE, 10 cleared


def check_applied_once(project: Project) -> None:
    assert project.rows("SELECT id, n FROM {db}.t ORDER BY id") == [(1, 3), (2, 3)]
    assert project.commits("t") == 2
    assert project.rows("SELECT version, status, statements FROM {db}.history") == [("1", "success", 4)]


@pytest.mark.parametrize(
    "step",
    range(2, 11),
)
@pytest.mark.soak
def test_a_killed_run_goes_on_and_repeats_nothing(
    project: Project, spark: Any, metastore_uri: str, step: int
) -> None:
    project.write("V1__t.sql", SCRIPT)
    killed = start_run(spark, metastore_uri, project.directory, project.history, kill_before=step)
    output, _ = killed.communicate(timeout=300)
    assert killed.returncode == -9, output
    done = project.run("apply")
    assert ("had committed before" in done.stderr) == (step in (7, 9)), done.stderr
    check_applied_once(project)
    assert "nothing to do" in project.run("apply").stderr


def test_of_two_runners_behind_a_killed_one_the_second_finds_nothing_to_do(
    project: Project, spark: Any, metastore_uri: str
) -> None:
    project.write("V1__t.sql", SCRIPT)
    killed = start_run(spark, metastore_uri, project.directory, project.history, kill_before=9)
    output, _ = killed.communicate(timeout=300)
    assert killed.returncode == -9, output
    runs = [start_run(spark, metastore_uri, project.directory, project.history) for _ in range(2)]
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    ends = sorted(output.splitlines()[-1] for output in outputs)
    assert ends == ["applied 0", "applied 1"], outputs
    assert sum("had committed before" in output for output in outputs) == 1, outputs
    check_applied_once(project)
