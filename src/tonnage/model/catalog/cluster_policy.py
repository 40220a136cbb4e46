"""The fields of NVIDIA's ClusterPolicy, and the values of its chart, out of `cluster_policy.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from tonnage.model.catalog.definition_fields import Fields, definition_fields


@dataclass(frozen=True, slots=True)
class PolicyFields:
    """`fields` are those of `spec`; the others name fields by their path in it, with dots."""

    fields: Fields
    required: tuple[str, ...]
    renamed: Mapping[str, str]
    deprecated: Mapping[str, str]
    config_maps: Mapping[str, str]
    """Field that names a ConfigMap -> field that names a key of it, or empty."""
    telling: tuple[str, ...] = ()
    """Sections by which a values file is known as one."""
    others: frozenset[str] = frozenset()
    """Keys of Tonnage's chart that may stand beside them."""


@cache
def policy_fields() -> PolicyFields:
    """Read once.

    >>> policy_fields().fields["mig"]
    {'strategy': '|none|single|mixed|'}
    """
    table = _table()
    definition = definition_fields("clusterpolicies")
    words = {name: table["words"] for name, section in definition.items() if "imagePullPolicy" in section}
    return PolicyFields(
        _merged(_merged(definition, words), table["spec"]),
        tuple(table["required"]),
        MappingProxyType(table["renamed"]),
        MappingProxyType(table["deprecated"]),
        MappingProxyType(table["config_maps"]),
    )


@cache
def operator_values() -> PolicyFields:
    """The values of NVIDIA's gpu-operator chart; `renamed` are those that its object names otherwise.

    >>> operator_values().fields["driver"]["nvidiaDriverCRD"]["enabled"]
    'bool'
    """
    table = _table()
    policy = policy_fields()
    fields = _without(_merged(policy.fields, table["values"]), table["dropped"])
    return replace(
        policy,
        fields=fields,
        required=(),
        renamed=MappingProxyType(table["dropped"]),
        telling=tuple(table["telling"]),
        others=frozenset(table["others"]),
    )


def _merged(fields: Fields, more: Fields) -> Fields:
    merged = dict(fields)
    for key, field in more.items():
        there = merged.get(key)
        merged[key] = (
            _merged(there, field) if isinstance(field, Mapping) and isinstance(there, Mapping) else field
        )
    return merged


def _without(fields: Fields, paths: Iterable[str], above: str = "") -> Fields:
    """The fields but those at the paths."""
    return {
        key: _without(field, paths, f"{above}{key}.") if isinstance(field, Mapping) else field
        for key, field in fields.items()
        if f"{above}{key}" not in paths
    }


@cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("cluster_policy.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
