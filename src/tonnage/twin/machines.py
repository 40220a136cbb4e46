"""The pretended machines of a scenario: node specs, hardware files, and what befalls the hardware."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import yaml

from tonnage.decide.kubernetes.kubelet.topology_manager import TopologyPolicy, TopologyScope
from tonnage.decide.node.choose_config import ConfigChoice, Wishes, choose
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.documents.node_groups import NodeGroup
from tonnage.documents.scenario import Scenario
from tonnage.documents.yaml.reader import MAX_BYTES
from tonnage.documents.yaml.source import parse_document
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.names import CONFIG_LABEL
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.twin.feature_discovery import feature_labels, pretended_machine
from tonnage.twin.kubelet.node_spec import KERNEL, KubeletNode, NodePaths
from tonnage.wire.objects import Taint

LIGHT_LABEL: Final = "tonnage.dev/light"
"""On nodes without a kubelet; no agent runs there."""
_LIGHT_NETWORKS: Final = 64
"""Pods of light nodes have addresses of 100.64.0.0/10, a /24 for each node."""
_HEALTH_FIELDS: Final = (
    *("health", "reason", "xids", "ecc_uncorrected"),
    *("row_remap", "recovery_action", "nvlinks_down", "nvlink_errors"),
)
"""What may be wrong with a card."""
_UUIDS: Final = uuid.UUID("7e1f0f5c-0f6b-5a55-9d0c-6b1f6c0f7a11")
"""Namespace of made-up device UUIDs: the same scenario always has the same GPUs."""


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """One node to be: how its kubelet is configured, and what is plugged into it."""

    spec: KubeletNode
    hardware: Hardware
    group: NodeGroup


def machines_of(scenario: Scenario, *, address: str = "127.0.0.1") -> Iterator[MachineSpec]:
    """Every node of the scenario, group by group, each with a pod network of its own."""
    number = 0
    for group in scenario.groups:
        if group.light:
            continue
        labels = _labels_of(group, scenario.config_texts)
        for name in group.node_names:
            spec = _spec(group, name, number, address, labels)
            yield MachineSpec(spec, hardware_of(group, name), group)
            number += 1


@dataclass(frozen=True, slots=True)
class LightNode:
    """A node to be of which there is only the object. `devices`: amounts by resource name."""

    spec: KubeletNode
    devices: Mapping[str, str]


def light_nodes_of(scenario: Scenario, *, address: str = "127.0.0.1") -> Iterator[LightNode]:
    """Every light node of the scenario, each with a pod network of its own."""
    number = 0
    for group in scenario.groups:
        if not group.light:
            continue
        devices = _devices_of(group)
        labels = _labels_of(group, scenario.config_texts)
        for name in group.node_names:
            spec = _spec(group, name, 0, address, labels)
            network = f"100.{_LIGHT_NETWORKS + number // 256}.{number % 256}.0/24"
            # What a controller would add in a write of its own is there from the beginning.
            yield LightNode(
                replace(
                    spec,
                    pod_cidr=network,
                    labels={**spec.labels, LIGHT_LABEL: "true"},
                    annotations={"node.alpha.kubernetes.io/ttl": "0"},
                ),
                devices,
            )
            number += 1


def _devices_of(group: NodeGroup) -> Mapping[str, str]:
    """What its agent would advertise: whole cards, or MIG devices by their profiles."""
    if group.gpu is None:
        return {}
    if group.gpu.mig is None:
        return {"nvidia.com/gpu": str(group.gpu.count)}
    counts = Counter(profile.replace("+", ".") for profile in group.gpu.mig)
    return {f"nvidia.com/mig-{name}": str(count * group.gpu.count) for name, count in counts.items()}


def hardware_of(group: NodeGroup, node: str) -> Hardware:
    """The node's devices, spread over its NUMA nodes in order; UUIDs follow from the node's name."""
    if group.gpu is None:
        return Hardware()
    count = group.gpu.count
    return Hardware(
        devices=tuple(
            HardwareDevice(
                uuid=f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}",
                model=group.gpu.model,
                numa=index * group.numa // count,
                mig=group.gpu.mig,
            )
            for index in range(count)
        ),
        links=group.gpu.links,
    )


def _labels_of(group: NodeGroup, configs: Mapping[str, str]) -> dict[str, str]:
    """The labels of each of its nodes; what the scenario says wins."""
    hardware = hardware_of(group, group.name)
    machine = pretended_machine(hardware, KERNEL)
    chosen = {CONFIG_LABEL: group.config} if group.config else {}
    return {**feature_labels(hardware, _config_of(group, configs), machine), **chosen, **group.labels}


def _config_of(group: NodeGroup, configs: Mapping[str, str]) -> PluginConfig:
    """The device-plugin configuration that the group's agents begin with; light nodes offer MIG devices."""
    if group.light:
        divided = group.gpu is not None and group.gpu.mig is not None
        return PluginConfig(mig_strategy=MigStrategy.MIXED if divided else MigStrategy.NONE)
    choice = choose(group.config, configs, None, Wishes("the scenario"))
    text = choice.text if isinstance(choice, ConfigChoice) else ""
    return parse_device_plugin_config(text, source="the scenario", lenient=True)


