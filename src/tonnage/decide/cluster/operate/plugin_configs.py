"""SHR-1: the agents' device-plugin configurations, where a ClusterPolicy names their ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.model.actions.cluster import ApplyConfigMap
from tonnage.model.gpu_policy import ConfigMapChoice

DEFAULT_KEY: Final = "default"
"""What a node without a label runs, as the agents choose."""


@dataclass(frozen=True, slots=True)
class SeenConfigMap:
    """A ConfigMap: its contents, and of what it is a copy; empty: of nothing."""

    namespace: str
    name: str
    contents: Mapping[str, str]
    source: str = ""

    @property
    def path(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ConfigCopy:
    """What to do: an action or none, or the problem for which everything stays as it is."""

    action: ApplyConfigMap | None = None
    problem: str = ""


def config_copy(
    choice: ConfigMapChoice, source: SeenConfigMap | None, target: SeenConfigMap, operator_namespace: str
) -> ConfigCopy:
    """How the agents' ConfigMap, empty where it is not there, follows the one that the policy names."""
    if not choice.name:
        return ConfigCopy(_applied(target, {}, "") if target.source else None)
    path = f"{operator_namespace}/{choice.name}"
    problem = _problem(choice, source, target, path)
    if problem or source is None:
        return ConfigCopy(problem=problem)
    contents = dict(source.contents)
    if choice.default:
        contents[DEFAULT_KEY] = contents[choice.default]
    if target.source == path and dict(target.contents) == contents:
        return ConfigCopy()
    return ConfigCopy(_applied(target, contents, path))


def _problem(choice: ConfigMapChoice, source: SeenConfigMap | None, target: SeenConfigMap, path: str) -> str:
    where = "spec.devicePlugin.config"
    if source is None:
        return f"{where}.name: ConfigMap {path} does not exist; create it, or leave the field out"
    if choice.default and choice.default not in source.contents:
        keys = ", ".join(sorted(source.contents)) or "none"
        return f"{where}.default: ConfigMap {path} has no key {choice.default}; its keys: {keys}"
    if choice.default not in ("", DEFAULT_KEY) and DEFAULT_KEY in source.contents:
        return (
            f"{where}.default: ConfigMap {path} has a key {DEFAULT_KEY}, which nodes without a label"
            f" would run instead of {choice.default}; rename the key"
        )
    if target.contents and not target.source:
        return (
            f"{where}.name: ConfigMap {target.path} has configurations of its own, which the agents run;"
            f" delete them, or leave the field out"
        )
    return ""


def _applied(target: SeenConfigMap, contents: Mapping[str, str], source: str) -> ApplyConfigMap:
    return ApplyConfigMap(target.namespace, target.name, contents, source)
