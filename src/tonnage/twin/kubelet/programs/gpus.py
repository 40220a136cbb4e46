"""Which GPUs a container sees: what device plugins had injected, looked up among the node's devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.devices.claims import CDI_CLAIM_KIND
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, Sample
from tonnage.model.devices.links import Link
from tonnage.model.errors import TonnageError
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext

_MOUNTS: Final = "/var/run/nvidia-container-devices"
FIELDS: Final = (
    *("memory_used_mib", "utilization_percent", "memory_utilization_percent", "temperature_c", "power_w"),
    *("clock_sm_mhz", "clock_memory_mhz", "clock_sm_most_mhz", "clock_memory_most_mhz"),
)
"""What programs show of a GPU."""
ALL: Final = "all"
"""As the value of NVIDIA_VISIBLE_DEVICES: every GPU of the node."""
UNSUPPORTED: Final = "[N/A]"
_NODE: Final = re.compile("/dev/nvidia([0-9]+)")
_CLAIMED_PART: Final = re.compile(r".*-gpu-([0-9]+)-mig-[a-z0-9]+-[0-9]+-([0-9]+)")
"""A MIG device as a claim's CDI spec names it: the GPU's minor number, and the first memory slice."""
_NO_DEVICES: Final = frozenset({"", "void", "none"})


@dataclass(frozen=True, slots=True)
class VisibleGpus:
    """`devices` in the order of their index, `lost` the injected ids that do not answer any more.

    A divided device is seen where one of its MIG devices is, and of those only the injected ones, by `parts`.
    """

    devices: tuple[Device, ...]
    lost: tuple[str, ...]
    driver_version: str
    cuda_version: str
    samples: dict[str, Sample]
    unreadable: str = ""
    parts: frozenset[str] = frozenset()
    links: tuple[Link, ...] = ()


class GpuReading:
    """One GPU for one answer: device, its newest sample, its catalogue row."""

    def __init__(self, device: Device, gpus: VisibleGpus) -> None:
        self.device = device
        self.gpus = gpus
        self.sample = gpus.samples.get(device.uuid, Sample(device.uuid))
        self.model: GpuModel | None = next(
            (model for model in gpu_models().values() if model.product == device.product), None
        )

    @property
    def used_mib(self) -> int | None:
        return self.sample.whole("memory_used_mib")

    @property
    def temperature_c(self) -> int | None:
        return self.sample.whole("temperature_c")

    @property
    def power_w(self) -> float | None:
        return self.sample.values.get("power_w")

    @property
    def free_mib(self) -> int | None:
        used = self.used_mib
        return None if used is None else self.device.memory_mib - used

    @property
    def mig_mode(self) -> str:
        if self.model is None or not self.model.mig:
            return UNSUPPORTED
        return "Enabled" if self.device.mig_enabled else "Disabled"

    @property
    def busy(self) -> int | None:
        """Percent; the driver measures none of a divided GPU."""
        return self.sample.whole("utilization_percent")

    @property
    def memory_percent(self) -> int | None:
        """Percent of the time in which its memory moves data."""
        return self.sample.whole("memory_utilization_percent")


def injected_ids(context: ContainerContext) -> tuple[str, ...]:
    """UUIDs or indexes of the GPUs that were injected, each once, in the order in which they were named."""
    injection = context.injection
    value = injection.env.get("NVIDIA_VISIBLE_DEVICES", "")
    ids = [] if value.startswith("/") or value in _NO_DEVICES else value.split(",")
    ids += [path.removeprefix(f"{_MOUNTS}/") for path in injection.mounts if path.startswith(f"{_MOUNTS}/")]
    ids += [
        device
        for kind, _, device in (name.partition("=") for name in injection.cdi_devices)
        if kind.rpartition("/")[2] == "gpu"
    ]
    ids += [
        match[1]
        for path in injection.device_nodes
        if any(name.startswith(CDI_CLAIM_KIND) for name in injection.cdi_devices)
        and (match := _NODE.fullmatch(path))
    ]
    ids += [
        f"mig-{match[1]}-{match[2]}"
        for name in injection.cdi_devices
        if name.startswith(CDI_CLAIM_KIND) and (match := _CLAIMED_PART.fullmatch(name))
    ]
    return tuple(dict.fromkeys(ids))


def sees_gpus(context: ContainerContext) -> bool:
    """Whether the driver's files are in the container."""
    return bool(injected_ids(context))


async def visible_gpus(context: ContainerContext) -> VisibleGpus:
    """The GPUs behind the injected ids, as the node has them now."""
    ids = injected_ids(context)
    try:
        inventory = await context.devices.scan()
        samples = {sample.uuid: sample for sample in await context.devices.sample(FIELDS)}
    except TonnageError as error:
        return VisibleGpus((), ids, "", "", {}, str(error))
    return _visible(ids, inventory, samples)


def _visible(ids: tuple[str, ...], inventory: Inventory, samples: dict[str, Sample]) -> VisibleGpus:
    if ids == (ALL,):
        ids = tuple(device.uuid for device in inventory.devices)
    alive = [device for device in inventory.devices if device.uuid in samples]
    by_id = {device.uuid: device for device in alive} | {str(device.index): device for device in alive}
    part_of = {name: part for device in alive for part in device.migs for name in _names(device, part)}
    by_id |= {name: device for device in alive for part in device.migs for name in _names(device, part)}
    visible = {device.uuid: device for name in ids if (device := by_id.get(name)) is not None}
    return VisibleGpus(
        tuple(sorted(visible.values(), key=lambda device: device.index)),
        tuple(name for name in ids if name not in by_id),
        inventory.driver_version,
        inventory.cuda_version,
        samples,
        parts=frozenset(part_of[name].uuid for name in ids if name in part_of),
        links=inventory.links,
    )


def _names(device: Device, part: MigDevice) -> tuple[str, ...]:
    """What a MIG device is called in injected ids."""
    if part.placement is None:
        return (part.uuid,)
    return part.uuid, f"mig-{device.minor}-{part.placement[0]}"


async def device_nodes(context: ContainerContext) -> tuple[str, ...]:
    """Device nodes under /dev that were injected, the control devices included."""
    if not sees_gpus(context):
        return context.injection.device_nodes
    gpus = await visible_gpus(context)
    minors = tuple(
        f"/dev/nvidia{device.index if device.minor is None else device.minor}" for device in gpus.devices
    )
    control = ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
    return tuple(dict.fromkeys((*minors, *control, *context.injection.device_nodes)))
