from __future__ import annotations

import pyarrow as pa
import pytest

from hudisql.format.table_properties import TableProperties
from hudisql.table.properties.virtual_keys import unwritten_virtual_keys

_TABLE = {
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.populate.meta.fields": "false",
    "hoodie.table.version": "6",
}
_SCHEMA = pa.schema([("id", pa.int32()), ("day", pa.date32()), ("price", pa.decimal128(10, 2))])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}, None),
        ({"hoodie.table.keygenerator.type": "COMPLEX_AVRO"}, None),
        ({"hoodie.table.keygenerator.type": "NON_PARTITION"}, None),
        ({"hoodie.table.type": "MERGE_ON_READ"}, None),
        (
            {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.partition.fields": "dt,id"},
            "id is a key column and a partition column",
        ),
        (
            {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.recordkey.fields": "id,day"},
            r"merge-on-read, and .* key column day of the type date32\[day\]",
        ),
        (
            {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.recordkey.fields": "price"},
            r"key column price of the type decimal128\(10, 2\)",
        ),
        (
            {
                "hoodie.table.type": "MERGE_ON_READ",
                "hoodie.table.recordkey.fields": "price",
                "hoodie.table.version": "9",
            },
            None,
        ),
        (
            {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.keygenerator.type": "COMPLEX"},
            "its complex key generator has a single key column",
        ),
        ({"hoodie.table.type": "MERGE_ON_READ", "hoodie.populate.meta.fields": "true"}, None),
        ({"hoodie.bootstrap.base.path": "/source"}, "it is bootstrapped"),
        ({"hoodie.table.cdc.enabled": "true"}, "it logs changes"),
        ({"hoodie.table.recordkey.fields": ""}, "its record keys are generated"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "its files lack the partition columns"),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, "its key generator is TIMESTAMP"),
        (
            {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"},
            "its key generator is CustomKeyGenerator",
        ),
        ({"hoodie.table.metadata.partitions": "files,record_index"}, r"indexes of .* \(record_index\)"),
        ({"hoodie.table.metadata.partitions": "files,column_stats"}, None),
    ],
)
def test_which_tables_without_meta_columns_are_written(changed: dict[str, str], reason: str | None) -> None:
    found = unwritten_virtual_keys(TableProperties({**_TABLE, **changed}), _SCHEMA)
    assert found == reason or (reason is not None and found is not None and _matches(reason, found))


def _matches(reason: str, found: str) -> bool:
    with pytest.raises(ValueError, match=reason):
        raise ValueError(found)
    return True
