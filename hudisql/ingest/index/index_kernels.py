"""Compiled loops over sorted runs of index elements (numba).

An element is 48 bits of a key's hash above 16 bits of its file group's number. Importing this module loads
numba: only `sorted_index` does.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled

UNKNOWN = -1
AMBIGUOUS = -2
_GROUP_BITS = np.uint64(16)
_FIRST_STEP = 4


@compiled
def _lower_bound(run, low, guess, target):  # type: ignore[no-untyped-def]
    # The first position from `low` on whose element is not below `target`: doubling steps away from the
    # guess, then halving. Hashes are spread evenly, so that a guess is a few elements off.
    size = len(run)
    guess = max(low, min(guess, size - 1))
    step = _FIRST_STEP
    if run[guess] < target:
        below = guess
        while below + step < size and run[below + step] < target:
            below += step
            step *= 2
        above = min(below + step, size)
    else:
        above = guess
        while above - step >= low and run[above - step] >= target:
            above -= step
            step *= 2
        below = max(above - step, low - 1)
    while above - below > 1:
        middle = (below + above) >> 1
        if run[middle] < target:
            below = middle
        else:
            above = middle
    return above


@compiled
def look_up(run, hashes, order, found):  # type: ignore[no-untyped-def]
    """Combine `found` (of all runs so far) with what the run holds of each hash.

    `hashes` ascend and have no group bits; `order` gives each one's position in `found`.
    """
    density = len(run) / 18446744073709551616.0
    position, previous = 0, np.uint64(0)
    for number in range(len(hashes)):
        target = hashes[number]
        guess = position + np.int64(np.float64(target - previous) * density)
        position = _lower_bound(run, position, guess, target)
        previous = target
        if position == len(run):
            break
        if run[position] >> _GROUP_BITS != target >> _GROUP_BITS:
            continue
        group = np.int32(run[position] & np.uint64(0xFFFF))
        row = order[number]
        if position + 1 < len(run) and run[position + 1] >> _GROUP_BITS == target >> _GROUP_BITS:
            found[row] = AMBIGUOUS
        elif found[row] == UNKNOWN:
            found[row] = group
        elif found[row] != group:
            found[row] = AMBIGUOUS


@compiled
def mark_known(run, elements, known):  # type: ignore[no-untyped-def]
    """Set `known` where the run holds the very element; `elements` ascend."""
    density = len(run) / 18446744073709551616.0
    position, previous = 0, np.uint64(0)
    for number in range(len(elements)):
        target = elements[number]
        guess = position + np.int64(np.float64(target - previous) * density)
        position = _lower_bound(run, position, guess, target)
        previous = target
        if position == len(run):
            break
        if run[position] == target:
            known[number] = True


@compiled
def merge_into(run, size, added):  # type: ignore[no-untyped-def]
    """Merge the ascending `added` into the first `size` elements of the run, which has room for both."""
    left, right = size - 1, len(added) - 1
    for at in range(size + len(added) - 1, -1, -1):
        if right < 0:
            return
        if left >= 0 and run[left] > added[right]:
            run[at] = run[left]
            left -= 1
        else:
            run[at] = added[right]
            right -= 1


@compiled
def keep_other_groups(run, is_dropped):  # type: ignore[no-untyped-def]
    """Move the elements of groups that are not dropped to the front; gives how many these are."""
    kept = 0
    for at in range(len(run)):
        if not is_dropped[run[at] & np.uint64(0xFFFF)]:
            run[kept] = run[at]
            kept += 1
    return kept


@compiled
def groups_of(run, hashes, rows, groups, count):  # type: ignore[no-untyped-def]
    """Append (number of the hash, group) for each element of the ascending `hashes`.

    Gives how many there are with those before, also where the arrays are too short to hold them.
    """
    position = 0
    for number in range(len(hashes)):
        target = hashes[number]
        position = _lower_bound(run, position, position, target)
        at = position
        while at < len(run) and run[at] >> _GROUP_BITS == target >> _GROUP_BITS:
            if count < len(rows):
                rows[count] = number
                groups[count] = np.int32(run[at] & np.uint64(0xFFFF))
            count += 1
            at += 1
        if position == len(run):
            break
    return count
