"""In what order groups are told: by the priorities of their APIServices, of which the twin keeps none.

Source: pkg/controlplane/apiserver/aggregator.go, v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.twin.apiserver.resource_names import API_SERVICE

_GROUPS: Final = {
    "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200, "policy": 17100, "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700, "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
    "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}  # fmt: skip
"""Built-in groups by the priority of their APIServices; higher ones come first."""
_CUSTOM: Final = 1000


def group_order(group: str) -> tuple[int, str]:
    """Where a group comes in lists of groups: the core, the API of APIServices, then by priority and name."""
    if group in ("", API_SERVICE[0]):
        return (-20000 if group else -20001), group
    return -_GROUPS.get(group, _CUSTOM), group
