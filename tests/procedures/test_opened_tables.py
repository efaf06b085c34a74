"""Procedures open their table by the session's settings, as statements do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hudisql.errors import SettingsError
from hudisql.session import Session
from tests.sql.changed_tables import own_database, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(scope="module")
def opened(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("opened") / "t"
    with own_database(session, "opened"):
        session.sql(
            f"CREATE TABLE opened.t (id STRING) USING hudi LOCATION '{path}' "
            "TBLPROPERTIES (primaryKey = 'id')"
        )
        session.sql("INSERT INTO opened.t VALUES ('a')")
        yield session


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM opened.t",
        "CALL run_clean(table => 'opened.t')",
        "CALL show_cleans(table => 'opened.t')",
        "CALL show_commits(table => 'opened.t')",
        "CALL check_readers(table => 'opened.t')",
        "CALL hive_sync(table => 'opened.t', dry_run => true)",
    ],
)
def test_a_bad_setting_of_reads_is_an_error_of_statements_and_procedures(opened: Session, text: str) -> None:
    with (
        setting(opened, "hudisql.read.changed.sources", "sometimes"),
        pytest.raises(SettingsError, match="must be one of fail, warn, not 'sometimes'"),
    ):
        opened.sql(text).rows  # noqa: B018
