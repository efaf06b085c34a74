"""A runner that is killed anywhere: the next one goes on, and no statement happens twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrations.conftest import Project
from tests.migrations.killed_runs import start_run

pytestmark = [pytest.mark.spark, pytest.mark.hms]
SCRIPT = """
CREATE TABLE {db}.t (id INT, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
SET spark.sql.shuffle.partitions = 3;
INSERT INTO {db}.t VALUES (1, 0), (2, 0);
UPDATE {db}.t SET n = n + ${spark.sql.shuffle.partitions};
"""
AS_SELECT = """
CREATE TABLE {db}.t USING hudi TBLPROPERTIES (primaryKey = 'id')
AS SELECT id, 5 AS n FROM VALUES (1), (2) AS v (id);
"""
BEFORE_COMMIT = "hudisql.write.execution.commit_files:finish_commit"
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
    # The table is there before step 4, the rows are before 7 and 9.
    assert ("had happened before" in done.stderr) == (step in (4, 7, 9)), done.stderr
    check_applied_once(project)
    assert "nothing to do" in project.run("apply").stderr


@pytest.mark.soak
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
    assert sum("had happened before" in output for output in outputs) == 1, outputs
    check_applied_once(project)


@pytest.mark.soak
def test_a_killed_create_table_as_goes_on_before_and_behind_its_commit(
    project: Project, spark: Any, metastore_uri: str
) -> None:
    project.write("V1__t.sql", AS_SELECT)
    for place in (BEFORE_COMMIT, "hudisql.sql.ddl.create_table:register_table"):
        killed = start_run(spark, metastore_uri, project.directory, project.history, kill_in=place)
        output, _ = killed.communicate(timeout=300)
        assert killed.returncode == -9, output
    done = project.run("apply")
    assert "had happened before" in done.stderr
    assert project.rows("SELECT id, n FROM {db}.t ORDER BY id") == [(1, 5), (2, 5)]
    assert project.commits("t") == 1
    assert project.rows("SHOW TBLPROPERTIES {db}.t ('primaryKey')")[0][1] == "id"
    assert "nothing to do" in project.run("apply").stderr


@pytest.mark.soak
def test_a_table_that_others_have_filled_is_not_removed(
    project: Project, spark: Any, metastore_uri: str
) -> None:
    project.write("V1__t.sql", AS_SELECT)
    killed = start_run(spark, metastore_uri, project.directory, project.history, kill_in=BEFORE_COMMIT)
    killed.communicate(timeout=300)
    (row,) = [row for row in project.rows("DESCRIBE DATABASE {db}") if row[0] == "Location"]
    project.session.sql(f"CREATE TABLE {project.database}.other USING hudi LOCATION '{row[1]}/t'")
    project.session.sql(f"INSERT INTO {project.database}.other VALUES (7, 7)")
    assert "has a commit that is not the statement's" in project.run("apply", exit_code=4).stderr
