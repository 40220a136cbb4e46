"""The fields of NVIDIA's ClusterPolicy out of `cluster_policy.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TypeAlias

Fields: TypeAlias = "Mapping[str, str | Fields]"
"""A field's fields, or what it holds in a word: bool, text, whole, any, or words allowed between bars."""


@dataclass(frozen=True, slots=True)
class PolicyFields:
    """`fields` are those of `spec`; the others name fields by their path in it, with dots."""

    fields: Fields
    required: tuple[str, ...]
    renamed: Mapping[str, str]
    deprecated: Mapping[str, str]
    config_maps: Mapping[str, str]
    """Field that names a ConfigMap -> field that names a key of it, or empty."""


@cache
def policy_fields() -> PolicyFields:
    """Read once.

    >>> policy_fields().fields["mig"]
    {'strategy': '|none|single|mixed|'}
    """
    text = resources.files(__package__).joinpath("cluster_policy.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    fields = {
        name: {**table["component"], **section} if name in table["components"] else section
        for name, section in table["spec"].items()
    }
    return PolicyFields(
        fields,
        tuple(table["required"]),
        MappingProxyType(table["renamed"]),
        MappingProxyType(table["deprecated"]),
        MappingProxyType(table["config_maps"]),
    )
