"""Tables that events are written to, as the tests of the ingest have them."""

from __future__ import annotations

from tests.ingest.conftest import tables

__all__ = ["tables"]
