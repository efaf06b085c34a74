"""Which of two ordering values is the higher one: one rule for log records, stored rows and incoming rows.

Follows `Comparable.compareTo`, by which Hudi's payloads compare them: of doubles and floats NaN is the
highest value and equal to itself, and -0.0 is lower than 0.0. Arrow's own functions order neither. Knows
arrays, no Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def comparable(values: pa.Array) -> pa.Array:
    """`values` as an array whose `<`, `=` and sort order are those of ordering values; nulls stay null."""
    if not pa.types.is_floating(values.type):
        return values
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    # As integers, negative numbers are in the reverse order.
    return pa.array(bits ^ ((bits >> 63) & np.int64(2**63 - 1)), pa.int64(), mask=is_null)
