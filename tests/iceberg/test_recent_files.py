"""What a process keeps of metadata files holds for the Iceberg table that has written them, and no other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.iceberg.readers import check_shown, metadata_of, verification_of

pytestmark = [pytest.mark.spark, pytest.mark.hms]

PUBLISH = """
import sys
from hudisql.iceberg.publication import publish
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table

publish(open_table(Storage(), sys.argv[1]), format_version=3)
"""


@pytest.mark.soak
def test_a_directory_that_another_process_has_made_anew_is_read_again(session: Any) -> None:
    name = "oracle.made_anew"
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(
        f"CREATE TABLE {name} USING hudi TBLPROPERTIES (primaryKey = 'id', "
        "'hudisql.iceberg.sync' = 'true') AS SELECT 1L AS id, 'a' AS name"
    )
    path = str(session.context.metastore.get_table("oracle", "made_anew").location.removeprefix("file:"))
    shutil.rmtree(Path(path, ".hoodie/iceberg"))
    # The same state by the same version, but another table, whose files have other contents.
    subprocess.run([sys.executable, "-c", PUBLISH, path], check=True)
    anew = metadata_of(path)
    session.sql(f"UPDATE {name} SET name = 'b'")
    now = metadata_of(path)
    assert (now["table-uuid"], now["format-version"]) == (anew["table-uuid"], 3)
    assert verification_of(path).problems == ()
    check_shown(session, name, path)
    session.sql(f"DROP TABLE {name}")
