"""The file of index definitions of a table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import CorruptTableError
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from tests.opened import open_at


@pytest.mark.parametrize(
    "changed",
    [
        {"sourceFields": [{"a": 1}]},
        {"indexOptions": {"pos": 1}},
        {"indexOptions": ["x"]},
        {"indexFunction": 3},
        {"indexType": None},
    ],
)
def test_definitions_of_other_types_are_one_error(
    golden: Callable[[str], Any], tmp_path: Path, changed: dict[str, Any]
) -> None:
    path = shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table")
    table = open_at(path)
    assert "record_index" in read_index_definitions(table)
    file = path / ".hoodie/.index_defs/index.json"
    document = json.loads(file.read_text())
    document["indexDefinitions"]["record_index"].update(changed)
    file.write_text(json.dumps(document))
    with pytest.raises(CorruptTableError, match=r"the index definitions .*index\.json cannot be read"):
        read_index_definitions(table.reopened())
