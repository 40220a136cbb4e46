"""Kubernetes' feature gates for devices: what each minor release has by default, and what somebody chose.

Source: pkg/features/kube_features.go of v1.34 to v1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tonnage.model.errors import ConfigError, Problem

PARTITIONS: Final = "DRAPartitionableDevices"
TAINTS: Final = "DRADeviceTaints"
SHARES: Final = "DRAConsumableCapacity"
CONDITIONS: Final = "DRADeviceBindingConditions"
HEALTH: Final = "ResourceHealthStatus"
EXTENDED: Final = "DRAExtendedResource"
SIMULATED: Final = (PARTITIONS, TAINTS, SHARES, CONDITIONS, HEALTH, EXTENDED)
ON_SINCE: Final = 36
"""The first minor release of Kubernetes 1 that has these gates on by default."""
_FLAG: Final = "--feature-gates"
_RULED_BY: Final = (TAINTS, "DRADeviceTaintRules")
"""With either, by release, schedulers list DeviceTaintRules, and schedule no pod at all until they can."""
_SERVE_RULES: Final = "--runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true"
"""Up to 1.35 they are of the first version, in 1.36 of the second; neither is served by default."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The gates of a server of that minor release; `chosen` are those that somebody set."""

    minor: int = 35
    chosen: tuple[tuple[str, bool], ...] = ()

    def has(self, gate: str) -> bool:
        """Whether a gate is on.

        >>> FeatureGates(35).has(TAINTS), FeatureGates(36).has(TAINTS)
        (False, True)
        >>> FeatureGates(35, ((TAINTS, True),)).has(TAINTS)
        True
        """
        return dict(self.chosen).get(gate, gate in SIMULATED and self.minor >= ON_SINCE)

    @property
    def flags(self) -> tuple[str, ...]:
        """What a genuine program is started with."""
        chosen = ",".join(f"{name}={'true' if on else 'false'}" for name, on in self.chosen)
        return (f"{_FLAG}={chosen}",) if chosen else ()

    @property
    def server_flags(self) -> tuple[str, ...]:
        """What a genuine API server is started with: the gates, and the versions that others then ask it for.

        >>> FeatureGates(34, ((TAINTS, True),)).server_flags[1:]
        ('--runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true',)
        """
        ruled = any(on and name in _RULED_BY for name, on in self.chosen)
        return (*self.flags, _SERVE_RULES) if ruled else self.flags


DEFAULT_GATES: Final = FeatureGates()
"""Of the release that the embedded cluster is."""


def minor_of(version: str) -> int:
    """The minor release of `1.36` or `1.36.2`; the default's where none is named.

    >>> minor_of("1.36.2"), minor_of("")
    (36, 35)
    """
    parts = version.lstrip("v").split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else DEFAULT_GATES.minor


def parse_feature_gates(text: str) -> tuple[tuple[str, bool], ...]:
    """What `NAME=true,NAME=false` chooses, sorted.

    >>> parse_feature_gates("DRADeviceTaints=true")
    (('DRADeviceTaints', True),)

    Raises ConfigError: it is not written like that.
    """
    chosen: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if value.lower() not in ("true", "false") or not name.isalnum():
            remedy = f"write {_FLAG} NAME=true, more of them after commas"
            raise ConfigError(
                Problem(f"{part[:80]!r} is not a feature gate with its value", _FLAG, "", remedy)
            )
        chosen[name] = value.lower() == "true"
    return tuple(sorted(chosen.items()))


def check_simulated(chosen: tuple[tuple[str, bool], ...]) -> None:
    """Raises ConfigError: the embedded cluster does not simulate one of these gates."""
    unknown = [name for name, _ in chosen if name not in SIMULATED]
    if not unknown:
        return
    near = get_close_matches(unknown[0], SIMULATED, n=1)
    remedy = (
        f"use {near[0]} if you meant that" if near else "use --engine kubernetes, which passes on every gate"
    )
    why = f"it simulates {', '.join(SIMULATED)}"
    raise ConfigError(
        Problem(f"the embedded cluster does not know the gate {unknown[0][:80]}", _FLAG, why, remedy)
    )
