"""Which container runtime a node has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.runtime.versions import (
    Version,
    can_cdi,
    cdi_by_default,
    cdi_setting,
    nri_by_default,
    runtime_kind,
)
from tonnage.model.node.facts import ClusterFacts, RuntimeFacts
from tonnage.model.node.runtime_config import RuntimeConfig, RuntimeKind

CONFIGURE: Final = "tonnage runtime apply --nvidia-runtime --restart"
"""Puts NVIDIA's handler into the runtime's configuration."""


@dataclass(frozen=True, slots=True)
class ExaminedRuntime:
    """kubelet's runtime. `cdi` and `nri`: whether it does so, None where that cannot be told."""

    facts: RuntimeFacts
    kind: RuntimeKind
    release: str
    version: Version | None
    config: RuntimeConfig

    @property
    def name(self) -> str:
        """As a person calls it."""
        return f"{self.kind.value} {self.release}".strip()

    @property
    def cdi(self) -> bool | None:
        """Whether it reads CDI specs of the folder where ours are."""
        if self.version is not None and not can_cdi(self.kind, self.version):
            return False
        if self.config.cdi_elsewhere:
            return False
        configured = cdi_setting(self.config, self.version)
        if configured is not None and self.kind is RuntimeKind.CONTAINERD:
            return configured
        return None if self.version is None else cdi_by_default(self.kind, self.version)

    @property
    def nri(self) -> bool | None:
        """Whether NRI is on."""
        if self.config.nri is not None:
            return self.config.nri
        return None if self.version is None else nri_by_default(self.kind, self.version)


def runtime_of(facts: RuntimeFacts, cluster: ClusterFacts | None) -> tuple[RuntimeKind | None, str]:
    """(kubelet's runtime, its version): as it says itself, the Node says, its package; empty if none does."""
    if facts.name:
        return runtime_kind(facts.name), facts.version
    name, _, version = (cluster.runtime if cluster is not None else "").partition("://")
    if version:
        return runtime_kind(name), version
    kinds = {config.kind for config in facts.configs}
    packages = {
        RuntimeKind.CONTAINERD: facts.packages.get("containerd") or facts.packages.get("containerd.io", ""),
        RuntimeKind.CRIO: facts.packages.get("cri-o", ""),
    }
    installed = [kind for kind in RuntimeKind if kind in kinds or packages[kind]]
    if len(installed) != 1:
        return None, ""
    return installed[0], packages[installed[0]]


def unit_of(kind: RuntimeKind) -> str:
    """Its unit of systemd."""
    return "crio" if kind is RuntimeKind.CRIO else "containerd"
