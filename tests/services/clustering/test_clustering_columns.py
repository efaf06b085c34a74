"""Scheduling a clustering: columns that rows cannot be sorted by are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.services.clustering.clustering_action import schedule_clustering
from hudisql.services.clustering.clustering_plan import ClusteringOptions, Layout
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.writer_config import WriteOptions
from tests.opened import open_at
from tests.table.conftest import TableDirectory

FIRST = "20261121000001000"
NESTED_SCHEMA = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"tags","type":["null",{"type":"array","items":"string"}],"default":null},'
    '{"name":"counts","type":["null",{"type":"map","values":"long"}],"default":null},'
    '{"name":"maps","type":["null",{"type":"array","items":{"type":"map","values":"long"}}],"default":null},'
    '{"name":"dt","type":["null","string"],"default":null}]}'
)


def _open(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


@pytest.mark.parametrize(
    ("layout", "columns", "refused"),
    [
        ("linear", ("tags", "id"), None),
        ("linear", ("id", "counts"), "'counts' of type map.* in a linear order"),
        ("linear", ("maps",), "'maps' of type list.* in a linear order"),
        ("z-order", ("id", "tags"), "'tags' of type list.* in a z-order curve"),
        ("hilbert", ("id", "tags"), "'tags' of type list.* in a hilbert curve"),
        # Along a single column there is no curve.
        ("hilbert", ("tags",), None),
        ("z-order", ("id", "dt"), None),
    ],
)
def test_clustering_is_planned_only_by_columns_that_can_be_sorted(
    make_table: Callable[..., TableDirectory], layout: Layout, columns: tuple[str, ...], refused: str | None
) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for file_id in ("f", "g"):
        directory.base_file("dt=a", file_id, FIRST)
    directory.commit(FIRST, schema=NESTED_SCHEMA)
    options = ClusteringOptions(sort_columns=columns, layout=layout)
    if refused is None:
        assert schedule_clustering(_open(directory), options, WriteOptions()) is not None
        return
    with pytest.raises(InvalidArgumentError, match=refused):
        schedule_clustering(_open(directory), options, WriteOptions())
    assert not list((directory.path / ".hoodie").glob("*.replacecommit*"))
