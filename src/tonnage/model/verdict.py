"""Verdicts and reasons: why a pod is where it is, or is not, as values. Text is rendered last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import overload

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.symptoms import Symptom


class Verdict(StrEnum):
    """What may be hoped for."""

    FITS = "FITS"
    NOT_NOW = "NOT_NOW"
    """Something must end, be freed or be repaired first."""
    NEVER = "NEVER"
    """This manifest on this cluster: one of the two must be changed."""
    UNKNOWN = "UNKNOWN"
    """Something needed for the answer is missing, and is named."""


class Layer(StrEnum):
    """The layers in the order in which a pod meets them."""

    ADMISSION = "admission"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    KUBELET = "kubelet"
    PLUGIN = "plugin"
    RUNTIME = "runtime"
    DRIVER = "driver"
    HARDWARE = "hardware"
    APPLICATION = "application"


class Code(StrEnum):
    """Stable names of reasons. Each is documented in `docs/reference/reason-codes.md`."""

    API_NOT_SERVED = "api-not-served"
    CLAIM_ELSEWHERE = "claim-elsewhere"
    CLAIM_ERROR = "claim-error"
    CLAIM_INVALID = "claim-entry-invalid"
    CLAIM_MISSING = "claim-missing"
    CLAIM_WITHOUT_CDI = "claim-without-cdi"
    CLAIM_UNUSABLE = "claim-not-usable"
    CLAIM_UNALLOCATABLE = "claim-not-allocatable"
    CONDITION_DIFFERS = "condition-differs"
    CONTAINER_FAILED = "container-failed"
    CONTAINER_WAITING = "container-waiting"
    CORDONED = "node-unschedulable"
    DEVICE_CLASS_MISSING = "device-class-missing"
    DEVICE_UNHEALTHY = "device-unhealthy"
    FIELD_INVALID = "pod-field-invalid"
    GATED = "scheduling-gated"
    GPU_CONFIG_REFUSED = "gpu-config-refused"
    HAMI_DEVICES = "hami-devices-short"
    HELD_IDLE = "held-and-idle"
    HOST_PORT_TAKEN = "host-port-taken"
    INSUFFICIENT = "insufficient-resource"
    KUBELET_REJECTED = "kubelet-rejected"
    LINKS_BELOW_BEST = "links-below-best"
    LINKS_BELOW_FAMILY = "links-below-family"
    LINKS_UNDECIDED = "links-undecided"
    LABEL_OF_NOBODY = "label-of-nobody"
    LIMIT_MISSING = "limit-missing"
    LIMIT_RANGE = "limit-range"
    NAMESPACE_ENDING = "namespace-terminating"
    NAMESPACE_MISSING = "namespace-missing"
    MIG_CONFIG_FAILED = "mig-config-failed"
    NEGATIVE = "quantity-negative"
    AFFINITY_UNREADABLE = "affinity-not-readable"
    NODE_AFFINITY = "node-affinity-mismatch"
    NODE_MISSING = "node-missing"
    NODE_NOT_READY = "node-not-ready"
    NODE_NAME = "node-name-mismatch"
    NODE_OUT_OF_RESOURCE = "kubelet-out-of-resource"
    NO_NODES = "no-nodes"
    NOT_ADVERTISED = "resource-not-advertised"
    NOT_AN_INTEGER = "resource-not-integer"
    NOT_MODELLED = "not-modelled"
    NOT_PINNED = "node-not-pinned"
    NOT_READ = "kind-not-read"
    NUMA_UNDECIDED = "numa-undecided"
    OBJECT_REFUSED = "object-refused"
    OTHER_SCHEDULER = "other-scheduler"
    PINNED_NOWHERE = "node-pins-conflict"
    POD_AFFINITY = "pod-affinity-mismatch"
    POD_ANTI_AFFINITY = "pod-anti-affinity"
    POD_ANTI_AFFINITY_OF_OTHERS = "pod-anti-affinity-of-others"
    POD_SECURITY = "pod-security"
    PLACEMENT_INVALID = "pod-placement-invalid"
    POD_LEVEL = "pod-level-resource"
    PREEMPTION = "preemption"
    PREEMPTION_HELPLESS = "preemption-not-helpful"
    PREEMPTION_NEVER = "preemption-not-allowed"
    PRIORITY_NOT_OF_CLASS = "priority-not-of-class"
    PRIORITY_CLASS_UNKNOWN = "priority-class-unknown"
    PRODUCT_UNDECIDED = "product-undecided"
    RELEASE_UNVERIFIED = "release-unverified"
    QUOTA_BEHIND = "quota-not-taken-over"
    QUOTA_CLAIM = "quota-exceeded-by-claim"
    QUOTA_EXCEEDED = "quota-exceeded"
    QUOTA_UNCOUNTED = "quota-not-counted"
    QUOTA_UNDECLARED = "quota-undeclared"
    QUOTA_WITHOUT_EFFECT = "quota-key-without-effect"
    REQUEST_LIMIT_UNEQUAL = "request-limit-unequal"
    RESOURCE_NAME = "resource-name-invalid"
    RESOURCE_RENAMED = "resource-renamed"
    RUNTIME_CLASS_CONFLICT = "runtime-class-conflict"
    RUNTIME_CLASS_MISSING = "runtime-class-missing"
    SERVICE_ACCOUNT_MISSING = "service-account-missing"
    SHARED_REQUEST_TOO_LARGE = "shared-request-too-large"
    SCHEDULER_SILENT = "scheduler-silent"
    SPREAD_LABEL_MISSING = "topology-label-missing"
    SPREAD_SKEW = "topology-skew"
    TAINT = "taint-not-tolerated"
    TOLERATION_INVALID = "toleration-invalid"
    TOO_LARGE = "resource-too-large"
    TOO_MANY_PODS = "too-many-pods"
    TOPOLOGY_AFFINITY = "topology-affinity"
    VOLUME_CLAIM = "volume-claim-not-usable"
    STORAGE_SHORT = "storage-short"
    VOLUME_ELSEWHERE = "volume-elsewhere"
    VOLUME_IN_USE = "volume-in-use"
    VOLUME_LIMIT = "volume-limit"
    VOLUME_MISSING = "volume-not-available"
    UNREADABLE = "unreadable"
    WEBHOOK_DENIED = "webhook-denied"
    WEBHOOK_MAY_REFUSE = "webhook-may-refuse"
    WEBHOOK_UNREACHABLE = "webhook-unreachable"
    WORKLOAD_DEADLINE = "workload-deadline"
    WORKLOAD_ENDED = "workload-ended"
    WORKLOAD_PAUSED = "workload-paused"
    WORKLOAD_REFUSED = "workload-pods-refused"
    WORKLOAD_UNSEEN = "workload-not-acted-on"
    WORKLOAD_WAITS = "workload-in-order"
    WORKLOAD_ZERO = "workload-wants-none"


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause. `subject` is what it is about (`Node gpu-a`); `lasting` when no pod's end would remove it;
    `hidden` when the scheduler never gets to it, because another reason refuses the node first.
    """

    code: Code | Symptom
    layer: Layer
    subject: str
    message: str
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    remedy: str = ""
    source: str = ""
    lasting: bool = True
    hidden: bool = False

    def to_json(self) -> JsonObject:
        """The reason under the keys of the verdict's contract."""
        return {
            "code": self.code.value,
            "layer": self.layer.value,
            "subject": self.subject,
            "facts": dict(self.facts),
            "message": self.message,
            "remedy": self.remedy,
            "source": self.source,
            "hidden": self.hidden,
        }


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do, what it brings, and where one exists a strategic merge patch of the manifest."""

    action: str
    effect: str
    patch: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """The remedy under the keys of the verdict's contract."""
        return {"action": self.action, "effect": self.effect, "patch": self.patch}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pod is or would go. `scores` only where two nodes or more are feasible."""

    node: str | None = None
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    nominated: str | None = None
    victims: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """Nodes that may be chosen where `node` is not sure: equals, or the best of a part that is looked at."""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Device ids by resource, when the node's agent says which; of claims by `resourceclaims/NAME`."""
    links: JsonObject | None = None
    """How its GPUs are joined, beside the best set of as many there; None for fewer than two whole ones."""

    def to_json(self) -> JsonObject:
        """The placement under the keys of the verdict's contract."""
        scores: dict[str, JsonValue] = {node: dict(row) for node, row in self.scores.items()}
        body: JsonObject = {
            "node": self.node,
            "scores": scores,
            "nominated": self.nominated,
            "victims": list(self.victims),
        }
        if self.candidates:
            body["candidates"] = list(self.candidates)
        if self.devices:
            devices: dict[str, JsonValue] = {name: list(ids) for name, ids in self.devices.items()}
            body["devices"] = devices
        if self.links is not None:
            body["links"] = self.links
        return body


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node's answer with its reasons; the first not hidden is the one the scheduler gives."""

    node: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()

    def to_json(self) -> JsonObject:
        """The node's entry under the keys of the verdict's contract."""
        return {
            "node": self.node,
            "verdict": self.verdict.value,
            "reasons": [reason.to_json() for reason in self.reasons],
        }


