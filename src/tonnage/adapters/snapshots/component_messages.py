"""Texts of the scheduler, of quota and of kubelet's admission: they are made of names and numbers.

They decide answers, and no value of a manifest gets into them; so they stay, though a variable may be called
`nodes`. Only the whole text counts: one with anything else in it is searched as every other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

OWN_CONDITIONS: Final = frozenset(("GPUsHealthy", "GPUConfigApplied"))
"""Conditions of nodes that the agent writes."""
_NAME: Final = '"[a-z0-9][a-z0-9.-]*"'
_NAMES: Final = rf"""(?:[A-Za-z0-9_ .,:;/()+=\[\]{{}}'*<>-]|{_NAME})*"""
_TURNED_AWAY: Final = (
    "Allocate failed due to", "Node didn't have enough resource:", "Predicate", "The node was low on",
    "Resources cannot be allocated with", "The node had condition",
)  # fmt: skip
_OWN: Final = re.compile(
    "|".join(
        (
            rf"0/[0-9]+ nodes are available{_NAMES}",
            "no nodes available to schedule pods",
            "Scheduling is blocked due to non-empty scheduling gates",
            rf"(?:Error creating: )?(?:pods {_NAME} is forbidden: )?(?:exceeded|failed) quota: {_NAMES}",
            rf"(?:couldn't assign flavors|[Ii]nsufficient (?:unused )?quota|Previously: ){_NAMES}",
            rf"(?:Pod was rejected: )?(?:{'|'.join(_TURNED_AWAY)}){_NAMES}",
            rf"containers with (?:unready|incomplete) status: {_NAMES}",
            r"back-off \S{1,20} restarting failed container=[a-z0-9-]+ pod=[a-z0-9._()-]+",
            r"kubelet (?:has|is) [A-Za-z ]+",
        )
    )
)


@lru_cache(1024)
def is_own(text: str) -> bool:
    """Whether a text is made of nothing but fixed words, names and numbers.

    >>> is_own("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), is_own('exec: "a": not found')
    (True, False)
    """
    return _OWN.fullmatch(text) is not None
