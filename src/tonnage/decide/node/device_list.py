"""What `deviceListStrategy: auto` comes to on a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    Version,
    can_cdi,
    cdi_by_default,
    cdi_setting,
    kubelet_cdi,
    kubelet_names_cdi,
    runtime_kind,
    version_of,
)
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.node.runtime_config import CDI_FOLDER, NodeRuntime, RuntimeConfig, RuntimeKind
from tonnage.model.reasons.gpu.offers import CdiNotUsed

_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class DeviceListChoice:
    """The strategy, None where it cannot be told yet; and why: what has CDI, or what is against it."""

    strategy: DeviceListStrategy | None
    basis: str = ""
    refusal: CdiNotUsed | None = None

    @property
    def why(self) -> str:
        """The same in words."""
        return self.basis if self.refusal is None else self.refusal.message


def device_list(node: NodeRuntime) -> DeviceListChoice:
    """CDI where kubelet, runtime and the agent itself have it, else variables.

    Only what is known to have CDI counts as having it: a runtime without it starts containers without their
    GPUs, and says nothing.

    >>> device_list(NodeRuntime("v1.35.0", "containerd://2.1.4")).why
    'kubelet 1.35.0 and containerd 2.1.4 have CDI'
    """
    if not node.kubelet or not node.runtime:
        message = "the Node does not say yet which kubelet and container runtime it has"
        return DeviceListChoice(None, refusal=CdiNotUsed(message=message))
    name, _, runtime_version = node.runtime.partition("://")
    runtime = f"{name[:_LONGEST]} {_shown(runtime_version)}"
    obstacle = _obstacle(node, name, runtime_version, runtime)
    if obstacle:
        return DeviceListChoice(DeviceListStrategy.ENVVAR, refusal=CdiNotUsed(message=obstacle))
    basis = f"kubelet {_shown(node.kubelet)} and {runtime} have CDI"
    return DeviceListChoice(DeviceListStrategy.CDI_CRI, basis)


def _obstacle(node: NodeRuntime, name: str, runtime_version: str, runtime: str) -> str:
    """The words of what is against CDI; empty if nothing is."""
    if node.unwritable:
        return f"no CDI spec can be written: {node.unwritable}"
    kubelet = version_of(node.kubelet)
    if kubelet is None or not kubelet_names_cdi(kubelet):
        return f"kubelet {_shown(node.kubelet)} does not pass on CDI devices, which needs 1.29"
    kind, version = runtime_kind(name), version_of(runtime_version)
    if kind is None or version is None:
        return f"{runtime} may not have CDI"
    missing = _missing(node, kind, version)
    return f"{runtime} {missing}" if missing else ""


def _missing(node: NodeRuntime, kind: RuntimeKind, version: Version) -> str:
    """The words of what the runtime lacks, to stand after its name; empty if it has CDI."""
    if not can_cdi(kind, version):
        return f"has no CDI, which needs {CDI_NEEDS}"
    configs = [config for config in node.configs if config.kind is kind]
    elsewhere = next((config.cdi_elsewhere for config in configs if config.cdi_elsewhere), "")
    if elsewhere:
        return f"reads no CDI specs in {CDI_FOLDER}: {elsewhere}"
    if kind is RuntimeKind.CRIO:
        return "" if kubelet_cdi(kind, version) else "takes no CDI devices from kubelet, which needs 1.28"
    off = next((config for config in configs if cdi_setting(config, version) is False), None)
    if off is not None:
        return f"has CDI switched off: {off.cdi_where}"
    broken = next((config.problems[0] for config in configs if config.problems), None)
    if broken is not None:
        return f"may have CDI switched off: its configuration cannot be read: {broken}"
    if cdi_by_default(kind, version) or any(cdi_setting(config, version) for config in configs):
        return ""
    return f"has CDI where enable_cdi = true says so, {_silent(configs)}"


def _silent(configs: list[RuntimeConfig]) -> str:
    files = [config.cdi_replaced or config.files[0] for config in configs if config.files]
    return f"and {files[0]} does not" if files else "and the agent does not see its configuration"


def _shown(version: str) -> str:
    return version.removeprefix("v")[:_LONGEST]
