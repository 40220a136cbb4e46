"""What can be said of a node's kubelet and container runtime, and what is missing where it cannot."""

from __future__ import annotations

from typing import Final

from tonnage.decide.node.runtime.versions import (
    CDI_NEEDS,
    Version,
    can_cdi,
    cdi_by_default,
    cdi_setting,
    kubelet_cdi,
    nri_by_default,
    runtime_kind,
    version_of,
)
from tonnage.model.node.runtime_config import CDI_FOLDER, NodeRuntime, RuntimeConfig, RuntimeKind
from tonnage.model.node.software import UNKNOWN, KubeletPolicies, NodeSoftware, RuntimeInventory, Switch

_LONGEST: Final = 60
_LONGEST_REASON: Final = 500
_SILENT: Final = "the Node does not say yet which container runtime it has"
SwitchAndPlace = tuple[Switch, str]


def node_software(node: NodeRuntime, policies: KubeletPolicies) -> NodeSoftware:
    """What a node runs. Nothing is guessed: a default counts only where the configuration was read.

    >>> node_software(NodeRuntime("v1.35.8", "containerd://2.2.1"), KubeletPolicies()).runtime.cdi
    <Switch.UNKNOWN: 'unknown'>
    """
    return NodeSoftware(_runtime(node), _shown(node.kubelet) or UNKNOWN, policies)


def _runtime(node: NodeRuntime) -> RuntimeInventory:
    name, _, version_text = node.runtime.partition("://")
    if not name or not version_text:
        return RuntimeInventory(cdi_reason=_SILENT, nri_reason=_SILENT)
    kind, version = runtime_kind(name), version_of(version_text)
    if kind is None or version is None:
        strange = f"Tonnage does not know {name[:_LONGEST]} {_shown(version_text)}"
        return RuntimeInventory(name[:_LONGEST], _shown(version_text), cdi_reason=strange, nri_reason=strange)
    configs = [config for config in node.configs if config.kind is kind]
    cdi, cdi_reason = _cdi(kind, version, configs)
    nri, nri_reason = _nri(kind, version, configs)
    return RuntimeInventory(name[:_LONGEST], _shown(version_text), cdi, cdi_reason, nri, nri_reason)


def _cdi(kind: RuntimeKind, version: Version, configs: list[RuntimeConfig]) -> SwitchAndPlace:
    if not can_cdi(kind, version):
        return Switch.OFF, f"it is older than {CDI_NEEDS}"
    elsewhere = next((config.cdi_elsewhere for config in configs if config.cdi_elsewhere), "")
    if elsewhere:
        return Switch.OFF, f"it reads no specs in {CDI_FOLDER}: {elsewhere}"
    if kind is RuntimeKind.CRIO:
        late = "" if kubelet_cdi(kind, version) else "; device names from kubelet need 1.28"
        return Switch.ON, f"always on since CRI-O 1.23{late}"
    settings = [(cdi_setting(config, version), config.cdi_where) for config in configs]
    silent = next((config.cdi_replaced for config in configs), "")
    return _configured(settings, cdi_by_default(kind, version), configs, silent)


def _nri(kind: RuntimeKind, version: Version, configs: list[RuntimeConfig]) -> SwitchAndPlace:
    if version < ((1, 7, 0) if kind is RuntimeKind.CONTAINERD else (1, 26, 0)):
        return Switch.OFF, "it is older than containerd 1.7 or CRI-O 1.26"
    settings = [(config.nri, config.nri_where) for config in configs]
    return _configured(settings, nri_by_default(kind, version), configs)


def _configured(
    settings: list[tuple[bool | None, str]], by_default: bool, configs: list[RuntimeConfig], silent: str = ""
) -> SwitchAndPlace:
    """What the files say, each (on or off, where); where none does the default, once that was seen.

    `silent` is the file that decides by saying nothing, empty if it is the main one.
    """
    default = f"{_switch(by_default)} by default"
    problem = next((config.problems[0] for config in configs if config.problems), None)
    if problem is not None:
        return (
            Switch.UNKNOWN,
            f"{default}, but its configuration cannot be read: {problem.where}: {problem.what}"[
                :_LONGEST_REASON
            ],
        )
    if not configs:
        return (
            Switch.UNKNOWN,
            f"{default}, but Tonnage does not see its configuration, which may say otherwise",
        )
    places = {on: where for on, where in settings if on is not None}
    if len(places) > 1:
        return Switch.UNKNOWN, f"two configurations disagree: {places[True]}, {places[False]}"
    for on, where in places.items():
        return _switch(on), where
    return _switch(by_default), f"by default, and {silent or configs[0].files[0]} does not say otherwise"


def _switch(on: bool) -> Switch:
    return Switch.ON if on else Switch.OFF


def _shown(version: str) -> str:
    return version.removeprefix("v")[:_LONGEST]
