"""Small tables of empty files, for what only names and metadata decide."""

from __future__ import annotations

from tests.table.conftest import make_table as make_table
