"""What `import hudisql` offers: the session, the results and every error, by lazy imports and with types."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.resources import files

import hudisql
from hudisql import errors
from hudisql.errors import HudisqlError


def test_every_error_and_every_public_name_can_be_imported_from_the_package() -> None:
    declared = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, HudisqlError)
    }
    assert declared <= set(hudisql.__all__)
    assert {"Result", "Session", "WriteResult", "connect", "write_table"} <= set(hudisql.__all__)
    for name in hudisql.__all__:
        assert getattr(hudisql, name) is not None
    assert (files("hudisql") / "py.typed").is_file()


def test_importing_the_package_loads_neither_pyspark_nor_pyarrow() -> None:
    text = "import sys, hudisql; print(*sorted({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == ""
