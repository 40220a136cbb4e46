"""Amounts of memory as a server writes them: what is published must read back as the same text."""

from __future__ import annotations

from typing import Final

_SUFFIXES: Final = ("Mi", "Gi", "Ti")


def quantity_of(mib: int) -> str:
    """Memory as Kubernetes writes it.

    >>> quantity_of(40960), quantity_of(46068)
    ('40Gi', '46068Mi')
    """
    suffix = 0
    while mib and mib % 1024 == 0 and suffix < len(_SUFFIXES) - 1:
        mib, suffix = mib // 1024, suffix + 1
    return f"{mib}{_SUFFIXES[suffix]}"
