"""`bootstrap_table` without `record_key`: generated keys, which stay when it is resumed and rows change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hudisql.bootstrap.run import plan_execution as run
from hudisql.errors import InvalidArgumentError, StorageError, TableExistsError
from hudisql.format.table_properties import RECORD_KEY_FIELDS, parse_properties
from tests.sources import fingerprint, orders, write_parquet

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def keys_of(session: Any, name: str) -> dict[str, str]:
    """The record key of each row by its id, none twice."""
    found = [tuple(row) for row in session.sql(f"SELECT id, _hoodie_record_key FROM {name}").rows]
    counted = Counter(key for _, key in found)
    assert None not in counted
    assert [key for key, count in counted.items() if count > 1] == []
    return dict(found)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.soak)])
def test_rows_without_a_key_get_one_that_changes_go_by(
    call, session, daily_orders, tmp_path: Path, name: str, kind: str
) -> None:
    before = fingerprint(daily_orders)
    arguments = {"table": name, "source": daily_orders, "target_path": tmp_path / "t", "table_type": kind}
    shown = call("bootstrap_table", **arguments, full_record_where="dt = '2024-03-02'", dry_run=True)
    assert "no record_key is given: each row gets a generated key" in shown[-1]["warnings"]
    call("bootstrap_table", **arguments, full_record_where="dt = '2024-03-02'")
    assert RECORD_KEY_FIELDS not in parse_properties((tmp_path / "t/.hoodie/hoodie.properties").read_bytes())
    keys = keys_of(session, name)
    assert len(keys) == 80
    assert {key[:14] for key in keys.values()} == {"00000000000001", "00000000000002"}
    assert call("verify_bootstrap", table=name, level="full")[0]

    merged = session.sql(
        f"MERGE INTO {name} t USING (SELECT id, seq FROM {name} WHERE seq % 20 = 3 "
        "UNION ALL SELECT 'new', 5) s ON t.id = s.id WHEN MATCHED AND t.dt = '2024-03-02' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET seq = -1 WHEN NOT MATCHED THEN INSERT (id, seq, dt) "
        "VALUES (s.id, s.seq, '2024-03-01')"
    ).rows[0]
    changed = (merged["rows_updated"], merged["rows_deleted"], merged["rows_inserted"])
    session.sql(f"UPDATE {name} SET seq = -2 WHERE id = 'k00004'")
    session.sql(f"INSERT INTO {name} (id, seq, dt) VALUES ('more', 1, '2024-03-02')")
    after = keys_of(session, name)
    assert changed[0] == changed[1] > 0
    assert changed[2] == 1
    assert len(after) == 80 - changed[1] + 2
    assert all(after[each] == key for each, key in keys.items() if each in after)
    assert fingerprint(daily_orders) == before


def test_a_resumed_run_keeps_the_keys_of_finished_files_and_makes_no_key_twice(
    call, session, daily_orders, tmp_path: Path, name: str, monkeypatch
) -> None:
    write_parquet(daily_orders / "dt=2024-03-01" / "same.parquet", orders())  # keys are not compared
    arguments = {"table": name, "source": daily_orders, "target_path": tmp_path / "t", "resume": True}

    def fail(*_arguments: object) -> None:
        raise StorageError("injected fault")

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_table_files", fail)
        with pytest.raises(StorageError, match="injected fault"):
            call("bootstrap_table", **arguments)
    made = {path.name for path in (tmp_path / "t").rglob("*.parquet")}
    lost = sorted((tmp_path / "t").rglob("*.parquet"))[1]
    lost.unlink()
    total = call("bootstrap_table", **arguments)[-1]
    assert (total["files"], total["rows"]) == (5, 100)
    assert "4 of the files were finished by an earlier run" in total["warnings"]
    assert made - {path.name for path in (tmp_path / "t").rglob("*.parquet")} <= {lost.name}
    counted = session.sql(f"SELECT count(*), count(DISTINCT _hoodie_record_key) FROM {name}").rows[0]
    assert tuple(counted) == (100, 100)


@pytest.mark.parametrize("sort_mode", ["NONE", "GLOBAL_SORT"])
def test_rewritten_rows_without_a_key_are_sorted_by_nothing_and_keep_apart(
    call, session, tmp_path: Path, name: str, sort_mode: str
) -> None:
    for number in range(3):
        write_parquet(tmp_path / "plain" / f"part-{number}.parquet", orders(number * 100))
    call(
        "bootstrap_table",
        table=name,
        source=tmp_path / "plain",
        target_path=tmp_path / "t",
        mode="full_record",
        options=f"hoodie.bulkinsert.sort.mode={sort_mode}",
    )
    assert len(keys_of(session, name)) == 60
    call("verify_bootstrap", table=name, level="full")


def test_an_empty_record_key_is_refused_and_a_table_with_generated_keys_is_no_other(
    bootstrap, call, daily_orders, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidArgumentError, match="record_key names no column"):
        bootstrap(record_key="")
    arguments = {"table": name, "source": daily_orders, "target_path": tmp_path / "t"}
    call("bootstrap_table", **arguments)
    assert "is bootstrapped from this source already" in call("bootstrap_table", **arguments)[0]["warnings"]
    with pytest.raises(TableExistsError, match="its record key is generated"):
        bootstrap()
