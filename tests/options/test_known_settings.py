"""Misspelt settings get the name that was meant; what Hudi knows, or is far from it, is left alone."""

from __future__ import annotations

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import InvalidArgumentError, SettingsError
from hudisql.options.known_settings import misspelt_properties, misspelt_settings
from hudisql.session import Session
from tests.sql.changed_tables import ROWS, ChangedTable, setting


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("hoodie.parquet.max.filesize", "hoodie.parquet.max.file.size"),
        ("hoodie.datasource.write.precombinefield", "hoodie.datasource.write.precombine.field"),
        ("hoodie.datasource.write.operaton", "hoodie.datasource.write.operation"),
        ("hoodi.index.type", "hoodie.index.type"),
        ("hudisql.synch", "hudisql.sync"),
    ],
)
def test_a_misspelt_setting_gets_the_one_that_was_meant(given: str, meant: str) -> None:
    assert misspelt_settings([given]) == {given: meant}


def test_other_names_are_nobody_s_typing_errors() -> None:
    known_to_hudi = [
        "hoodie.metadata.enable",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.cleaner.commits.retained",
    ]
    others = [
        "spark.sql.ansi.enabled",
        "hoodie.lake.trips.consume.mode",
        "team",
        "owner_mail",
        "HOODIE.INDEX.TYPE",
    ]
    assert misspelt_settings(known_to_hudi + others) == {}
    assert misspelt_properties([*known_to_hudi, *others, "primarykey", "preCombineField", "types_of"]) == {}
    assert misspelt_properties(["preCombine", "PRECOMBINE", "orderingfields", "TYPE"]) == {}
    assert misspelt_properties(["precombinefeld", "primary_key", "recordKey", "primary", "preCombin"]) == {
        "precombinefeld": "preCombineField",
        "primary_key": "primaryKey",
        "recordKey": "primaryKey",
        "primary": "primaryKey",
        "preCombin": "preCombineField",
    }


@pytest.mark.spark
@pytest.mark.hms
def test_misspelt_settings_are_told_of_wherever_they_are_given(
    session: Session, table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(SilentConsole, "warning", lambda _, text: said.append(text))
    with (
        setting(session, "hoodie.parquet.max.filesize", "1000"),
        setting(session, "hoodie.index.type", "SIMPLE"),
    ):
        pass
    session.sql(
        "CREATE TABLE changes.typo (id INT, ts INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id', precombinefeld = 'ts', team = 'x')"
    )
    session.sql(
        "ALTER TABLE changes.typo SET TBLPROPERTIES ('hoodie.index.typ' = 'SIMPLE', tableType = 'cow',"
        " 'hoodie.lake.trips.consume.mode' = 'LATEST', 'hoodie.wholly.new' = '1')"
    )
    session.sql(
        "ALTER TABLE changes.typo SET TBLPROPERTIES ('hoodie.note.a' = '1',"
        " 'hoodie.datasource.write.commitmeta.key.prefix' = 'hoodie.note.')"
    )
    session.sql("ALTER TABLE changes.typo SET TBLPROPERTIES ('hoodie.note.b' = '1')")
    rows = session.spark.sql("SELECT 'n' AS id, 1 AS seq, '2024-03-01' AS dt")
    session.write(rows, table.name, **{"hoodie.upsert.shuffle.paralelism": "2"})
    with pytest.raises(InvalidArgumentError) as caught:
        session.write(rows, table.name, **{"precombinefeld": "seq"})
    assert caught.value.hint == "did you mean 'preCombineField'?"
    session.sql("DROP TABLE changes.typo PURGE")
    assert [text.replace("unknown setting ", "") for text in said] == [
        "SET: 'hoodie.parquet.max.filesize'; did you mean 'hoodie.parquet.max.file.size'?",
        "CREATE TABLE changes.typo: 'precombinefeld'; did you mean 'preCombineField'?",
        "ALTER TABLE changes.typo: 'hoodie.index.typ'; did you mean 'hoodie.index.type'?",
        "ALTER TABLE changes.typo: 'tableType'; did you mean 'type'?",
        "ALTER TABLE changes.typo: 'hoodie.wholly.new' has no effect",
        "options of a write to changes.t: 'hoodie.upsert.shuffle.paralelism'; "
        "did you mean 'hoodie.upsert.shuffle.parallelism'?",
    ]


@pytest.mark.spark
@pytest.mark.hms
def test_settings_that_are_not_served_are_refused_by_name(session: Session, table: ChangedTable) -> None:
    for query_type in ("incremental", "read_optimized"):
        with setting(session, "hoodie.datasource.query.type", query_type):
            for statement in (f"SELECT * FROM {table.name}", f"DELETE FROM {table.name}"):
                with pytest.raises(SettingsError, match=f"hoodie.datasource.query.type = {query_type}"):
                    session.sql(statement)
    for key, value, statement in (
        ("hoodie.write.table.version", "8", "UPDATE {t} SET seq = 1"),
        ("hoodie.combine.before.upsert", "false", "INSERT INTO {t} SELECT * FROM {t}"),
    ):
        with (
            setting(session, key, value),
            pytest.raises(SettingsError, match=f"{key} = {value} is not supported"),
        ):
            table.run(statement)
    assert len(table.rows()) == ROWS
