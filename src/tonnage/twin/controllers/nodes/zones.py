"""ZoneState, RateLimitedTimedQueue: how fast a zone's nodes that are not ready lose pods: pure.

One node of a zone in ten seconds. Where most of a zone is not ready, something else is wrong than its nodes:
a small zone loses no pods then, a large one loses them slowly. Where no node of any zone is ready, none does.

Source: handleDisruption in pkg/controller/nodelifecycle of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tonnage.model.kubernetes.well_known import ZONE
from tonnage.twin.controllers.nodes.health import ready_status
from tonnage.wire.objects import Node

_NORMAL_S: Final = 10.0
_SLOW_S: Final = 100.0
_NEVER_S: Final = float("inf")
_LARGE: Final = 50
_UNHEALTHY: Final = 0.55
_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
_ZoneKey = tuple[str, str]


@dataclass(slots=True)
class _Zone:
    """Names of nodes by whether they are ready; between two nodes pass `pause_s`."""

    ready: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)
    pause_s: float = _NORMAL_S
    free_s: float = 0.0
    """When the next node may lose its pods."""

    @property
    def size(self) -> int:
        return len(self.ready) + len(self.unready)

    def wanted_pause_s(self) -> float:
        """How long to wait between two nodes while the cluster as a whole is not lost."""
        sick = len(self.unready)
        if self.ready and sick > 2 and sick / self.size >= _UNHEALTHY:
            return _SLOW_S if self.size > _LARGE else _NEVER_S
        return _NORMAL_S

    def change_pace(self, pause_s: float, now_s: float) -> bool:
        """Whether the pace is another now. Who had to wait before waits for a whole pause of the new one."""
        if pause_s == self.pause_s:
            return False
        waits = self.pause_s == _NEVER_S or now_s < self.free_s
        self.pause_s, self.free_s = pause_s, now_s + pause_s if waits else now_s
        return True


class NodeZones:
    """Remembers of every node where it is and whether it is ready."""

    def __init__(self) -> None:
        self._zones: dict[_ZoneKey, _Zone] = {}
        self._home: dict[str, _ZoneKey] = {}
        self.is_lost = False
        """Whether no node at all is ready."""

    def take_in(self, node: Node, now_s: float) -> bool:
        """Remember a node as it is now; whether nodes may lose their pods at another pace than before."""
        name, key = node.metadata.name, zone_of(node)
        self._leave(name)
        zone = self._zones.setdefault(key, _Zone())
        if _EXCLUDED not in node.metadata.labels:
            self._home[name] = key
            (zone.ready if ready_status(node) == "True" else zone.unready).add(name)
        return self._judge(now_s)

    def forget(self, name: str, now_s: float) -> bool:
        """Remember a node no longer; as `take_in`."""
        self._leave(name)
        return self._judge(now_s)

    def wait_s(self, node: Node, now_s: float) -> float:
        """0 if the node may lose its pods now, which is the turn of its zone; else the seconds until then."""
        zone = self._zones[zone_of(node)]
        if self.is_lost or zone.pause_s == _NEVER_S:
            return _NEVER_S
        if now_s < zone.free_s:
            return zone.free_s - now_s
        zone.free_s = now_s + zone.pause_s
        return 0.0

    def _leave(self, name: str) -> None:
        if (key := self._home.pop(name, None)) is not None:
            self._zones[key].ready.discard(name)
            self._zones[key].unready.discard(name)

    def _judge(self, now_s: float) -> bool:
        full = [zone for zone in self._zones.values() if zone.size]
        was_lost, self.is_lost = self.is_lost, bool(full) and not any(zone.ready for zone in full)
        changes = [
            zone.change_pace(_NEVER_S if self.is_lost else zone.wanted_pause_s(), now_s)
            for zone in self._zones.values()
        ]
        return any(changes) or was_lost != self.is_lost


def zone_of(node: Node) -> _ZoneKey:
    """The region and the zone that the node's labels name."""
    labels = node.metadata.labels
    return labels.get(_OLD_REGION, labels.get(_REGION, "")), labels.get(_OLD_ZONE, labels.get(ZONE, ""))
