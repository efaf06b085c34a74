"""The decorator of compiled loops (numba), for modules named `*_kernels`.

Importing this module loads numba, which takes a moment. So kernels stand in modules of their
own, which are imported when a loop is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled by numba, kept on disk where that is possible."""
    try:
        return numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    except RuntimeError:
        # No directory for compiled code: the package lies in a zip file or nothing is writable.
        return numba.njit(nogil=True, boundscheck=False)(function)
