"""Tables made of a few files, for tests of watches."""

from __future__ import annotations

from tests.table.conftest import make_table as make_table
