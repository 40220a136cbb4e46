"""A cluster as the thinking rooms see it: nodes, pods and what bears on their placement, at one moment.

Amounts are integers in the scheduler's units: `cpu` in thousandths of a core, everything else in whole units.
What could not be read stands in `problems` of the object it belongs to, never as a guessed value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.pod_sets import PodSet
from tonnage.model.kubernetes.policies import LimitRange, Quota, RuntimeClass, Webhook
from tonnage.model.kubernetes.resource_claims import (
    ClaimTemplate,
    DeviceClass,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    TaintRule,
)
from tonnage.model.kubernetes.scheduler_profile import SchedulerProfile
from tonnage.model.kubernetes.selectors import Labels, LabelSelector, NodeSelectorTerm, Taint, Toleration
from tonnage.model.kubernetes.volumes import (
    Attachments,
    Disk,
    PodVolume,
    StorageClass,
    StorageDriver,
    StorageLeft,
    Volume,
    VolumeClaim,
    VolumeLimits,
)
from tonnage.model.kubernetes.workloads import ClusterEvent, QueuedWorkload, WorkloadState
from tonnage.model.node.gpu_status import GpuStatus

Requests: TypeAlias = Mapping[str, int]
"""Amount by resource name; `cpu` in thousandths of a core, the others in whole units."""


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A node term that adds `weight` to a node's score."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class PodTerm:
    """An inter-pod affinity term. `selector` None matches no pod; no namespaces means the pod's own."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preferred inter-pod term; `weight` is negative for anti-affinity."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint; `hard` is DoNotSchedule."""

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honour_affinity: bool = True
    honour_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself; the address 0.0.0.0 stands for all."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104 a value of the API, nothing listens


@dataclass(frozen=True, slots=True)
class Container:
    """A container's needs. `requests` holds a limit where only that is given, as the API server fills it in;
    `requested` names what the manifest itself has under requests. `sidecar`: an init container that stays.
    """

    name: str = ""
    image: str = ""
    requests: Requests = field(default_factory=dict)
    limits: Requests = field(default_factory=dict)
    requested: frozenset[str] = frozenset()
    sidecar: bool = False
    env: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ContainerWait:
    """A container that has not started, or not again: kubelet's reason and message."""

    container: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended, now or before it was started again: kubelet's reason, its own last words."""

    container: str
    reason: str
    message: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class HeldAmounts:
    """What a container has that is not what it asks: admitted by kubelet, and in force; None: not said."""

    container: str
    allocated: Requests | None = None
    actual: Requests | None = None


