"""A Spark home for the clusters that the tests start."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark home of links: local-cluster writes its workers' directories into it."""
    import pyspark

    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home
