"""Kubernetes objects as Tonnage reads them: narrow Structs that name only the fields somebody uses.

A field that Kubernetes has and a Struct lacks is skipped while decoding; that is what makes a LIST of 10,000
pods cheap. What is only carried, never read (pod templates), stays JSON. Source: the Kubernetes API, v1.35.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all objects: camelCase on the wire, defaults left out."""


class OwnerReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Wire):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []


class Object(Wire):
    """Anything with metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Condition(Wire):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None
    last_update_time: str | None = None
    observed_generation: int = 0


class LabelRequirement(Wire):
    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Wire):
    match_labels: dict[str, str] = {}
    match_expressions: list[LabelRequirement] = []


class ResourceRequirements(Wire):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}
    claims: list[dict[str, Any]] = []


class ContainerPort(Wire):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"
    name: str = ""


class EnvVar(Wire):
    name: str
    value: str = ""
    value_from: dict[str, Any] | None = None


class VolumeMount(Wire):
    name: str
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Container(Wire):
    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    ports: list[ContainerPort] = []
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    volume_mounts: list[VolumeMount] = []
    restart_policy: str = ""
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    image_pull_policy: str = ""
    env_from: list[dict[str, Any]] = []
    startup_probe: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    restart_policy_rules: list[dict[str, Any]] = []
    termination_message_path: str = ""
    termination_message_policy: str = ""
    security_context: dict[str, Any] | None = None


class Toleration(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[LabelRequirement] = []
    match_fields: list[LabelRequirement] = []


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Wire):
    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Wire):
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredSchedulingTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class PodSpec(Wire):
    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    ephemeral_containers: list[Container] = []
    readiness_gates: list[dict[str, Any]] = []
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = "Always"
    overhead: dict[str, str | int | float] = {}
    resources: ResourceRequirements | None = None
    scheduling_gates: list[dict[str, Any]] = []
    topology_spread_constraints: list[dict[str, Any]] = []
    resource_claims: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    service_account_name: str = ""
    service_account: str = ""
    runtime_class_name: str = ""
    hostname: str = ""
    hostname_override: str | None = None
    set_hostname_as_fqdn: bool = msgspec.field(name="setHostnameAsFQDN", default=False)
    subdomain: str = ""
    enable_service_links: bool = True
    security_context: dict[str, Any] | None = None
    image_pull_secrets: list[dict[str, Any]] = []
    os: dict[str, Any] | None = None


class PodStatus(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[dict[str, Any]] = []
    init_container_statuses: list[dict[str, Any]] = []
    ephemeral_container_statuses: list[dict[str, Any]] = []
    resource_claim_statuses: list[dict[str, Any]] = []
    extended_resource_claim_status: dict[str, Any] = {}
    start_time: str | None = None
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    host_ip: str = msgspec.field(name="hostIP", default="")


class Pod(Object):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Taint(Wire):
    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] = []
    pod_cidr: str = msgspec.field(name="podCIDR", default="")


class ContainerImage(Wire):
    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(Wire):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[Condition] = []
    addresses: list[dict[str, str]] = []
    images: list[ContainerImage] = []
    node_info: dict[str, Any] = {}
    daemon_endpoints: dict[str, Any] = {}
    runtime_handlers: list[dict[str, Any]] = []


class Node(Object):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class LeanNodeStatus(NodeStatus):
    """Without the images that a node has: they are most of a Node."""

    images: list[ContainerImage] = msgspec.field(default_factory=list, name="left out")


class LeanNode(Node):
    """For those who keep a copy of every Node and look at no image."""

    status: LeanNodeStatus = msgspec.field(default_factory=LeanNodeStatus)


class Namespace(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ConfigMap(Object):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(Object):
    data: dict[str, str] = {}
    """In Base64."""


class KueueWorkload(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""


class WorkloadSpec(Wire):
    """Spec of Deployment, ReplicaSet and DaemonSet; `template` is carried whole."""

    replicas: int = 1
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    template: dict[str, Any] = {}
    strategy: dict[str, Any] = {}
    update_strategy: dict[str, Any] = {}
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600
    paused: bool = False


class WorkloadStatus(Wire):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    collision_count: int | None = None
    terminating_replicas: int | None = None
    conditions: list[Condition] = []


class Workload(Object):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class Deployment(Workload):
    pass


class ReplicaSet(Workload):
    pass


class DaemonSet(Workload):
    pass


class ControllerRevision(Object):
    data: dict[str, Any] = {}
    revision: int = 0


class ObjectReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class ResourceQuota(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ClusterRole(Object):
    rules: list[dict[str, Any]] | None = None
    aggregation_rule: dict[str, Any] | None = None


class PodDisruptionBudget(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class CustomResourceDefinition(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class NodeGPUStatus(Object):
    """tonnage.dev/v1alpha1, cluster-scoped, one per node and named after it; the agent owns `status`."""

    status: dict[str, Any] = {}


class Service(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ReplicationController(Object):
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class NodeFeature(Object):
    """nfd.k8s-sigs.io/v1alpha1: what somebody else tells node feature discovery about a node."""

    spec: dict[str, Any] = {}
