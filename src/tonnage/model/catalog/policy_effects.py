"""What becomes of each field of a ClusterPolicy, out of `policy_fields.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


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
def policy_effects() -> PolicyEffects:
    """Read once."""
    text = resources.files(__package__).joinpath("policy_fields.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return PolicyEffects(
        MappingProxyType(table["honoured"]),
        MappingProxyType(table["without_effect"]),
    )
