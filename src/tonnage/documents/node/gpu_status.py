"""NodeGPUStatus (tonnage.dev/v1alpha1): what a node's agent publishes, and the definition of its kind."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field

from tonnage.documents.yaml.source import Document
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import copied

GROUP: Final = "tonnage.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "NodeGPUStatus"
PLURAL: Final = "nodegpustatuses"


class StatusHolder(Document):
    """A container that has the device, by the name under which it asked for it."""

    resource: str
    ids: list[str]
    namespace: str = ""
    pod: str = ""
    container: str = ""


class MigPlacement(Document):
    """Which memory slices of its device a MIG device takes."""

    start: int
    size: int


class MigStatus(Document):
    """A MIG device of a device; its holders stand with the device."""

    uuid: str
    index: int
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_mib: Annotated[int, Field(alias="memoryMiB")]
    placement: Annotated[
        MigPlacement | None, Field(description="absent where the driver does not tell the agent")
    ] = None
    health: Literal["Healthy", "Unhealthy"]
    reason: str = ""
    resource: Annotated[str, Field(description="the extended resource that offers it")] = ""


class LinkStatus(Document):
    """How the device reaches some others, as its driver states it; alike for all of `peers`."""

    peers: Annotated[list[int], Field(description="their indices; empty for the switches")]
    switches: Annotated[bool, Field(description="the links lead to the board's NVSwitches")] = False
    nvlinks: Annotated[int, Field(description="active NVLinks to each of them")] = 0
    path: Annotated[
        str, Field(description="over PCI, as nvidia-smi says it: PIX, PXB, PHB, NODE, SYS; or BOARD")
    ] = ""


class DeviceStatus(Document):
    """One device: what it is, how it is offered and who has it."""

    uuid: str
    index: int
    product: str
    memory_mib: Annotated[int, Field(alias="memoryMiB")]
    memory_used_mib: Annotated[
        int | None,
        Field(alias="memoryUsedMiB", description="at updatedAt; absent when the device does not say"),
    ] = None
    compute_capability: str = ""
    pci_bus_id: Annotated[str, Field(alias="pciBusID")] = ""
    numa_node: Annotated[
        int | None, Field(alias="numaNode", description="absent when the device has none")
    ] = None
    clique: Annotated[str, Field(description="of its NVLink fabric: <cluster>.<clique>")] = ""
    fabric: Annotated[
        str,
        Field(description="what Fabric Manager has made of its NVSwitches; absent on a board without any"),
    ] = ""
    links: list[LinkStatus] = Field(default_factory=list)
    mig_enabled: Annotated[bool | None, Field(description="absent when it cannot be divided")] = None
    mig_devices: list[MigStatus] = Field(default_factory=list)
    health: Literal["Healthy", "Unhealthy"]
    reason: Annotated[str, Field(description="why the device is not healthy")] = ""
    resource: Annotated[
        str,
        Field(description="the extended resource that offers it, or a part of it; or will, once adopted"),
    ] = ""
    replicas: Annotated[int, Field(description="how many containers may share it; 1 is exclusive")] = 1
    holders: list[StatusHolder] = Field(default_factory=list)


class MpsDeviceStatus(Document):
    """What MPS lets a client have of a device."""

    uuid: str
    pinned_memory_mib: Annotated[
        int, Field(alias="pinnedMemoryMiB", description="that a client may pin; 0 is no limit")
    ]
    most_clients: Annotated[int, Field(description="processes that the device serves at a time")]


class MpsStatus(Document):
    """The resource's MPS control daemon. Limits are each client process's, not each container's."""

    ready: bool
    reason: Annotated[str, Field(description="why it does not serve")] = ""
    active_thread_percentage: Annotated[int, Field(description="of a device's threads, for each client")]
    restarts: int = 0
    devices: list[MpsDeviceStatus]


class ResourceStatus(Document):
    """One extended resource as kubelet is told about it."""

    name: str
    devices: int
    replicas: Annotated[int, Field(description="ids for each device; 1 is exclusive")]
    capacity: Annotated[int, Field(description="ids advertised")]
    allocatable: Annotated[int, Field(description="ids advertised healthy")]
    allocated: Annotated[int, Field(description="ids that containers hold")]
    sharing: Annotated[
        Literal["none", "time-slicing", "mps"], Field(description="how containers share a device")
    ] = "none"
    policy: Annotated[
        str, Field(description="which replicas a container gets; empty for exclusive devices")
    ] = ""
    fail_requests_greater_than_one: bool = False
    mps: Annotated[MpsStatus | None, Field(description="absent where there is no daemon")] = None


