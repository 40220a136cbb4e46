"""What becomes of each field of ClusterPolicy, NVIDIADriver and GPUCluster, out of `policy_fields.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyEffects:
    """By path below `spec`."""

    honoured: Mapping[str, str]
    without_effect: Mapping[str, str]

    def why_without(self, path: str) -> str | None:
        """Why a field changes nothing; None: it is honoured. The longest path that matches counts.

        >>> policy_effects().why_without("devicePlugin.config.name") is None
        True
        >>> policy_effects().why_without("psp.enabled")
        'PodSecurityPolicy is gone from Kubernetes'
        """
        steps = path.split(".")
        for length in range(len(steps), 0, -1):
            prefix = ".".join(steps[:length])
            if prefix in self.honoured:
                return None
            if prefix in self.without_effect:
                return self.without_effect[prefix]
        return "the field is of a release of NVIDIA's operator that Tonnage does not know"


@cache
def policy_effects(*, drivers: bool = False) -> PolicyEffects:
    """Of a ClusterPolicy, where the controller installs `drivers` or does not; read once."""
    table = _table()
    own = table["drivers"] if drivers else {"honoured": {}, "without_effect": {}}
    return _effects(
        {**table["honoured"], **own["honoured"]},
        # What is honoured may be a part of a section that is not, and the reverse; the section itself is one.
        {
            k: v
            for k, v in {**table["without_effect"], **own["without_effect"]}.items()
            if k not in own["honoured"]
        },
    )


@cache
def nvidia_driver_effects() -> PolicyEffects:
    """Of an NVIDIADriver; read once."""
    table = _table()["nvidia_driver"]
    return _effects(table["honoured"], table["without_effect"])


@cache
def gpu_cluster_effects() -> PolicyEffects:
    """Of a GPUCluster; read once."""
    return _effects({}, _table()["gpu_cluster"]["without_effect"])


def _effects(honoured: dict[str, str], without_effect: dict[str, str]) -> PolicyEffects:
    return PolicyEffects(MappingProxyType(honoured), MappingProxyType(without_effect))


@cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("policy_fields.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
