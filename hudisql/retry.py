"""Calls that are made again after an error that may pass; waiting for locks and leases is not among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def retry(call: Callable[[], T], may_pass: Callable[[Exception], bool], pauses: Iterable[float]) -> T:
    """The result of `call`, which is made again after each pause while its error may pass.

    The error of the last call, or one that does not pass, comes out.
    """
    for seconds in pauses:
        try:
            return call()
        except Exception as error:
            if not may_pass(error):
                raise
        time.sleep(seconds)
    return call()
