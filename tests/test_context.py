"""What a statement is given: copies of a context keep what earlier copies were told."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.config.settings import Settings
from hudisql.console import SilentConsole
from hudisql.context import Context


class _Parts:
    """Parts of which only the Spark without a catalog may be asked for."""

    spark_without_catalog = "plain"

    @property
    def spark(self) -> Any:
        raise AssertionError("Spark was started with a catalog")


@pytest.mark.parametrize("is_first", [True, False])
def test_copies_of_a_context_combine(is_first: bool) -> None:
    parts: Any = _Parts()
    checkpoint: Any = object()
    context = Context.of_parts(parts, Settings(), SilentConsole())
    made = (
        context.without_catalog().with_checkpoint(checkpoint)
        if is_first
        else context.with_checkpoint(checkpoint).without_catalog()
    )
    assert made.checkpoint is checkpoint
    assert made.spark == "plain"
    assert context.checkpoint is None
