"""The states of a driver's upgrade on a node, and which may follow which.

Source: NVIDIA/k8s-operator-libs, pkg/upgrade (as gpu-operator v26.7 vendors it), for names and order.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade.skip"
SKIP_DRAIN_LABEL: Final = "nvidia.com/gpu-driver-upgrade-drain.skip"
"""On a pod: a drain leaves it."""
AUTO_UPGRADE: Final = "nvidia.com/gpu-driver-upgrade-enabled"
"""Told to NVIDIA's driver manager: a controller cordons and evicts, and the manager is to do neither."""
REQUESTED: Final = "nvidia.com/gpu-driver-upgrade-requested"
SAFE_LOAD: Final = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"
"""A driver pod that waits with its module until the node is cordoned and drained."""
USERS_CORDON: Final = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
JOBS_SINCE: Final = "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time"
VALIDATION_SINCE: Final = "nvidia.com/gpu-driver-upgrade-validation-start-time"
OUR_CORDON: Final = "tonnage.dev/driver-upgrade-cordon"
STEP_SINCE: Final = "tonnage.dev/driver-upgrade-step-since"
TARGET: Final = "tonnage.dev/driver-upgrade-target"
"""The digest that the node is, or was last, upgraded to."""
FAILURE: Final = "tonnage.dev/driver-upgrade-failure"
PAUSED: Final = "paused-for-driver-upgrade"


class UpgradeState(StrEnum):
    """Values of the label; a node without it has not been looked at."""

    NONE = ""
    REQUIRED = "upgrade-required"
    CORDON = "cordon-required"
    JOBS = "wait-for-jobs-required"
    POD_DELETION = "pod-deletion-required"
    DRAIN = "drain-required"
    RESTART = "pod-restart-required"
    VALIDATION = "validation-required"
    UNCORDON = "uncordon-required"
    DONE = "upgrade-done"
    FAILED = "upgrade-failed"
    MAINTENANCE = "node-maintenance-required"
    AFTER_MAINTENANCE = "post-maintenance-required"


_S: Final = UpgradeState
TRANSITIONS: Final[Mapping[UpgradeState, frozenset[UpgradeState]]] = {
    _S.NONE: frozenset({_S.REQUIRED, _S.DONE, _S.UNCORDON}),
    _S.REQUIRED: frozenset({_S.CORDON, _S.DONE, _S.UNCORDON, _S.NONE}),
    _S.CORDON: frozenset({_S.JOBS, _S.UNCORDON}),
    _S.JOBS: frozenset({_S.POD_DELETION, _S.UNCORDON}),
    _S.POD_DELETION: frozenset({_S.DRAIN, _S.RESTART, _S.FAILED, _S.UNCORDON}),
    _S.DRAIN: frozenset({_S.RESTART, _S.FAILED, _S.UNCORDON}),
    _S.RESTART: frozenset({_S.VALIDATION, _S.FAILED, _S.UNCORDON}),
    _S.VALIDATION: frozenset({_S.UNCORDON, _S.RESTART, _S.FAILED}),
    _S.UNCORDON: frozenset({_S.DONE}),
    _S.DONE: frozenset({_S.REQUIRED, _S.UNCORDON, _S.NONE}),
    _S.FAILED: frozenset({_S.REQUIRED, _S.UNCORDON}),
    _S.MAINTENANCE: frozenset(),
    _S.AFTER_MAINTENANCE: frozenset(),
}
"""What is under way may end in `uncordon-required` at once, where nobody wants it any more, and what is at
rest in none at all. The last two are those of NVIDIA's maintenance operator, and left to it.
"""

UNDER_WAY: Final = frozenset(
    {_S.CORDON, _S.JOBS, _S.POD_DELETION, _S.DRAIN, _S.RESTART, _S.VALIDATION, _S.UNCORDON}
)
"""In which a node takes a slot."""


def state_of(value: str) -> UpgradeState | None:
    """The state that a label's value names; None: a value of somebody else's.

    >>> state_of("upgrade-done"), state_of("x")
    (<UpgradeState.DONE: 'upgrade-done'>, None)
    """
    try:
        return UpgradeState(value)
    except ValueError:
        return None
