"""Pulls and streams from a table that was made again end in an error: their place is in the earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from hudisql.errors import NoSuchStateError
from hudisql.session import Session
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.soak import parameters
from tests.sources import orders, write_parquet
from tests.spark_versions import module_since
from tests.sql.changed_tables import database_fixture

pytestmark = [pytest.mark.spark, pytest.mark.hms]

SAID = r"is another table now: it was created again.*with a new checkpoint"


database = database_fixture("again")


class Source:
    """The table `again.src`, made by INSERT or by a bootstrap, and made again with other rows."""

    def __init__(self, session: Session, directory: Path, kind: str) -> None:
        self.session, self.directory, self.kind = session, directory, kind
        self.path = directory / "table"
        self._make(0)

    def _make(self, first: int) -> None:
        if self.kind == "bootstrap":
            source = self.directory / f"source{first}"
            write_parquet(source / "part-0.parquet", orders(first, 4))
            self.session.sql(
                f"CALL bootstrap_table(table => 'again.src', source => '{source}', record_key => 'id', "
                f"target_path => '{self.path}')"
            )
            return
        self.session.sql(
            f"CREATE TABLE again.src (id STRING, seq BIGINT) USING hudi LOCATION '{self.path}' TBLPROPERTIES "
            f"(primaryKey = 'id', type = 'mor', 'hoodie.write.table.version' = '{self.kind}')"
        )
        self.session.sql(f"INSERT INTO again.src VALUES ('k{first}', {first}), ('k{first + 1}', 7)")

    def make_again(self) -> None:
        if self.kind == "bootstrap":
            self.session.sql("CALL rollback_bootstrap(table => 'again.src', force => true)")
        else:
            self.session.sql("DROP TABLE again.src PURGE")
        self._make(1)

    def opened(self) -> HudiTable:
        return open_at(self.path)


@pytest.fixture(params=parameters(["bootstrap", "6", "9"], in_ci=["bootstrap", "9"]))
def source(session: Session, tmp_path: Path, request: pytest.FixtureRequest, database: None) -> Source:  # noqa: ARG001
    return Source(session, tmp_path, request.param)


def test_a_pull_says_that_its_source_was_made_again(source: Source, tmp_path: Path) -> None:
    session, checkpoint = source.session, str(tmp_path / "checkpoint")
    with session.incremental("again.src", checkpoint) as pull:
        assert not pull.is_empty
    with session.incremental("again.src", into="again.copy") as into:
        key = {"hoodie.datasource.write.recordkey.field": "id"}
        into.write(into.df.select("id", "seq"), path=str(tmp_path / "copy"), **key)
    assert session.incremental("again.src", checkpoint).is_empty
    assert session.incremental("again.src", into="again.copy").is_empty
    source.make_again()
    with pytest.raises(NoSuchStateError, match=f"(?s){SAID}"):
        session.incremental("again.src", checkpoint)
    with pytest.raises(NoSuchStateError, match=f"(?s){SAID}, or into a new table"):
        session.incremental("again.src", into="again.copy")
    assert session.incremental("again.src", str(tmp_path / "new")).df.count() > 0


def test_a_stream_says_that_its_table_was_made_again(source: Source) -> None:
    reader_class = module_since("4.0", "Python data sources", "pyspark_hudisql.stream").HudiStreamReader
    reader = reader_class({"path": str(source.path)}, StructType())
    taken = reader.latestOffset()
    assert reader.partitions(taken, reader.latestOffset()) == []
    source.make_again()
    with pytest.raises(NoSuchStateError, match=f"(?s){SAID}"):
        reader.partitions(taken, reader.latestOffset())
    # An offset of a checkpoint that was written before bootstraps were told apart.
    earlier = {"commitTime": taken["commitTime"]}
    if source.kind == "bootstrap":
        assert reader.partitions(earlier, earlier) == []


def test_a_table_without_rows_is_not_nothing_new(session: Session, tmp_path: Path, database: None) -> None:  # noqa: ARG001
    source = Source(session, tmp_path, "6")
    with session.incremental("again.src", str(tmp_path / "checkpoint")) as pull:
        end = pull.end
    session.sql(f"CALL rollback_to_instant(table => 'again.src', instant_time => '{end}')")
    assert not source.opened().timeline.commits
    with pytest.raises(NoSuchStateError, match=f"the commit {end} .* was undone by a rollback"):
        session.incremental("again.src", str(tmp_path / "checkpoint"))
    session.sql("ALTER TABLE again.src ADD COLUMNS (note STRING)")
    with pytest.raises(NoSuchStateError, match=f"the commit {end} .* was undone by a rollback"):
        session.incremental("again.src", str(tmp_path / "checkpoint"))


def test_a_place_that_was_kept_without_its_bootstrap_goes_on(
    session: Session,
    tmp_path: Path,
    database: None,  # noqa: ARG001
) -> None:
    Source(session, tmp_path, "bootstrap")
    checkpoint = tmp_path / "checkpoint"
    with session.incremental("again.src", str(checkpoint)) as pull:
        end = pull.end
    (checkpoint / f"{end}.json").write_text(f'{{"table": "{pull.table}", "begin": "000", "end": "{end}"}}')
    session.sql("UPDATE again.src SET seq = 9 WHERE id = 'k00001'")
    assert [row.id for row in session.incremental("again.src", str(checkpoint)).df.collect()] == ["k00001"]