class ClaimDeviceStatus(Document):
    """A GPU or MIG device under the name that claims know."""

    name: str
    uuid: str
    reason: Annotated[str, Field(description="why no claim can have it now; empty when one can")] = ""


class ClaimsStatus(Document):
    """What the node's configuration offers as claims (DRA)."""

    driver: str
    reason: Annotated[str, Field(description="why the driver serves no claims; empty when it does")] = ""
    devices: list[ClaimDeviceStatus]


class ConfigStatus(Document):
    """The device-plugin configuration in force."""

    source: Annotated[str, Field(description="ConfigMap key, file, or built-in")]
    key: str = ""
    error: Annotated[str, Field(description="why it is not the one that was asked for")] = ""
    mig_strategy: Literal["none", "single", "mixed"] = "none"
    device_list: Annotated[
        str, Field(description="what deviceListStrategy auto came to, and why; empty without it")
    ] = ""


class RuntimeStatus(Document):
    """The node's container runtime: its version as the Node says it, the rest as its configuration does."""

    name: Annotated[str, Field(description="such as containerd")]
    version: str
    cdi: Annotated[Literal["on", "off", "unknown"], Field(description="whether it takes CDI devices")]
    cdi_reason: Annotated[str, Field(description="why, or what is missing to tell")]
    nri: Annotated[Literal["on", "off", "unknown"], Field(description="whether it calls NRI plugins")]
    nri_reason: Annotated[str, Field(description="why, or what is missing to tell")]


class KubeletStatus(Document):
    """The node's kubelet and its policies, each in kubelet's own words, or unknown."""

    version: str
    topology_manager_policy: str
    topology_manager_scope: str
    cpu_manager_policy: str
    memory_manager_policy: str
    sources: Annotated[list[str], Field(description="files that say so")]
    reason: Annotated[str, Field(description="why a policy is unknown, or not what is configured")]


class HostStatus(Document):
    """What a driver needs of the host, as far as the agent's pod can see it; absent: it cannot."""

    system_id: Annotated[str, Field(alias="systemID", description="ID of its os-release")] = ""
    system_version: Annotated[str, Field(description="VERSION_ID of its os-release")] = ""
    kernel: Annotated[str, Field(description="the running kernel's release")] = ""
    kernel_headers: Annotated[bool | None, Field(description="whether a module can be built for it")] = None
    gpus_on_bus: Annotated[
        int | None, Field(description="NVIDIA's GPUs on the PCI bus, whether a driver shows them or not")
    ] = None
    nouveau_bound: Annotated[int | None, Field(description="GPUs that the driver nouveau holds")] = None
    secure_boot: bool | None = None
    module_version: Annotated[str, Field(description="of NVIDIA's module that is loaded")] = ""
    driver_owner: Annotated[
        Literal["", "host", "container", "none"], Field(description="whose NVIDIA's libraries are")
    ] = ""
    driver_version: str = ""


class KubeletDevicesStatus(Document):
    """Devices that kubelet has of a resource."""

    resource: str
    uuids: Annotated[list[str], Field(description="of those that are healthy")]


class ValidationStage(Document):
    """A stage of the node's validation."""

    stage: Literal["driver", "runtime", "plugin", "workload"]
    outcome: Literal["passed", "failed", "waiting", "skipped"]
    message: str = ""


class ValidationStatus(Document):
    """Whether the node's parts work, as the cluster controller found it; the agent does not write it."""

    subject: Annotated[str, Field(description="of what: another boot, driver or set of resources is new")] = (
        ""
    )
    stages: Annotated[
        list[ValidationStage], Field(description="in the order in which one needs the one before")
    ] = Field(default_factory=list)
    ran_at: Annotated[
        str | None,
        Field(json_schema_extra={"format": "date-time"}, description="when a pod last tried a device"),
    ] = None


