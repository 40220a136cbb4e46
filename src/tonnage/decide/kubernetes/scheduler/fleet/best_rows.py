"""Which rows are the best of some that follow one another in a circle, wherever one begins."""

from __future__ import annotations

import numpy as np

from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Mask


def may_be_best(values: Amounts, size: int) -> Mask:
    """Of values in a circle: which are the largest of `size` neighbours. As `sampling.may_choose`.

    >>> may_be_best(np.array([1, 3, 2, 2]), 2).tolist()
    [False, True, True, True]
    """
    count = len(values)
    size = min(size, count)
    if size < 2:
        return np.ones(count, bool)
    from_here = _largest(np.concatenate((values, values[: size - 1])), size)
    here = np.concatenate((from_here[count - size + 1 :], from_here))
    best: Mask = values == -_largest(-here, size)
    return best


def _largest(values: Amounts, size: int) -> Amounts:
    """The largest of each `size` that follow one another: of twice as many at each step."""
    largest, width = values, 1
    while width < size:
        step = min(width, size - width)
        largest = np.maximum(largest[:-step], largest[step:])
        width += step
    return largest
