"""Reads Hudi tables with hudi-rs in its own virtual environment: `hudi_rs_reader.py OUTPUT TABLE`.

The rows of the table's snapshot go to an Arrow file.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from hudi import HudiTableBuilder


def main() -> None:
    """Read one table."""
    output, path = sys.argv[1:]
    table = HudiTableBuilder.from_base_uri(path).build()
    batches = [pa.record_batch(batch) for batch in table.read()]
    with pa.OSFile(output, "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


if __name__ == "__main__":
    main()
