"""The broker of tests/ingest."""

from tests.ingest.conftest import broker

__all__ = ["broker"]