@dataclass(frozen=True, slots=True)
class PodStatus:
    """What the cluster says about a pod. Never an input of a decision on where the pod fits."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start: datetime | None = None
    nominated_node: str = ""
    unschedulable_reason: str = ""
    """Of a condition PodScheduled that is False; empty where no scheduler has said anything yet."""
    unschedulable_message: str = ""
    terminating: bool = False
    gone_by: datetime | None = None
    """Terminating: when its grace ends."""
    preempted: bool = False
    """Terminating because a pod of higher priority took its place."""
    resized: tuple[HeldAmounts, ...] = ()
    cannot_resize: bool = False
    """Its node can never have room for what its containers ask now."""
    waiting: tuple[ContainerWait, ...] = ()
    ended: tuple[ContainerEnd, ...] = ()
    """Of each container the latest end, if it has ended and does not run again."""


@dataclass(frozen=True, slots=True)
class Affinity:
    """Required and preferred terms. `node` None: no node is required; an empty tuple matches no node."""

    node: tuple[NodeSelectorTerm, ...] | None = None
    node_preferred: tuple[PreferredTerm, ...] = ()
    pods: tuple[PodTerm, ...] = ()
    anti: tuple[PodTerm, ...] = ()
    pods_preferred: tuple[WeightedPodTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, bound when `node_name` is set. `unmodelled` names what it uses that no filter here decides."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: Labels = field(default_factory=dict)
    created: datetime | None = None
    owner: Owner | None = None
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class: str = ""
    may_preempt: bool = True
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Requests = field(default_factory=dict)
    pod_requests: Requests = field(default_factory=dict)
    """Pod-level `spec.resources.requests`."""
    pod_limits: Requests = field(default_factory=dict)
    """Pod-level `spec.resources.limits`."""
    node_selector: Labels = field(default_factory=dict)
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    gates: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    deadline_s: int | None = None
    """`spec.activeDeadlineSeconds`: how long it may run from its start; quotas call such pods terminating."""
    job_ends: datetime | None = None
    """When its Job's deadline ends it."""
    volumes: tuple[PodVolume, ...] = ()
    """Those that come from PersistentVolumeClaims."""
    disks: tuple[Disk, ...] = ()
    service_account: str = ""
    runtime_class: str = ""
    unmodelled: tuple[str, ...] = ()
    hami: Labels = field(default_factory=dict)
    """What HAMi noted on it (`hami.io/…`, without that), and annotations that choose GPUs for HAMi."""
    status: PodStatus = PodStatus()
    problems: tuple[Problem, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class WrittenAmounts:
    """What a container's `resources` say in a manifest, where they stand at `where`; canonical spelling."""

    container: str
    where: str
    limits: Labels
    requests: Labels


@dataclass(frozen=True, slots=True)
class Manifest:
    """A document that makes pods: the pod it makes, and its containers' amounts as they stand in it.

    `kind`: as refusals name it (`Deployment.apps`). `document`: the whole, empty for one of the cluster;
    `written`: metadata and spec of the pod or template. `beside`: versions and kinds that come in its file.
    `replicas`: pods at a time; `completions`: of a Job. `in_order`: a StatefulSet that is OrderedReady.
    `pod_set`: of a custom kind, which has a manifest for each of its templates.
    """

    kind: str
    name: str
    pod: Pod
    amounts: tuple[WrittenAmounts, ...] = ()
    replicas: int = 1
    written: JsonObject = field(default_factory=dict)
    beside: tuple[tuple[str, str], ...] = ()
    document: JsonObject = field(default_factory=dict)
    completions: int | None = None
    in_order: bool = False
    pod_set: PodSet | None = None


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a node, since when it is so."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cordon:
    """Who closed a node, as the API server knows that program, and when; empty where nobody can tell."""

    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `images` is the size in bytes by full image name; `ready` None when the node does not say."""

    name: str
    labels: Labels = field(default_factory=dict)
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Requests = field(default_factory=dict)
    capacity: Requests = field(default_factory=dict)
    images: Mapping[str, int] = field(default_factory=dict)
    ready: bool | None = None
    ready_message: str = ""
    problem_conditions: tuple[NodeCondition, ...] = ()
    """Conditions that say that something is wrong."""
    cordon: Cordon = Cordon()
    hami: Labels = field(default_factory=dict)
    """What HAMi's components noted on it: annotations `hami.io/…`, without that prefix."""
    handlers: tuple[str, ...] = ()
    """What its container runtime offers to RuntimeClasses; empty where the runtime does not say."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class by name."""

    name: str
    value: int
    default: bool = False
    may_preempt: bool = True


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A pod disruption budget; `allowed` is how many more of its pods may go now."""

    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkloadSelector:
    """Which pods a ReplicaSet, StatefulSet or Service selects; what default spreading goes by."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at one moment. `server_version` is empty when unknown; `missing`: kinds not looked at.

    `complete`: kinds of which every object is here, so that what is not here does not exist; empty for a
    cluster out of some list of objects. `service_accounts`: (namespace, name). `schedulers`: known profiles.
    """

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    ending_namespaces: frozenset[str] = frozenset()
    budgets: tuple[DisruptionBudget, ...] = ()
    selectors: tuple[WorkloadSelector, ...] = ()
    quotas: tuple[Quota, ...] = ()
    gpu: Mapping[str, GpuStatus] = field(default_factory=dict)
    slices: tuple[ResourceSlice, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ClaimTemplate, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] = ()
    service_accounts: frozenset[tuple[str, str]] = frozenset()
    webhooks: tuple[Webhook, ...] = ()
    workloads: tuple[WorkloadState, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    queued: tuple[QueuedWorkload, ...] = ()
    volumes: tuple[Volume, ...] = ()
    volume_limits: VolumeLimits = field(default_factory=dict)
    attachments: Attachments = field(default_factory=dict)
    storage_drivers: tuple[StorageDriver, ...] = ()
    storage_left: tuple[StorageLeft, ...] = ()
    schedulers: Mapping[str, SchedulerProfile] = field(default_factory=dict)
    server_version: str = ""
    now: datetime | None = None
    missing: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the one namespace whose objects are here, for kinds that were not read in the others."""
    forbidden: frozenset[str] = frozenset()
    """Kinds that the API server refused to list, at least across namespaces."""
    unserved: frozenset[str] = frozenset()
    """Kinds of resource.k8s.io that the API server does not have at the version that is read."""
    problems: tuple[Problem, ...] = ()

    def was_read(self, kind: str) -> bool:
        """Whether what is not here of a kind is taken not to exist. Lists of objects have all that counts."""
        return kind not in self.missing and (not self.complete or kind in self.complete)

    def unread_in(self, namespace: str) -> frozenset[str]:
        """Kinds of which objects that bear on a pod of this namespace may be absent here."""
        elsewhere = {kind for kind, scope in self.scopes.items() if scope != namespace}
        return self.missing | self.unserved | elsewhere