class NodeGPUStatusBody(Document):
    """What the agent of a node knows and no core object carries."""

    updated_at: Annotated[
        str, Field(json_schema_extra={"format": "date-time"}, description="when all this was last written")
    ]
    heartbeat_at: Annotated[
        str | None,
        Field(
            json_schema_extra={"format": "date-time"},
            description="when the agent last looked at the devices, by the API server's clock; "
            "it is silent when that is three minutes ago",
        ),
    ] = None
    driver_version: str = ""
    cuda_version: str = ""
    device_count: int
    healthy_count: int
    config: ConfigStatus
    resources: list[ResourceStatus]
    devices: list[DeviceStatus]
    fabric_waits_since: Annotated[
        str | None,
        Field(
            json_schema_extra={"format": "date-time"},
            description="since when this agent has seen GPUs wait for Fabric Manager; absent while none does",
        ),
    ] = None
    claims: Annotated[ClaimsStatus | None, Field(description="absent where no device is offered so")] = None
    runtime: RuntimeStatus
    kubelet: KubeletStatus
    host: HostStatus | None = None
    kubelet_devices: Annotated[
        list[KubeletDevicesStatus] | None,
        Field(description="of an agent that is to wait for adoption: another plugin's, then its own"),
    ] = None
    problems: list[str] = Field(default_factory=list)
    validation: Annotated[
        ValidationStatus | None, Field(description="absent where no controller validates nodes")
    ] = None

    def to_json(self) -> JsonObject:
        """As it stands in the object's `status`."""
        return cast("JsonObject", self.model_dump(mode="json", by_alias=True, exclude_none=True))

    def to_merge_patch(self) -> JsonObject:
        """The same as a merge patch, which takes away what was there and is not any more: but validation."""
        whole = self.model_dump(mode="json", by_alias=True, exclude={"validation"})
        return cast("JsonObject", {key: _patch_value(value) for key, value in whole.items()})


def _patch_value(value: JsonValue) -> JsonValue:
    """Null for what is left out; a merge patch has lists whole."""
    if isinstance(value, dict):
        return {key: _patch_value(part) for key, part in value.items()}
    return [_list_value(part) for part in value] if isinstance(value, list) else value


def _list_value(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _list_value(part) for key, part in value.items() if part is not None}
    return [_list_value(part) for part in value] if isinstance(value, list) else value


@cache
def _status_schema() -> JsonObject:
    return structural(NodeGPUStatusBody.model_json_schema(by_alias=True))


def node_gpu_status_crd() -> JsonObject:
    """The CustomResourceDefinition: a structural schema made from the model, status subresource, columns."""
    names: JsonObject = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": ["ngs"],
    }
    columns: list[JsonValue] = [
        _column("Devices", "integer", ".status.deviceCount"),
        _column("Healthy", "integer", ".status.healthyCount"),
        _column("Config", "string", ".status.config.source"),
        _column("Error", "string", ".status.config.error", priority=1),
        _column("Driver", "string", ".status.driverVersion", priority=1),
        _column("Heartbeat", "date", ".status.heartbeatAt"),
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]
    schema: JsonObject = {
        "type": "object",
        "description": "The GPUs of one node as its agent sees them; named after the node.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": copied(_status_schema()),
        },
    }
    version: JsonObject = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def structural(schema: dict[str, Any]) -> JsonObject:
    """A pydantic JSON Schema as Kubernetes takes it: no references, titles or null arms."""
    return cast("JsonObject", _structural(schema, schema.get("$defs", {})))


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        node = {**definitions[node["$ref"].rpartition("/")[2]], **node}
    arms = [arm for arm in node.get("anyOf", []) if arm.get("type") != "null"]
    if len(arms) == 1:
        own = {key: node[key] for key in ("description",) if key in node}
        return {**_structural({**arms[0], **own}, definitions), "nullable": True}
    keys = ("type", "format", "description", "enum", "required", "minimum", "maximum", "nullable")
    structural = {key: node[key] for key in keys if key in node}
    if "const" in node:
        structural["enum"] = [node["const"]]
    if "properties" in node:
        structural["properties"] = {
            name: _structural(child, definitions) for name, child in node["properties"].items()
        }
    if "items" in node:
        structural["items"] = _structural(node["items"], definitions)
    return structural


def _column(name: str, kind: str, path: str, *, priority: int = 0) -> JsonObject:
    column: JsonObject = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": priority} if priority else column
