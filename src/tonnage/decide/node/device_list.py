"""What `deviceListStrategy: auto` comes to on a node."""

from __future__ import annotations

from typing import Final

from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    Version,
    can_cdi,
    cdi_by_default,
    cdi_said,
    kubelet_cdi,
    kubelet_names_cdi,
    runtime_kind,
    version_of,
)
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.node.runtime_config import CDI_FOLDER, NodeRuntime, RuntimeConfig, RuntimeKind

_LONGEST: Final = 60
Settled = tuple[DeviceListStrategy | None, str]


def device_list(node: NodeRuntime) -> Settled:
    """(the strategy, why): CDI where kubelet, runtime and the agent itself have it, else variables.

    None where that cannot be told yet. Only what is known to have CDI counts as having it: a runtime without
    it starts containers without their GPUs, and says nothing.

    >>> device_list(NodeRuntime("v1.35.0", "containerd://2.1.4"))
    (<DeviceListStrategy.CDI_CRI: 'cdi-cri'>, 'kubelet 1.35.0 and containerd 2.1.4 have CDI')
    """
    kubelet, (name, _, runtime_version) = version_of(node.kubelet), node.runtime.partition("://")
    if not node.kubelet or not node.runtime:
        return None, "the Node does not say yet which kubelet and container runtime it has"
    if node.unwritable:
        return DeviceListStrategy.ENVVAR, f"no CDI spec can be written: {node.unwritable}"
    if kubelet is None or not kubelet_names_cdi(kubelet):
        return (
            DeviceListStrategy.ENVVAR,
            f"kubelet {_shown(node.kubelet)} hands on no CDI devices, which needs 1.29",
        )
    kind, version = runtime_kind(name), version_of(runtime_version)
    runtime = f"{name[:_LONGEST]} {_shown(runtime_version)}"
    if kind is None or version is None:
        return DeviceListStrategy.ENVVAR, f"{runtime} is not known to have CDI"
    missing = _missing(node, kind, version)
    if missing:
        return DeviceListStrategy.ENVVAR, f"{runtime} {missing}"
    return DeviceListStrategy.CDI_CRI, f"kubelet {_shown(node.kubelet)} and {runtime} have CDI"


def _missing(node: NodeRuntime, kind: RuntimeKind, version: Version) -> str:
    """Why the runtime does not have CDI; empty if it has."""
    if not can_cdi(kind, version):
        return f"has no CDI, which needs {CDI_NEEDS}"
    configs = [config for config in node.configs if config.kind is kind]
    elsewhere = next((config.cdi_elsewhere for config in configs if config.cdi_elsewhere), "")
    if elsewhere:
        return f"reads no CDI specs of {CDI_FOLDER}: {elsewhere}"
    if kind is RuntimeKind.CRIO:
        return "" if kubelet_cdi(kind, version) else "takes no CDI devices from kubelet, which needs 1.28"
    off = next((config for config in configs if cdi_said(config, version) is False), None)
    if off is not None:
        return f"has CDI switched off: {off.cdi_where}"
    broken = next((config.problems[0] for config in configs if config.problems), None)
    if broken is not None:
        return f"may have CDI switched off, its configuration is not readable: {broken}"
    if cdi_by_default(kind, version) or any(cdi_said(config, version) for config in configs):
        return ""
    return f"has CDI where enable_cdi = true says so, {_silent(configs)}"


def _silent(configs: list[RuntimeConfig]) -> str:
    files = [config.cdi_replaced or config.files[0] for config in configs if config.files]
    return f"and {files[0]} does not" if files else "and the agent does not see its configuration"


def _shown(version: str) -> str:
    return version.removeprefix("v")[:_LONGEST]
