"""OPR-1: every field of NVIDIA's kinds changes what is read, or the status says why it does not."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.catalog.policy_effects import (
    PolicyEffects,
    gpu_cluster_effects,
    nvidia_driver_effects,
    policy_effects,
)
from tonnage.reading.driver_policy import cluster_driver_policy, nvidia_driver_policy
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.wire.nvidia import ClusterPolicy, NvidiaDriver

UPGRADE = {"upgradePolicy": {"drain": {"enable": True}}}
MODULES = {"gds": {"enabled": True}, "gdrcopy": {"enabled": True}}
ON = {"sandboxWorkloads": {"enabled": True}, "dcgm": {"enabled": True}}
BASE: dict[str, Any] = {"driver": UPGRADE, **ON, **MODULES}
"""With what switches a section on whose fields would mean nothing else."""


def schema_of(plural: str) -> dict[str, Any]:
    spec: Any = nvidia_definition(plural)["spec"]
    [version] = spec["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def leaves(
    schema: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Each field that has none below it, and each list."""
    fields = schema.get("properties")
    if not fields:
        yield path, schema
        return
    for name, inner in fields.items():
        yield from leaves(inner, (*path, name))


def values_for(schema: dict[str, Any]) -> list[Any]:
    """Values that the field takes, of which at most one is its default."""
    if "enum" in schema:
        return list(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return [[values_for(schema["items"])[0]]]
    if kind == "object":
        fields = schema.get("properties", {})
        needed = schema.get("required", list(fields)[:1])
        return [{name: values_for(fields[name])[0] for name in needed} or {"a": "b"}]
    if kind == "boolean":
        return [True, False]
    return [7, 8] if kind == "integer" else ["7", "8"]


def with_value(base: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    spec = copy.deepcopy(base)
    owner = spec
    for step in path[:-1]:
        owner = owner.setdefault(step, {})
    owner[path[-1]] = value
    return spec


def read_policy(spec: dict[str, Any]) -> Any:
    policy = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, ClusterPolicy)
    return replace(gpu_policy_from(policy), without_effect=()), cluster_driver_policy(policy)


def read_driver(spec: dict[str, Any]) -> Any:
    driver = msgspec.convert({"metadata": {"name": "d"}, "spec": spec}, NvidiaDriver)
    return replace(nvidia_driver_policy(driver), without_effect=())


def ignored(
    plural: str, effects: PolicyEffects, base: dict[str, Any], read: Callable[[dict[str, Any]], Any]
) -> list[str]:
    """Fields that are called honoured and change nothing of what is read."""
    return [
        ".".join(path)
        for path, schema in leaves(schema_of(plural))
        if effects.why_without(".".join(path)) is None
        and all(read(with_value(base, path, value)) == read(base) for value in values_for(schema))
    ]


def test_every_honoured_field_of_a_cluster_policy_changes_what_is_read() -> None:
    assert ignored("clusterpolicies", policy_effects(drivers=True), BASE, read_policy) == []


def test_every_honoured_field_of_an_nvidia_driver_changes_what_is_read() -> None:
    assert ignored("nvidiadrivers", nvidia_driver_effects(), UPGRADE | MODULES, read_driver) == []


@pytest.mark.parametrize(
    ("plural", "effects"),
    [
        pytest.param("clusterpolicies", policy_effects(), id="ClusterPolicy"),
        pytest.param("clusterpolicies", policy_effects(drivers=True), id="ClusterPolicy with drivers"),
        pytest.param("nvidiadrivers", nvidia_driver_effects(), id="NVIDIADriver"),
        pytest.param("gpuclusters", gpu_cluster_effects(), id="GPUCluster"),
    ],
)
def test_every_field_is_honoured_or_has_a_reason(plural: str, effects: PolicyEffects) -> None:
    unknown = [
        ".".join(path)
        for path, _ in leaves(schema_of(plural))
        if "does not know" in (effects.why_without(".".join(path)) or "")
    ]
    assert unknown == []
