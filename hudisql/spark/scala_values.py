"""Scala values behind py4j, as Python sees them: sequences, maps, class names; nothing about plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items_of(scala_sequence: Any) -> Iterator[Any]:
    """The items of a Scala `Seq`, in order."""
    for position in range(scala_sequence.size()):
        yield scala_sequence.apply(position)


def pairs_of(scala_map: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a Scala `Map`."""
    iterator = scala_map.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        yield pair.productElement(0), pair.productElement(1)


def class_name(value: Any) -> str:
    """The simple name of a value's Java class."""
    return str(value.getClass().getSimpleName())
