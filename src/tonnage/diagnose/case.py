"""What a rule is given: the pod, the cluster, and what the engine decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.decide.kubernetes.requests import is_extended, pod_requests
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.notable_nodes import NotableNodes
from tonnage.model.kubernetes.cluster import Manifest, Pod
from tonnage.model.kubernetes.resource_claims import CLASS_RESOURCE
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import NodeClass


@dataclass(frozen=True, slots=True)
class Case:
    """A pod that waits, the view that it was judged on, and the judgement, node class by node class."""

    pod: Pod
    view: ClusterView
    decision: SchedulingDecision
    classes: tuple[NodeClass, ...]
    original: Pod
    """The pod with what it asks of another scheduler, which hides that from the default one's rules."""
    candidates: tuple[str, ...] = ()
    """The nodes of which the scheduler may take any, where scores decide."""
    remarkable: NotableNodes = field(default_factory=NotableNodes)
    """Nodes that rules ask about."""


class Rule(Protocol):
    """A rule is a module with one function. It looks at objects alone, never at Events or conditions."""

    def reasons(self, case: Case, /) -> Iterable[Reason]:
        """Reasons that concern the pod as a whole, or nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ManifestFieldError:
    """What the API server says about one field of a manifest, and what Tonnage says about it."""

    path: str
    text: str
    reason: Reason


class ManifestRule(Protocol):
    """A rule about a manifest alone, as the API server's validation sees it."""

    def errors(self, manifest: Manifest, /) -> Iterable[ManifestFieldError]:
        """The errors in the order in which the API server lists them."""
        ...


def device_needs(pod: Pod) -> dict[str, int]:
    """The extended resources that a pod asks for, by name; what stands for a DeviceClass among them.

    >>> device_needs(Pod("p"))
    {}
    """
    return {
        name: n
        for name, n in sorted(pod_requests(pod).items())
        if n > 0 and (is_extended(name) or name.startswith(CLASS_RESOURCE))
    }


def is_offered(view: ClusterView, resource: str) -> bool:
    """Whether any node has some of a resource allocatable."""
    return any(node.node.allocatable.get(resource, 0) > 0 for node in view.nodes.values())
