"""Clusters and pods made by chance, with everything the engine looks at, small enough to collide often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Final, TypeVar

from tonnage.model.kubernetes.cluster import (
    Affinity,
    Container,
    DisruptionBudget,
    HeldAmounts,
    HostPort,
    Node,
    Owner,
    Pod,
    PodStatus,
    PodTerm,
    PreferredTerm,
    Snapshot,
    SpreadConstraint,
    WeightedPodTerm,
    WorkloadSelector,
)
from tonnage.model.kubernetes.selectors import LabelSelector, NodeSelectorTerm, Requirement, Taint, Toleration

T = TypeVar("T")
GPU: Final = "nvidia.com/gpu"
_GIB: Final = 1024**3
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
_KEYS: Final = (_ZONE, _HOST, "rack")
_SPACES: Final = {"ml": {"team": "a"}, "web": {"team": "b"}, "default": {}}
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_IMAGES: Final = ("train:v1", "serve:latest", "base:v2")


class Chance:
    """Draws everything from one `Random`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def snapshot(self, nodes: int, pods: int) -> Snapshot:
        """Nodes, pods bound to them (a few waiting for one to be cleared), and the sets and services."""
        made = tuple(self.node(number) for number in range(nodes))
        bound = [self._settled(self.pod(f"old-{number}"), made) for number in range(pods)]
        return Snapshot(
            made,
            tuple(bound),
            namespaces=_SPACES,
            selectors=self._workloads(),
            budgets=self._several(self._budget, 0.4),
        )

    def node(self, number: int) -> Node:
        """A node of one of few sizes; some lack labels, pods, memory or GPUs."""
        some, name = self._some, f"node-{number:04d}"
        labels = {_HOST: name} if some(0.9) else {}
        if some(0.9):
            labels[_ZONE] = self._pick(("z1", "z2", "z3", ""))
        if some(0.5):
            labels["rack"] = self._pick(("r1", "r2"))
        if some(0.6):
            labels["gpus"] = self._pick(("4", "8", "x"))
        allocatable = {
            "cpu": self._pick((0, 4000, 16000, 16000)),
            "memory": self._pick((0, 16 * _GIB, 64 * _GIB, 64 * _GIB)),
            "pods": self._pick((2, 5, 110)),
            GPU: self._pick((0, 1, 4, 8)),
        }
        return Node(
            name,
            {**labels, "tier": self._pick(("x", "y"))} if some(0.7) else labels,
            unschedulable=some(0.1),
            taints=self._several(self._taint, 0.25),
            allocatable={key: amount for key, amount in allocatable.items() if some(0.95)},
            images={image: self._pick((50, 400, 3000)) * 1024**2 for image in _IMAGES if some(0.4)},
        )

    def pod(self, name: str) -> Pod:
        """A pod with few or many wishes."""
        some = self._some
        fussy = some(0.6)
        return Pod(
            name,
            self._pick(("ml", "ml", "web")),
            name,
            self._labels(),
            owner=Owner("ReplicaSet", "set") if some(0.3) else None,
            priority=self._pick((0, 0, 5)),
            containers=self._several(self._container, 0.3, least=1),
            init_containers=self._several(self._container, 0.1),
            overhead={"cpu": 10} if some(0.05) else {},
            pod_requests={"cpu": 1000} if some(0.05) else {},
            node_selector={"tier": "x"} if some(0.1) else {},
            affinity=self._affinity() if fussy and some(0.6) else Affinity(),
            tolerations=self._several(self._toleration, 0.4),
            spread=self._several(self._spread, 0.3) if fussy else (),
            host_ports=(HostPort(self._pick((80, 443)), address=self._pick(("0.0.0.0", "10.0.0.1"))),)
            if some(0.1)
            else (),
        )

    def _settled(self, pod: Pod, nodes: tuple[Node, ...]) -> Pod:
        if not nodes:
            return pod
        name = self._pick(nodes).name
        if self._some(0.04):
            return replace(pod, status=PodStatus(nominated_node=name))
        phase = self._pick(("Running", "Running", "Running", "Succeeded"))
        start = datetime(2026, 1, 1, self._random.randrange(3), tzinfo=UTC) if self._some(0.8) else None
        held = tuple(self._held(container) for container in pod.containers) if self._some(0.1) else ()
        hopeless = bool(held) and self._some(0.3)
        leaves = self._some(0.1)
        status = PodStatus(phase, start=start, terminating=leaves, resized=held, cannot_resize=hopeless)
        return replace(pod, node_name=name, status=status)

    def _held(self, container: Container) -> HeldAmounts:
        """Other amounts than the container asks."""
        some, other = self._some, {"cpu": 2000, "memory": 2 * _GIB}
        return HeldAmounts(
            container.name, other if some(0.7) else None, {**other, "cpu": 3000} if some(0.7) else None
        )

    def _budget(self) -> DisruptionBudget:
        disrupted = frozenset({f"old-{self._random.randrange(9)}"})
        return DisruptionBudget(
            self._pick(("ml", "web")), "budget", self._selector(), self._pick((0, 0, 1, 2)), disrupted
        )

    def _workloads(self) -> tuple[WorkloadSelector, ...]:
        selector = LabelSelector((Requirement("app", "In", ("x",)),))
        found = [WorkloadSelector("Service", "ml", "front", selector)] if self._some(0.3) else []
        found += [WorkloadSelector("ReplicaSet", "ml", "set", selector)] if self._some(0.5) else []
        return tuple(found)

    def _container(self) -> Container:
        some = self._some
        requests = {
            "cpu": self._pick((0, 100, 1000, 4000)) if some(0.7) else None,
            "memory": self._pick((0, _GIB, 8 * _GIB)) if some(0.7) else None,
            GPU: self._pick((1, 1, 2, 8)) if some(0.4) else None,
            "example.com/nic": 1 if some(0.03) else None,
        }
        amounts = {key: amount for key, amount in requests.items() if amount is not None}
        return Container(
            f"c-{self._random.randrange(10**6)}", self._pick((*_IMAGES, "other")), amounts, sidecar=some(0.2)
        )

    def _labels(self) -> dict[str, str]:
        return {key: self._pick(("x", "y")) for key in ("app", "tier") if self._some(0.6)}

    def _taint(self) -> Taint:
        return Taint(self._pick(("gpu", "dedicated")), self._pick(("", "ml")), self._pick(_EFFECTS))

    def _toleration(self) -> Toleration:
        operator = self._pick(("Exists", "Equal", ""))
        value = "" if operator == "Exists" else self._pick(("", "ml"))
        key = self._pick(("gpu", "dedicated", *(("",) if operator == "Exists" else ())))
        return Toleration(key, operator, value, self._pick(("", *_EFFECTS)))

    def _requirement(self, keys: tuple[str, ...], values: tuple[str, ...]) -> Requirement:
        operator = self._pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        wanted = tuple(sorted({self._pick(values), self._pick(values)}))
        return Requirement(self._pick(keys), operator, wanted if "In" in operator else ())

    def _selector(self) -> LabelSelector | None:
        if self._some(0.1):
            return None
        return LabelSelector(self._several(lambda: self._requirement(("app", "tier"), ("x", "y")), 0.5))

    def _node_term(self) -> NodeSelectorTerm:
        expressions = self._several(
            lambda: self._requirement((_ZONE, "tier", "rack"), ("z1", "x", "r1")), 0.6
        )
        if self._some(0.15):
            expressions += (
                Requirement("gpus", self._pick(("Gt", "Lt")), (self._pick(("4", "5", "z", "-1")),)),
            )
        name = f"node-{self._random.randrange(6):04d}"
        pinned = (Requirement("metadata.name", self._pick(("In", "NotIn")), (name,)),)
        return NodeSelectorTerm(expressions, pinned if self._some(0.15) else ())

    def _pod_term(self) -> PodTerm:
        spaces = self._several(lambda: self._pick(("ml", "web")), 0.2)
        chosen = self._pick(
            (
                LabelSelector(),
                LabelSelector((Requirement("team", "In", ("a",)),)),
                LabelSelector((Requirement("team", "NotIn", ("a",)),)),
            )
        )
        return PodTerm(self._pick(_KEYS), self._selector(), spaces, chosen if self._some(0.2) else None)

    def _affinity(self) -> Affinity:
        some, several = self._some, self._several
        return Affinity(
            several(self._node_term, 0.3) if some(0.4) else None,
            several(lambda: PreferredTerm(self._pick((1, 10, 100)), self._node_term()), 0.3),
            several(self._pod_term, 0.2),
            several(self._pod_term, 0.2),
            several(lambda: WeightedPodTerm(self._pick((-100, -3, 3, 50)), self._pod_term()), 0.3),
        )

    def _spread(self) -> SpreadConstraint:
        return SpreadConstraint(
            self._pick(_KEYS),
            self._pick((1, 1, 2, 5)),
            self._some(0.5),
            self._selector(),
            self._pick((1, 1, 2, 4)),
            self._some(0.7),
            self._some(0.3),
        )

    def _some(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, values: tuple[T, ...]) -> T:
        return self._random.choice(values)

    def _several(self, make: Callable[[], T], more: float, *, least: int = 0) -> tuple[T, ...]:
        """Up to three, each next one with chance `more`."""
        found = [make() for _ in range(least)]
        while len(found) < 3 and self._some(more):
            found.append(make())
        return tuple(found)