class NodeList(Sequence[NodeVerdict]):
    """Nodes' answers that are made when they are looked at."""

    @abstractmethod
    def at(self, place: int) -> NodeVerdict:
        """The answer of one node, by its place among them."""

    @overload
    def __getitem__(self, index: int) -> NodeVerdict: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeVerdict]: ...
    def __getitem__(self, index: int | slice) -> NodeVerdict | Sequence[NodeVerdict]:
        if isinstance(index, slice):
            return [self.at(place) for place in range(len(self))[index]]
        return self.at(range(len(self))[index])

    def to_json(self) -> list[JsonValue]:
        """An entry a node, under the keys of the verdict's contract."""
        return [node.to_json() for node in self]


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a resource on several nodes: the first pods as `namespace/name`, and how many in all."""

    resource: str
    pods: tuple[str, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that answer alike. `told` is the answer of the first; the others differ in names and amounts.

    The first have the most free of what is short.

    Of each class, and of all classes that say the same together, the least and the most amounts are among
    those told. `held` only where there are several members.
    """

    told: NodeVerdict
    members: tuple[str, ...]
    held: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What was asked about."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_MOST_PODS = 100


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of a workload by name, and what is told of the first."""

    names: tuple[str, ...]
    told: Explanation


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer. `layer` is the layer that refuses; None when nothing does.

    `nodes` has an entry a node, in name order, perhaps made only when it is looked at; `classes` has them all
    grouped by what they answer.
    """

    subject: Subject
    verdict: Verdict
    layer: Layer | None
    phase: str
    needs: Mapping[str, int]
    message: str
    upstream_message: str = ""
    nodes: Sequence[NodeVerdict] = ()
    classes: tuple[NodeClass, ...] = ()
    placement: Placement = Placement()
    reasons: tuple[Reason, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    pods: tuple[PodGroup, ...] = ()
    """Of a workload: its pods, those that are told alike together, the worst first."""

    def to_json(self) -> JsonObject:
        """The verdict's contract: every key always present; a workload's pods under `pods`."""
        body = self._to_json()
        if self.pods:
            body["pods"] = [
                {"count": len(group.names), "names": list(group.names[:_MOST_PODS]), **group.told._to_json()}
                for group in self.pods
            ]
        return body

    def _to_json(self) -> JsonObject:
        nodes = self.nodes
        return {
            "subject": {
                "kind": self.subject.kind,
                "namespace": self.subject.namespace,
                "name": self.subject.name,
            },
            "verdict": self.verdict.value,
            "layer": self.layer.value if self.layer else None,
            "phase": self.phase,
            "needs": dict(self.needs),
            "message": self.message,
            "upstream_message": self.upstream_message,
            "nodes": nodes.to_json() if isinstance(nodes, NodeList) else [node.to_json() for node in nodes],
            "placement": self.placement.to_json(),
            "reasons": [reason.to_json() for reason in self.reasons],
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }
