"""Reads Hudi tables with hudi-rs in its own virtual environment: `hudi_rs_reader.py OUTPUT TABLE FILTERS`.

The rows of the table's snapshot go to an Arrow file. FILTERS is a JSON list of filters, each with a column,
an operator and a value.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder


def main() -> None:
    """Read one table."""
    output, path, filters = sys.argv[1:]
    table = HudiTableBuilder.from_base_uri(path).build()
    options = HudiReadOptions().with_filters([tuple(each) for each in json.loads(filters)])
    batches = [pa.record_batch(batch) for batch in table.read(options)]
    with pa.OSFile(output, "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


if __name__ == "__main__":
    main()
