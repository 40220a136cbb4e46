"""What kubelet, device plugins and container runtimes say in their own words, by `catalog/messages.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.reason import Symptom, reason


@reason
class TopologyAffinity(Symptom):
    """Kubelet could not, or would not be able to, align the devices on NUMA nodes (`TopologyAffinityError`);
    the node's layout is named."""

    code: ClassVar[str] = "topology-affinity"
    leads: ClassVar[bool] = True
    advice: ClassVar[str] = "ask for no more than one NUMA node has, use another node, or relax the policy"
    node_words: ClassVar[str] = "whose kubelet could not align its devices"
    layer: Layer = Layer.KUBELET
    policy: str | None = None
    scope: str | None = None
    numa: tuple[str, ...] | None = None
    most: Mapping[str, int] | None = None
    nodes: tuple[str, ...] | None = None
    others: tuple[str, ...] | None = None


@reason
class KubeletOutOfResource(Symptom):
    """Kubelet found less than the scheduler thought (`OutOf…`)."""

    code: ClassVar[str] = "kubelet-out-of-resource"
    advice: ClassVar[str] = "do not set `spec.nodeName` by hand; one scheduler per node"
    layer: Layer = Layer.KUBELET
    resource: str | None = None
    requested: str | None = None
    used: str | None = None
    capacity: str | None = None


@reason
class CdiDeviceNodeMissing(Symptom):
    code: ClassVar[str] = "cdi-device-node-missing"
    path: str | None = None


@reason
class CdiDeviceUnresolvable(Symptom):
    code: ClassVar[str] = "cdi-device-unresolvable"
    device: str | None = None


@reason
class ContainerCommand(Symptom):
    code: ClassVar[str] = "container-command"
    command: str | None = None


class ContainerConfig(Symptom):
    code: ClassVar[str] = "container-config"


class CrashLooping(Symptom):
    code: ClassVar[str] = "crash-looping"


class DeviceAccessBlocked(Symptom):
    code: ClassVar[str] = "device-access-blocked"


class DeviceCgroupLost(Symptom):
    code: ClassVar[str] = "device-cgroup-lost"


@reason
class DeviceUnknownToToolkit(Symptom):
    code: ClassVar[str] = "device-unknown-to-toolkit"
    device: str | None = None


@reason
class DevicesFellIll(Symptom):
    code: ClassVar[str] = "devices-fell-ill"
    resource: str | None = None


@reason
class DraDriverUnregistered(Symptom):
    code: ClassVar[str] = "dra-driver-unregistered"
    driver: str | None = None
    pool: str | None = None


class DraDriverGone(DraDriverUnregistered):
    """The same where objects tell it: a claim's devices are of a pool that no ResourceSlice has any more."""

    trailing: ClassVar[tuple[str, ...]] = ("check",)


@reason
class DraConfigRefused(Symptom):
    code: ClassVar[str] = "dra-config-refused"
    claim: str | None = None


@reason
class DraPrepareFailed(Symptom):
    code: ClassVar[str] = "dra-prepare-failed"
    claim: str | None = None


@reason
class Evicted(Symptom):
    code: ClassVar[str] = "evicted"
    resource: str | None = None
    condition: str | None = None


@reason
class HamiSchedulerBypassed(Symptom):
    code: ClassVar[str] = "hami-scheduler-bypassed"
    node: str | None = None


class ImagePull(Symptom):
    code: ClassVar[str] = "image-pull"


@reason
class KubeletDevicesShort(Symptom):
    code: ClassVar[str] = "kubelet-devices-short"
    resource: str | None = None
    requested: str | None = None
    available: str | None = None


@reason
class KubeletPredicateFailed(Symptom):
    code: ClassVar[str] = "kubelet-predicate-failed"
    predicate: str | None = None


class MigStrategyMixed(Symptom):
    code: ClassVar[str] = "mig-strategy-mixed"


class NoGpuInjected(Symptom):
    code: ClassVar[str] = "no-gpu-injected"


@reason
class NoHealthyDevices(Symptom):
    code: ClassVar[str] = "no-healthy-devices"
    resource: str | None = None


class NodeShutDown(Symptom):
    code: ClassVar[str] = "node-shut-down"


class OomKilled(Symptom):
    code: ClassVar[str] = "oom-killed"


class PluginWithoutDriver(Symptom):
    code: ClassVar[str] = "plugin-without-driver"


@reason
class PodNetworkFailed(Symptom):
    code: ClassVar[str] = "pod-network-failed"
    plugin: str | None = None


class PreferredAllocationFailed(Symptom):
    code: ClassVar[str] = "preferred-allocation-failed"


class SandboxFailed(Symptom):
    code: ClassVar[str] = "sandbox-failed"


class ToolkitCgroup(Symptom):
    code: ClassVar[str] = "toolkit-cgroup"


@reason
class VolumeAttachFailed(Symptom):
    code: ClassVar[str] = "volume-attach-failed"
    volume: str | None = None


@reason
class VolumeMountFailed(Symptom):
    code: ClassVar[str] = "volume-mount-failed"
    volume: str | None = None


REASONS: Final[tuple[type[Symptom], ...]] = (
    TopologyAffinity,
    SharedRequestTooLarge,
    KubeletOutOfResource,
    CdiDeviceNodeMissing,
    CdiDeviceUnresolvable,
    ContainerCommand,
    ContainerConfig,
    CrashLooping,
    DeviceAccessBlocked,
    DeviceCgroupLost,
    DeviceUnknownToToolkit,
    DevicesFellIll,
    DraDriverUnregistered,
    DraConfigRefused,
    DraPrepareFailed,
    Evicted,
    HamiSchedulerBypassed,
    ImagePull,
    KubeletDevicesShort,
    KubeletPredicateFailed,
    MigStrategyMixed,
    NoGpuInjected,
    NoHealthyDevices,
    NodeShutDown,
    OomKilled,
    PluginWithoutDriver,
    PodNetworkFailed,
    PreferredAllocationFailed,
    SandboxFailed,
    ToolkitCgroup,
    VolumeAttachFailed,
    VolumeMountFailed,
)
