"""Files whose pages ISA-L has compressed: Apache Hudi reads them and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import read_by_both
from tests.oracle.shapes import Shape
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

ROWS = 50_000
NAME = "oracle_isal.t"
GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""As ISA-L writes it: of an unknown system, where zlib names the one that it was built for."""


def _newest_is_of_isal(directory: Path) -> bool:
    path = max(directory.glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    column = pq.read_metadata(path).row_group(0).column(2)
    return GZIP_HEADER in path.read_bytes()[column.data_page_offset :][:200]


def _texts(rows: pa.Table) -> list[str]:
    texts: list[str] = rows.sort_by("id")["text"].to_pylist()
    return texts


@pytest.mark.soak
def test_skeletons_and_base_files_are_read_and_upserted(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    ids = pa.array(range(ROWS), pa.int64())
    texts = pc.binary_join_element_wise("text", pc.cast(ids, pa.string()), " ")
    rows = pa.table({"id": ids, "seq": ids, "text": texts})
    source, path = tmp_path / "source", tmp_path / "table"
    source.mkdir()
    # What is merged into a file in snappy would be in snappy, too.
    pq.write_table(rows, source / "part-0.parquet", compression="gzip")
    expected = texts.to_pylist()
    with own_database(session, "oracle_isal"):
        session.sql(
            f"CALL bootstrap_table(table => '{NAME}', source => '{source}', record_key => 'id', "
            f"precombine => 'seq', target_path => '{path}')"
        )
        assert _newest_is_of_isal(path)
        assert _texts(oracle_015.read(str(path))) == expected
        session.sql(f"UPDATE {NAME} SET text = 'changed' WHERE id = 7")
        assert _newest_is_of_isal(path)
        expected[7] = "changed"
        assert _texts(oracle_015.read(str(path))) == expected
        batch = rows.slice(8, 1).set_column(2, "text", pa.array(["by Hudi"]))
        oracle_015.upsert(batch, str(path), Shape("t").write_options())
        expected[8] = "by Hudi"
        assert _texts(read_by_both(oracle_015, session, NAME, str(path))) == expected
