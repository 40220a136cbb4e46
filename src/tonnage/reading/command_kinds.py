"""The kinds that each command reads of a live cluster; `tonnage access` asks for the right to no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.reading.documents import READ_KINDS
from tonnage.wire import kinds
from tonnage.wire.kinds import Kind

STATUS_KINDS: Final[tuple[Kind[Any], ...]] = (
    *(kinds.POD, kinds.NODE, kinds.NODE_GPU_STATUS),
    *(kinds.RESOURCE_SLICE, kinds.RESOURCE_CLAIM),
)
TOPOLOGY_KINDS: Final[tuple[Kind[Any], ...]] = (kinds.NODE, kinds.NODE_GPU_STATUS, kinds.RESOURCE_SLICE)
MIG_KINDS: Final[tuple[Kind[Any], ...]] = (kinds.NODE_GPU_STATUS,)
_OF_ADMISSION: Final = frozenset(
    {
        *(kinds.LIMIT_RANGE, kinds.RUNTIME_CLASS, kinds.SERVICE_ACCOUNT),
        *(kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS),
        *(kinds.ADMISSION_POLICY, kinds.ADMISSION_POLICY_BINDING),
    }
)
CLUSTER_METRICS_KINDS: Final[tuple[Kind[Any], ...]] = tuple(
    kind for kind in READ_KINDS if kind not in _OF_ADMISSION
)
"""Pods that wait have been admitted: what bears on admission alone is not read."""
COMMAND_KINDS: Final[Mapping[str, tuple[Kind[Any], ...]]] = {
    "explain": (*READ_KINDS, kinds.EVENT),
    "status": STATUS_KINDS,
    "top": STATUS_KINDS,
    "claims": READ_KINDS,
    "topo": TOPOLOGY_KINDS,
    "mig plan": MIG_KINDS,
    "doctor": (kinds.NODE, kinds.POD, kinds.RUNTIME_CLASS, kinds.NODE_GPU_STATUS),
    "lint": READ_KINDS,
    "migrate dra": (kinds.NODE, kinds.NODE_GPU_STATUS, kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS),
    "simulate": READ_KINDS,
    "metrics cluster": CLUSTER_METRICS_KINDS,
    "snapshot": tuple(kind for kind in READ_KINDS if kind is not kinds.DEVICE_TAINT_RULE),
}
"""By command."""
AGENTS_NAMESPACE: Final = "tonnage-system"
"""Where the chart installs the agents."""
WATCHING: Final = frozenset({"metrics cluster"})
"""Commands that follow what they read."""
WITH_PAGES: Final = frozenset({"top"})
"""Commands that read what the agents' pods serve, too."""


def kinds_of(command: str = "") -> tuple[Kind[Any], ...]:
    """Those of one command; of all commands where none is named.

    >>> [kind.plural for kind in kinds_of("mig plan")]
    ['nodegpustatuses']
    """
    if command:
        return COMMAND_KINDS[command]
    return tuple(dict.fromkeys(kind for group in COMMAND_KINDS.values() for kind in group))