def _spec(group: NodeGroup, name: str, number: int, address: str, labels: Mapping[str, str]) -> KubeletNode:
    return KubeletNode(
        name=name,
        address=address,
        pod_cidr=f"10.{244 + number // 256}.{number % 256}.0/24",
        capacity={
            "cpu": str(group.cpu),
            "memory": str(group.memory),
            "ephemeral-storage": "1Ti",
            "pods": str(group.pods),
        },
        labels=labels,
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in group.node_taints),
        numa_nodes=group.numa,
        reserved={"cpu": str(group.kubelet.reserved_cpus)} if group.kubelet.reserved_cpus else {},
        cpu_policy=group.kubelet.cpu_manager_policy,
        reserved_cpus=group.kubelet.reserved_cpus,
        numa_distances=group.numa_distances,
        topology_policy=TopologyPolicy(group.kubelet.topology_manager_policy),
        topology_scope=TopologyScope(group.kubelet.topology_manager_scope),
        topology_options=group.kubelet.topology_manager_policy_options.texts(),
    )


class HardwareFile:
    """A node's hardware as its file says. Every change is a new file, which the scenario backend notices."""

    def __init__(self, root: Path) -> None:
        self.path = NodePaths(root).hardware

    def read(self) -> Hardware:
        """What is plugged in now. Raises ConfigError when somebody broke the file."""
        with self.path.open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)  # the reader refuses what is longer
        return parse_document(text, Hardware, source=str(self.path))

    def write(self, hardware: Hardware) -> None:
        """Replace the file at once. Raises ConfigError for what could not be read again."""
        content = hardware.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        text = yaml.safe_dump(content, sort_keys=False)
        parse_document(text, Hardware, source=str(self.path))
        fresh = self.path.with_name(f".{self.path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.path)

    def set_health(
        self, index: int, health: Literal["healthy", "unhealthy", "lost", "hung"], reason: str = ""
    ) -> None:
        """A device fails, falls off the bus or comes back."""
        self._change(index, lambda _: {"health": health, "reason": reason})

    def report(self, index: int, xid: int) -> None:
        """The driver reports an error of a device. One remembers 256."""
        self._change(index, lambda device: {"xids": (*device.xids, xid)})

    def divide(self, index: int, *profiles: str) -> None:
        """Somebody enables MIG on a device and makes these MIG devices of it, in the place of others."""
        self._change(index, lambda _: {"mig": profiles})

    def make_whole(self, index: int) -> None:
        """Somebody disables MIG on a device."""
        self._change(index, lambda _: {"mig": None})

    def reboot(self) -> None:
        """The machine starts anew, which heals cards unless they are worn out or their links are."""
        hardware = self.read()
        devices = tuple(device.model_copy(update=_healed(device)) for device in hardware.devices)
        number = int(hardware.boot) if hardware.boot.isdecimal() else 0
        self.write(hardware.model_copy(update={"boot": str(number + 1), "devices": devices}))

    def exchange(self, index: int, device_uuid: str) -> None:
        """A technician puts another card of the same model into the slot."""
        self._change(index, lambda _: {**_well(), "uuid": device_uuid})

    def _change(self, index: int, update: Callable[[HardwareDevice], dict[str, object]]) -> None:
        hardware = self.read()
        if not 0 <= index < len(hardware.devices):
            raise ConfigError(
                Problem(f"no device {index}", str(self.path), f"the node has {len(hardware.devices)}")
            )
        devices = list(hardware.devices)
        devices[index] = devices[index].model_copy(update=update(devices[index]))
        self.write(hardware.model_copy(update={"devices": tuple(devices)}))


def _well() -> dict[str, object]:
    """What is wrong with a card that nothing is wrong with."""
    return {name: HardwareDevice.model_fields[name].default for name in _HEALTH_FIELDS}


def _healed(device: HardwareDevice) -> dict[str, object]:
    lasting = {"row_remap"} if device.row_remap == "failed" else set[str]()
    return {name: value for name, value in _well().items() if name not in {*lasting, "nvlinks_down"}}
