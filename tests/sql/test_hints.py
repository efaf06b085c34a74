"""What an error advises runs: each hint is provoked, and the statement in its text run as it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudisql.errors import BootstrapBlockedError, CorruptTableError, HudisqlError
from hudisql.session import Session
from tests.sql.changed_tables import database_fixture

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@dataclass(frozen=True)
class Advice:
    """A statement that fails, the pattern by which its hint is taken apart (group 1: what to run), and more.

    `first` is run before; `fill` stands for what the hint leaves to the reader (`…`, `db.name`); with `again`
    the statement itself works then. `{p}` is a directory of the test's own, `hints.t` a table.
    """

    failing: str
    advised: str
    first: tuple[str, ...] = ()
    fill: tuple[tuple[str, str], ...] = ()
    again: bool = False
    last: tuple[str, ...] = ()


DUP_POLICY = "hoodie.datasource.insert.dup.policy"
OPERATION = "hoodie.spark.sql.insert.into.operation"
ADVICE = {
    "bulk insert that leaves stored keys out": Advice(
        "INSERT INTO hints.t VALUES (9, 'n')",
        r"(SET .* = insert)",
        first=(f"SET {DUP_POLICY} = drop", f"SET {OPERATION} = bulk_insert"),
        again=True,
        last=(f"RESET {DUP_POLICY}", f"RESET {OPERATION}"),
    ),
    "bucket index without a record key": Advice(
        "INSERT INTO hints.keyless_b VALUES (9)",
        r"(SET \S+ = BLOOM)",
        first=("CREATE TABLE hints.keyless_b (id INT) USING hudi", "SET hoodie.index.type = BUCKET"),
        again=True,
        last=("RESET hoodie.index.type",),
    ),
    "rename into another database": Advice(
        "ALTER TABLE hints.t RENAME TO default.hints_t",
        r"(CREATE TABLE .* LOCATION '.*') registers",
        last=("DROP TABLE default.hints_t",),
    ),
    "unset a property that is not there": Advice(
        "ALTER TABLE hints.t UNSET TBLPROPERTIES (nothing)",
        r"(UNSET TBLPROPERTIES IF EXISTS)",
        fill=(("UNSET", "ALTER TABLE hints.t UNSET"), ("EXISTS", "EXISTS (nothing)")),
    ),
    "no such database": Advice(
        "CREATE TABLE hints_other.t (id INT) USING hudi",
        r"(CREATE DATABASE \S+)",
        again=True,
        last=("DROP TABLE hints_other.t", "DROP DATABASE hints_other"),
    ),
    "create over a table that is not registered": Advice(
        "CREATE TABLE hints.again USING hudi LOCATION '{p}/gone' AS SELECT 1 AS id",
        r"(CREATE TABLE .* LOCATION '.*?')",
        first=(
            "CREATE TABLE hints.gone (id INT) USING hudi LOCATION '{p}/gone' "
            "TBLPROPERTIES (primaryKey = 'id')",
            "DROP TABLE hints.gone",
        ),
    ),
    "a table that differs": Advice(
        "CREATE TABLE hints.differs (other INT) USING hudi LOCATION '{p}/t'",
        r"(CREATE TABLE … USING hudi LOCATION '…') without",
        fill=(("…", "hints.differs"), ("…", "{p}/t")),
    ),
    "a plain table over a table's directory": Advice(
        "CREATE TABLE hints.plain USING parquet LOCATION '{p}/t'",
        r"(CALL hive_sync\(.*?\))",
        fill=(("db.name", "hints.by_path"),),
        last=("SELECT * FROM hints.by_path",),
    ),
    "cache a table": Advice(
        "CACHE TABLE hints.t",
        r"(CACHE TABLE name AS SELECT .*)",
        fill=((" name ", " hints_cached "),),
        last=("UNCACHE TABLE hints_cached",),
    ),
    "create like": Advice(
        "CREATE TABLE hints.like_t LIKE hints.t USING parquet",
        r"(CREATE TABLE … USING parquet AS SELECT)",
        fill=(("…", "hints.like_t"), ("SELECT", "SELECT * FROM hints.t")),
    ),
    "a managed source": Advice(
        "CALL bootstrap_table(table => 'hints.from_managed', source_table => 'hints.managed', "
        "record_key => 'id', target_path => '{p}/from_managed')",
        r"run (ALTER TABLE .*?\)), or give",
        first=(
            "CREATE TABLE hints.managed (id BIGINT) STORED AS PARQUET",
            "INSERT INTO hints.managed SELECT id FROM range(3)",
        ),
        again=True,
    ),
    "kinds of a custom key generator's fields": Advice(
        "INSERT INTO hints.generated VALUES (1, 'eu')",
        r"(SET \S+ = \S+);",
        first=(
            "CREATE TABLE hints.generated_first (id INT, p STRING) USING hudi PARTITIONED BY (p) "
            "LOCATION '{p}/generated' TBLPROPERTIES (primaryKey = 'id', 'hoodie.table.keygenerator.class' = "
            "'org.apache.hudi.keygen.CustomKeyGenerator', "
            "'hoodie.datasource.write.partitionpath.field' = 'p:SIMPLE')",
            "CREATE TABLE hints.generated USING hudi LOCATION '{p}/generated'",
        ),
        again=True,
        last=("RESET hoodie.datasource.write.partitionpath.field",),
    ),
    "a view's rows": Advice(
        "UPDATE hints.v SET v = 'x'",
        r"name the table itself: (.*)",
        first=("CREATE VIEW hints.v AS SELECT * FROM hints.t",),
        fill=(("hints.t", "UPDATE hints.t SET v = 'x'"),),
    ),
}


database = database_fixture("hints", scope="module", autouse=True)


@pytest.fixture(scope="module")
def directory(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hints")
    session.sql(
        f"CREATE TABLE hints.t (id INT, v STRING) USING hudi LOCATION '{path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("INSERT INTO hints.t VALUES (1, 'a')")
    return path


@pytest.mark.parametrize("advice", ADVICE.values(), ids=ADVICE)
def test_what_a_hint_advises_runs(session: Session, directory: Path, advice: Advice) -> None:
    def run(text: str) -> None:
        session.sql(text.replace("{p}", str(directory))).rows  # noqa: B018

    for text in advice.first:
        run(text)
    with pytest.raises(HudisqlError) as refused:
        run(advice.failing)
    said = f"{refused.value.message}\n{refused.value.hint or ''}"
    found = re.search(advice.advised, said)
    assert found, said
    statement = found[1]
    for words, put in advice.fill:
        assert words in statement, statement
        statement = statement.replace(words, put, 1)
    run(statement)
    for text in (*([advice.failing] if advice.again else []), *advice.last):
        run(text)


def test_a_type_that_the_files_do_not_have_is_bootstrapped_from_the_directory_as_advised(
    session: Session, directory: Path
) -> None:
    session.spark.range(5).selectExpr("CAST(id AS STRING) AS id", "id AS n").write.parquet(
        str(directory / "typed")
    )
    session.sql(
        "CREATE EXTERNAL TABLE hints.typed (id INT, n BIGINT) STORED AS PARQUET "
        f"LOCATION '{directory / 'typed'}'"
    )
    target = f"record_key => 'id', target_path => '{directory / 'from_typed'}', on_schema_drift => 'widen'"
    with pytest.raises(BootstrapBlockedError) as refused:
        session.sql(f"CALL bootstrap_table(table => 'hints.ty', source_table => 'hints.typed', {target})")
    advised = re.search(
        r"give (source => '<the table's directory>') instead of source_table",
        refused.value.message,
    )
    assert advised
    given = advised[1].replace("<the table's directory>", str(directory / "typed"))
    session.sql(f"CALL bootstrap_table(table => 'hints.ty', {given}, {target})")
    assert len(session.sql("SELECT * FROM hints.ty").rows) == 5


def test_a_table_whose_only_commit_is_lost_works_again_when_it_is_restored(
    session: Session, directory: Path
) -> None:
    path = directory / "lost"
    frame = session.spark.sql("SELECT 1 AS id")
    session.write(frame, "hints.lost", "insert", path=str(path))
    properties = path / ".hoodie" / "hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if "create.schema" not in line]
    properties.write_text("\n".join(kept) + "\n")
    (commit,) = (path / ".hoodie").glob("*.commit")
    content = commit.read_bytes()
    commit.unlink()
    with pytest.raises(CorruptTableError, match=r"carries a schema(.|\n)*restore the commit files.*\.hoodie"):
        session.sql("INSERT INTO hints.lost VALUES (2)")
    commit.write_bytes(content)
    session.sql("INSERT INTO hints.lost VALUES (2)")
    assert len(session.sql("SELECT * FROM hints.lost").rows) == 2
