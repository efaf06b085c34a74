"""Two statements change one declaration at the same time: neither undoes what the other one did."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.ingest.declaration import declaration_of
from hudisql.service_process.ingest import declaration_changes
from hudisql.service_process.ingest.declaration_changes import change_declaration
from hudisql.session import Session
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_a_drain_beside_a_pause_keeps_both_marks(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_database(session, "marks"):
        session.sql(
            "CREATE TABLE marks.t (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id') "
            f"LOCATION '{tmp_path}/t'"
        )
        session.sql("CALL ingest_table(table => 'marks.t', topic => 'a', bootstrap_servers => 'b:1')")
        store = declaration_changes.store_declaration
        pauses = ["once"]

        def store_late(*arguments: object) -> None:
            if pauses:
                pauses.pop()
                change_declaration(session.context, "marks.t", paused=True)
            store(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(declaration_changes, "store_declaration", store_late)
        change_declaration(session.context, "marks.t", drained=True)
        entry = session.context.metastore.get_table("marks", "t")
        assert entry is not None
        declaration = declaration_of(entry.parameters)
        assert declaration is not None
        assert (declaration.paused, declaration.drained) == (True, True)
