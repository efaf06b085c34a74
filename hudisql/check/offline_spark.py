"""Spark for a check without a metastore: one thread, a catalog in memory, a temporary warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hudisql.config.settings import Settings
from hudisql.spark.jvm import clone_session
from hudisql.spark.spark_session import start_spark
from hudisql.startup import running_spark


@contextmanager
def offline_spark(settings: Settings, directory: str) -> Iterator[Any]:
    """A session of the Spark that runs in this process, or of one that ends with the block.

    Raises SettingsError if Spark does not start.
    """
    running = running_spark()
    if running is not None:
        yield clone_session(running)
        return
    conf = {"spark.sql.catalogImplementation": "in-memory"}
    alone = settings.with_layer({"conf": conf, "master": "local[1]"}, "check")
    owned = start_spark(alone, directory, ())
    try:
        yield owned.spark
    finally:
        owned.spark.stop()
