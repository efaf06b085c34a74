"""Long matrices: which of their cases run in CI, and which in `make soak` only."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def parameters(values: Iterable[Any], *, in_ci: Collection[Any]) -> list[Any]:
    """Parameters for `parametrize`; values that are not `in_ci` (by `name`, where they have one) are soak."""
    listed = list(values)
    names = [getattr(value, "name", value) for value in listed]
    missing = [name for name in in_ci if name not in names]
    assert not missing, f"no such cases: {missing}"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if name in in_ci else pytest.mark.soak,
        )
        for value, name in zip(listed, names, strict=True)
    ]
