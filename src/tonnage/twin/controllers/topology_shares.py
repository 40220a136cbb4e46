"""Why zones cannot share the endpoints of a service by the CPUs that they have.

Source: k8s.io/endpointslice topologycache (v1.35).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tonnage.model.quantity import parse_quantity
from tonnage.model.well_known import ZONE
from tonnage.twin.controllers.node_health import ready_status
from tonnage.wire.objects import Node

_UNKNOWN: Final = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
_ONE_ZONE: Final = "Nodes only ready in one zone"
_FEW: Final = "Insufficient number of endpoints ({} endpoints, {} zones)"
_CROWDED: Final = (
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
    "({} endpoints, {} zones)"
)
_CONTROL: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OVERLOAD: Final = Fraction(6, 5)


def refusal(nodes: Sequence[Node], ready: int) -> str:
    """Why the `ready` endpoints of a service are not shared out, empty where they could be."""
    if not nodes:
        return _ONE_ZONE
    zones: dict[str, Fraction] = {}
    for node in nodes:
        if any(label in node.metadata.labels for label in _CONTROL) or ready_status(node) != "True":
            continue
        zone = node.metadata.labels.get(ZONE, "")
        cpus = parse_quantity(str(node.status.allocatable.get("cpu", "0")))
        if not zone or not cpus:
            return _UNKNOWN
        zones[zone] = zones.get(zone, Fraction(0)) + cpus
    if len(zones) < 2:
        return _UNKNOWN
    if len(zones) > ready:
        return _FEW.format(ready, len(zones))
    total = sum(zones.values())
    least = sum(math.ceil(cpus / total * ready / _OVERLOAD) for cpus in zones.values())
    return _CROWDED.format(ready, len(zones)) if least > ready else ""
