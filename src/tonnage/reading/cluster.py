"""Wire objects as model values, so that the thinking rooms never see the wire. Pure; twin and CLI share it.

What cannot be read becomes a problem of the object it stands in, and a pod with such a problem is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from tonnage.model.kubernetes.cluster import (
    DisruptionBudget,
    Node,
    Owner,
    Pod,
    PriorityClass,
    Snapshot,
    WorkloadSelector,
)
from tonnage.model.kubernetes.policies import LimitRange, Quota, RuntimeClass, Webhook
from tonnage.model.kubernetes.resource_claims import (
    ClaimTemplate,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    TaintRule,
)
from tonnage.model.kubernetes.selectors import Labels, Taint, Toleration
from tonnage.model.kubernetes.volumes import StorageClass, StorageDriver, StorageLeft, Volume, VolumeClaim
from tonnage.model.kubernetes.workloads import ClusterEvent, QueuedWorkload, WorkloadState
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.reading.claims import (
    claim_from,
    device_class_from,
    pod_claims_of,
    slice_from,
    taint_rule_from,
    template_from,
)
from tonnage.reading.containers import containers_of, host_ports_of, pod_level_requests
from tonnage.reading.gpu_status import gpu_status_from
from tonnage.reading.nodes import cordon_of, hami_notes, problem_conditions_of
from tonnage.reading.object_parts import (
    Quantities,
    ReadingProblems,
    affinity_of,
    amounts,
    moment,
    refused_placement,
    spread_of,
)
from tonnage.reading.policies import (
    bound_by,
    budget_from,
    by_labels,
    limit_range_from,
    policy_from,
    priority_class_from,
    quota_from,
    runtime_class_from,
    webhooks_from,
    with_priority,
    workload_from,
)
from tonnage.reading.resizes import held_by
from tonnage.reading.status import pod_status_from
from tonnage.reading.volumes import (
    attachment_from,
    disks_of,
    limits_from,
    storage_class_from,
    storage_driver_from,
    storage_left_from,
    volume_claim_from,
    volume_from,
    volumes_of,
)
from tonnage.reading.workloads import (
    KIND_OF,
    event_from,
    maker_from,
    queued_from,
    with_job_ends,
)
from tonnage.wire import claims as claim_objects
from tonnage.wire import objects as w
from tonnage.wire import policies as policy_objects
from tonnage.wire.reports import Event


def pod_from(pod: w.Pod) -> Pod:
    """A pod, running or only a manifest. An amount that cannot be read is a problem, and `unmodelled`."""
    notes = ReadingProblems()
    spec, meta = pod.spec, pod.metadata
    containers = containers_of(spec.containers, "spec.containers", notes)
    init = containers_of(spec.init_containers, "spec.initContainers", notes)
    pod_requests = amounts(pod_level_requests(spec), "spec.resources.requests", notes)
    pod_limits = spec.resources.limits if spec.resources is not None else {}
    overhead = amounts(spec.overhead, "spec.overhead", notes)
    unread = tuple(f"unreadable {problem.where}" for problem in notes.problems)
    return Pod(
        name=meta.name or meta.generate_name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        labels=meta.labels,
        created=moment(meta.creation_timestamp),
        owner=_owner(meta),
        node_name=spec.node_name,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name,
        may_preempt=spec.preemption_policy != "Never",
        containers=containers,
        init_containers=init,
        overhead=overhead,
        pod_requests=pod_requests,
        pod_limits=amounts(pod_limits, "spec.resources.limits", notes) if pod_limits else {},
        node_selector=spec.node_selector,
        affinity=affinity_of(spec.affinity, meta.labels),
        tolerations=tuple(
            Toleration(t.key, t.operator, t.value, t.effect, t.toleration_seconds) for t in spec.tolerations
        ),
        spread=spread_of(spec.topology_spread_constraints, meta.labels),
        host_ports=host_ports_of(spec),
        gates=tuple(str(gate.get("name", "")) for gate in spec.scheduling_gates),
        claims=pod_claims_of(spec.resource_claims, pod.status.resource_claim_statuses),
        deadline_s=spec.active_deadline_seconds,
        volumes=volumes_of(spec, meta.name),
        disks=disks_of(spec),
        service_account=spec.service_account_name or spec.service_account,
        runtime_class=spec.runtime_class_name,
        unmodelled=(*unread, *refused_placement(spec)),
        hami=hami_notes(meta.annotations) if meta.annotations else {},
        status=pod_status_from(pod.status, pod.metadata.deletion_timestamp, held_by(spec, pod.status)),
        problems=tuple(notes.problems),  # last: pod_limits adds to them, not to `unread`
    )


def node_from(
    node: w.Node, amounts_of: Callable[[Quantities, str, ReadingProblems], dict[str, int]] = amounts
) -> Node:
    """A node. Amounts that cannot be read are its problems; `amounts_of` answers as `amounts` does."""
    notes = ReadingProblems()
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    return Node(
        name=node.metadata.name,
        labels=node.metadata.labels,
        unschedulable=node.spec.unschedulable,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in node.spec.taints),
        allocatable=amounts_of(node.status.allocatable, "status.allocatable", notes),
        capacity=amounts_of(node.status.capacity, "status.capacity", notes),
        images={name: i.size_bytes for i in reversed(node.status.images) for name in i.names},
        ready=None if ready is None else ready.status == "True",
        ready_message=ready.message if ready else "",
        problem_conditions=problem_conditions_of(node.status.conditions),
        cordon=cordon_of(node),
        hami=hami_notes(node.metadata.annotations),
        handlers=tuple(str(handler.get("name", "")) for handler in node.status.runtime_handlers),
        problems=tuple(notes.problems),
    )


@dataclass(frozen=True, slots=True)
class BarePod:
    """A pod that is read already, and has yet to be given its priority."""

    pod: Pod


def read_pod(pod: w.Pod) -> Pod | BarePod:
    """A pod; bare where no priority is set."""
    read = pod_from(pod)
    return BarePod(read) if pod.spec.priority is None else read


Readable = w.Object | Pod | BarePod | Node | GpuStatus
"""A wire object, or one that is a model value already."""


@dataclass(slots=True)
class _Parts:
    """A snapshot under way."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    """Places of pods that have yet to be given their priority."""
    classes: list[PriorityClass] = field(default_factory=list)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    selectors: list[WorkloadSelector] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    gpu: dict[str, GpuStatus] = field(default_factory=dict)
    slices: list[ResourceSlice] = field(default_factory=list)
    device_classes: list[DeviceClass] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    templates: list[ClaimTemplate] = field(default_factory=list)
    taint_rules: list[TaintRule] = field(default_factory=list)
    volume_claims: list[VolumeClaim] = field(default_factory=list)
    storage_classes: list[StorageClass] = field(default_factory=list)
    limit_ranges: list[LimitRange] = field(default_factory=list)
    runtime_classes: list[RuntimeClass] = field(default_factory=list)
    accounts: set[tuple[str, str]] = field(default_factory=set)
    webhooks: list[Webhook] = field(default_factory=list)
    policies: dict[str, Webhook] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    """Names of policies that deny by some binding."""
    workloads: list[WorkloadState] = field(default_factory=list)
    events: list[ClusterEvent] = field(default_factory=list)
    queued: list[QueuedWorkload] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    volume_limits: dict[str, dict[str, int]] = field(default_factory=dict)
    attachments: dict[str, dict[str, str]] = field(default_factory=dict)
    drivers: list[StorageDriver] = field(default_factory=list)
    storage_left: list[StorageLeft] = field(default_factory=list)

    def take(self, obj: Readable) -> None:
        """Sort one object in; kinds that bear on nothing here are passed over.

        Each function has the kinds of one subject, the frequent first, and hands on what is none of them.
        """
        match obj:
            case Pod():
                self.pods.append(obj)
            case BarePod():
                self.bare.append(len(self.pods))
                self.pods.append(obj.pod)
            case Node():
                self.nodes.append(obj)
            case GpuStatus():
                self.gpu[obj.node] = obj
            case _:
                self._take_wire(obj)

    def _take_wire(self, obj: w.Object) -> None:
        match obj:
            case w.Pod():
                self.take(read_pod(obj))
            case w.Node():
                self.nodes.append(node_from(obj))
            case w.PriorityClass():
                self.classes.append(priority_class_from(obj))
            case w.Namespace():
                self.namespaces[obj.metadata.name] = obj.metadata.labels
                if obj.metadata.deletion_timestamp or obj.status.get("phase") == "Terminating":
                    self.ending.add(obj.metadata.name)
            case w.PodDisruptionBudget():
                self.budgets.append(budget_from(obj))
            case w.ReplicaSet():
                self.selectors.append(workload_from(obj, "ReplicaSet"))
            case w.ReplicationController() | w.Service():
                self.selectors.append(by_labels(obj, type(obj).__name__))
            case w.ResourceQuota():
                self.quotas.append(quota_from(obj))
            case w.NodeGPUStatus():
                self.gpu[obj.metadata.name] = gpu_status_from(obj)
            case _:
                self._take_dynamic(obj)

    def _take_dynamic(self, obj: w.Object) -> None:
        match obj:
            case claim_objects.ResourceSlice():
                self.slices.append(slice_from(obj))
            case claim_objects.DeviceClass():
                self.device_classes.append(device_class_from(obj))
            case claim_objects.DeviceTaintRule():
                self.taint_rules.append(taint_rule_from(obj))
            case claim_objects.ResourceClaim():
                self.claims.append(claim_from(obj))
            case claim_objects.ResourceClaimTemplate():
                self.templates.append(template_from(obj))
            case _:
                self._take_storage(obj)

    def _take_storage(self, obj: w.Object) -> None:
        match obj:
            case claim_objects.PersistentVolumeClaim():
                self.volume_claims.append(volume_claim_from(obj))
            case claim_objects.StorageClass():
                self.storage_classes.append(storage_class_from(obj))
            case claim_objects.PersistentVolume():
                self.volumes.append(volume_from(obj))
            case claim_objects.CSINode():
                self.volume_limits[obj.metadata.name] = limits_from(obj)
            case claim_objects.CSIDriver():
                self.drivers.append(storage_driver_from(obj))
            case claim_objects.CSIStorageCapacity():
                self.storage_left.append(storage_left_from(obj))
            case claim_objects.VolumeAttachment():
                node, volume, driver = attachment_from(obj)
                self.attachments.setdefault(node, {})[volume] = driver
            case _:
                self._take_policy(obj)

    def _take_policy(self, obj: w.Object) -> None:
        match obj:
            case policy_objects.PodMaker():
                kind = KIND_OF[type(obj)]
                self.workloads.append(maker_from(obj, kind))
                if kind in ("ReplicaSet", "StatefulSet"):
                    self.selectors.append(workload_from(obj, kind))
            case policy_objects.LimitRange():
                self.limit_ranges.append(limit_range_from(obj))
            case policy_objects.RuntimeClass():
                self.runtime_classes.append(runtime_class_from(obj))
            case policy_objects.ServiceAccount():
                self.accounts.add((obj.metadata.namespace or "default", obj.metadata.name))
            case policy_objects.WebhookConfiguration():
                self.webhooks += webhooks_from(obj)
            case policy_objects.AdmissionPolicy():
                self.policies[obj.metadata.name] = policy_from(obj)
            case policy_objects.AdmissionPolicyBinding():
                self.bound.add(bound_by(obj))
            case w.KueueWorkload():
                self.queued.append(queued_from(obj))
            case Event():
                self.events.append(event_from(obj))


def snapshot_from(
    objects: Iterable[Readable],
    *,
    server_version: str = "",
    now: datetime | None = None,
    missing: frozenset[str] = frozenset(),
    complete: frozenset[str] = frozenset(),
) -> Snapshot:
    """A snapshot of any mix of objects. Priorities that only name a class get its value.

    `missing` and `complete`: the kinds that could not be read, and those of which every object is here.
    """
    parts = _Parts()
    for obj in objects:
        parts.take(obj)
    # Only now that every object is read: a pod may come before its class, and before the Job that made it.
    for place in parts.bare:
        parts.pods[place] = with_priority(parts.pods[place], parts.classes)
    return Snapshot(
        nodes=tuple(parts.nodes),
        pods=with_job_ends(parts.pods, parts.workloads),
        priority_classes=tuple(parts.classes),
        namespaces=parts.namespaces,
        ending_namespaces=frozenset(parts.ending),
        budgets=tuple(parts.budgets),
        selectors=tuple(parts.selectors),
        quotas=tuple(parts.quotas),
        gpu=parts.gpu,
        slices=tuple(parts.slices),
        device_classes=tuple(parts.device_classes),
        claims=tuple(parts.claims),
        claim_templates=tuple(parts.templates),
        taint_rules=tuple(parts.taint_rules),
        volume_claims=tuple(parts.volume_claims),
        storage_classes=tuple(parts.storage_classes),
        limit_ranges=tuple(parts.limit_ranges),
        runtime_classes=tuple(parts.runtime_classes),
        service_accounts=frozenset(parts.accounts),
        webhooks=(*parts.webhooks, *(parts.policies[n] for n in sorted(parts.bound & parts.policies.keys()))),
        workloads=tuple(parts.workloads),
        events=tuple(parts.events),
        queued=tuple(parts.queued),
        volumes=tuple(parts.volumes),
        volume_limits=parts.volume_limits,
        attachments=parts.attachments,
        storage_drivers=tuple(parts.drivers),
        storage_left=tuple(parts.storage_left),
        server_version=server_version,
        now=now,
        missing=missing,
        complete=complete,
    )


def _owner(meta: w.ObjectMeta) -> Owner | None:
    return next((Owner(o.kind, o.name) for o in meta.owner_references if o.controller), None)
