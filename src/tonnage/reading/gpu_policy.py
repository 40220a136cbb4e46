"""A ClusterPolicy as a model value. Every field is optional; one of the wrong shape counts as absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.catalog.policy_effects import policy_effects
from tonnage.model.gpu_policy import ConfigMapChoice, FieldWithoutEffect, GpuPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping, text
from tonnage.reading.object_parts import moment
from tonnage.wire.objects import ClusterPolicy

_DEEPEST: Final = 8
_MOST_FIELDS: Final = 2000


def gpu_policy_from(policy: ClusterPolicy) -> GpuPolicy:
    """What a policy wants."""
    spec: JsonObject = policy.spec
    return GpuPolicy(
        policy.metadata.name,
        generation=policy.metadata.generation,
        created=moment(policy.metadata.creation_timestamp),
        sandboxes=flag(spec, "sandboxWorkloads", "enabled"),
        default_workload=text(spec, "sandboxWorkloads", "defaultWorkload") or "container",
        sandbox_mode=text(spec, "sandboxWorkloads", "mode") or "kubevirt",
        plugin_config=_choice(spec, "devicePlugin"),
        without_effect=tuple(_without_effect(spec)),
        status=dict(policy.status),
    )


def _choice(spec: JsonObject, section: str) -> ConfigMapChoice:
    config = mapping(spec, section, "config")
    return ConfigMapChoice(text(config, "name"), text(config, "default"))


def _without_effect(spec: JsonObject) -> Iterator[FieldWithoutEffect]:
    """The fields that are set and change nothing, sections whole where none of their fields does."""
    for path in _leaves(spec, (), [_MOST_FIELDS]):
        why = policy_effects().why_without(path)
        if why is not None:
            yield FieldWithoutEffect(path, why)


def _leaves(value: JsonValue, path: tuple[str, ...], left: list[int]) -> Iterator[str]:
    if isinstance(value, dict) and value and len(path) < _DEEPEST:
        for key, child in value.items():
            yield from _leaves(child, (*path, key), left)
    elif path and value not in ({}, [], "", None) and left[0] > 0:
        left[0] -= 1
        yield ".".join(path)
