"""Where custom kinds say how many pods they want."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import CUSTOM_RESOURCE, Kind
from tonnage.wire.policies import PodMaker


@dataclass(frozen=True, slots=True)
class ScaleVersion:
    """A version of a custom kind; `replicas` is the path of the number in the spec, None without a scale."""

    kind: Kind[PodMaker]
    replicas: tuple[str, ...] | None


async def custom_versions(api: KubernetesApi, group: str, name: str) -> tuple[ScaleVersion, ...] | None:
    """The versions of a custom kind, None where nobody defines it. Raises ClusterError."""
    for definition in (await api.list(CUSTOM_RESOURCE)).items:
        spec = definition.spec
        names = spec.get("names") or {}
        if (spec.get("group"), names.get("kind")) != (group, name):
            continue
        plural, namespaced = str(names.get("plural", "")), spec.get("scope") == "Namespaced"
        return tuple(
            ScaleVersion(
                Kind(group, str(version.get("name")), name, plural, namespaced, PodMaker),
                _replicas((version.get("subresources") or {}).get("scale")),
            )
            for version in spec.get("versions") or []
        )
    return None


def _replicas(scale: dict[str, object] | None) -> tuple[str, ...] | None:
    if scale is None:
        return None
    return tuple(part for part in str(scale.get("specReplicasPath", "")).split(".") if part)[1:]


def count_at(spec: object, path: tuple[str, ...]) -> int:
    """The number at a path of a spec, 0 where there is none."""
    for key in path:
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec if isinstance(spec, int) else 0
