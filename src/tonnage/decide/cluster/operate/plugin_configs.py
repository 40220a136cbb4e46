"""SHR-1: configurations, layouts and counters of the agents, where a ClusterPolicy names their ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.documents.device_plugin.mig_strategy import with_mig_strategy
from tonnage.model.actions.cluster import ApplyConfigMap
from tonnage.model.gpu_policy import ConfigMapChoice, FieldWithoutEffect, GpuPolicy, SeenConfigMap
from tonnage.model.names import AGENTS_LAYOUTS
from tonnage.model.reasons.cluster.operator import ConfigMapNotFollowed

LAYOUTS_KEY: Final = "config.yaml"
POLICY_COUNTERS_KEY: Final = "dcgm-metrics.csv"
"""In NVIDIA's ConfigMap."""
COUNTERS_KEY: Final = "counters.csv"
"""In the agents'."""
DEFAULT_KEY: Final = "default"
"""What a node without a label runs, as the agents choose."""


_OF_CLUSTER: Final = "GPUCluster "
_CLAIMED: Final = "version: v1\nclaims: {devices: all}\n"
_COUNTED: Final = "version: v1\n"
COUNTED_KEY: Final = "counted"
"""What a node runs whose label asks for it beside a GPUCluster: extended resources."""
NOT_CHOSEN: Final = ("", "none")
"""MIG strategies that need no configuration to say so."""


@dataclass(frozen=True, slots=True)
class ConfigCopy:
    """What to do: an action or none, or the reason for which everything stays as it is.

    `without_effect`: fields that change nothing, since somebody else fills the agents' ConfigMap.
    """

    action: ApplyConfigMap | None = None
    refusal: ConfigMapNotFollowed | None = None
    without_effect: tuple[FieldWithoutEffect, ...] = ()

    @property
    def problem(self) -> str:
        """The refusal in words; empty without one."""
        return "" if self.refusal is None else self.refusal.message


def config_copy(
    policy: GpuPolicy, source: SeenConfigMap | None, target: SeenConfigMap, operator_namespace: str
) -> ConfigCopy:
    """How the agents' ConfigMap, empty where it is not there, follows the one that the policy names.

    The policy's MIG strategy wins over each configuration's own, as it does over those of NVIDIA's plugin.
    """
    choice = policy.plugin_config
    if not choice.name:
        return _of_strategy(policy, target)
    path = f"{operator_namespace}/{choice.name}"
    refusal = _refusal(choice, source, target, path)
    if refusal is not None or source is None:
        return ConfigCopy(refusal=refusal)
    contents = dict(source.contents)
    if choice.default:
        contents[DEFAULT_KEY] = contents[choice.default]
    if policy.mig_strategy:
        contents = {key: with_mig_strategy(text, policy.mig_strategy) for key, text in contents.items()}
    return ConfigCopy(_followed(target, contents, path))


def _of_strategy(policy: GpuPolicy, target: SeenConfigMap) -> ConfigCopy:
    """Without a ConfigMap of the policy's: the strategy alone, where nobody else fills the agents' own."""
    if policy.mig_strategy in NOT_CHOSEN:
        return ConfigCopy(released(target))
    if target.contents and not target.source:
        why = f"ConfigMap {target.path} has configurations of its own: set flags.migStrategy there"
        return ConfigCopy(without_effect=(FieldWithoutEffect("mig.strategy", why),))
    contents = {DEFAULT_KEY: with_mig_strategy("", policy.mig_strategy)}
    return ConfigCopy(_followed(target, contents, f"ClusterPolicy {policy.name}"))


def layouts_copy(
    policy: GpuPolicy, source: SeenConfigMap | None, target: SeenConfigMap, operator_namespace: str
) -> ConfigCopy:
    """MIG-4: how the agents' ConfigMap of MIG layouts follows `migManager.config.name`.

    NVIDIA's operator makes the one that it names itself; the layouts in it are those that agents make.
    """
    name, where = policy.mig_config.name, "spec.migManager.config.name"
    path = f"{operator_namespace}/{name}"
    if not name or (name == AGENTS_LAYOUTS and source is None):
        return ConfigCopy(released(target))
    if path == target.path:
        return ConfigCopy()
    own = "layouts of its own, which the agents make; delete it"
    refusal = _refusal_of_key(where, path, source, LAYOUTS_KEY) or _refusal_of_own(where, target, own)
    if refusal is not None or source is None:
        return ConfigCopy(refusal=refusal)
    return ConfigCopy(_followed(target, dict(source.contents), path))


def counters_copy(
    policy: GpuPolicy, source: SeenConfigMap | None, target: SeenConfigMap, operator_namespace: str
) -> ConfigCopy:
    """How the counters of device metrics follow `dcgmExporter.config.name`."""
    name, where = policy.counters.name, "spec.dcgmExporter.config.name"
    if not name:
        return ConfigCopy(released(target))
    path = f"{operator_namespace}/{name}"
    own = "counters of its own; leave exporter.counters out of Tonnage's chart"
    refusal = _refusal_of_key(where, path, source, POLICY_COUNTERS_KEY) or _refusal_of_own(where, target, own)
    if refusal is not None or source is None:
        return ConfigCopy(refusal=refusal)
    return ConfigCopy(_followed(target, {COUNTERS_KEY: source.contents[POLICY_COUNTERS_KEY]}, path))


def _refusal_of_key(
    where: str, path: str, source: SeenConfigMap | None, key: str
) -> ConfigMapNotFollowed | None:
    if source is None:
        return _not_followed(where, path, _missing(path))
    if key in source.contents:
        return None
    keys = ", ".join(sorted(source.contents)) or "none"
    return _not_followed(where, path, f"ConfigMap {path} has no key {key}; its keys: {keys}")


def _refusal_of_own(where: str, target: SeenConfigMap, own: str) -> ConfigMapNotFollowed | None:
    if not target.contents or target.source:
        return None
    return _not_followed(where, target.path, f"ConfigMap {target.path} has {own}, or leave the field out")


def claims_copy(cluster: str, target: SeenConfigMap) -> ApplyConfigMap | None:
    """How the agents offer every GPU as a claim while a GPUCluster of that name is there, and no policy.

    Configurations of somebody else's stay.
    """
    if target.contents and not target.source:
        return None
    contents = {DEFAULT_KEY: _CLAIMED, COUNTED_KEY: _COUNTED}
    return _followed(target, contents, f"{_OF_CLUSTER}{cluster}")


def is_of_cluster(target: SeenConfigMap) -> bool:
    """Whether the agents' configurations are those of a GPUCluster."""
    return target.source.startswith(_OF_CLUSTER)


def released(target: SeenConfigMap) -> ApplyConfigMap | None:
    """Without a policy: what was copied goes, and what somebody else wrote stays."""
    return _applied(target, {}, "") if target.source else None


def _followed(target: SeenConfigMap, contents: Mapping[str, str], source: str) -> ApplyConfigMap | None:
    if target.source == source and dict(target.contents) == dict(contents):
        return None
    return _applied(target, contents, source)


def _refusal(
    choice: ConfigMapChoice, source: SeenConfigMap | None, target: SeenConfigMap, path: str
) -> ConfigMapNotFollowed | None:
    where = "spec.devicePlugin.config"
    if source is None:
        return _not_followed(f"{where}.name", path, _missing(path))
    if choice.default and choice.default not in source.contents:
        keys = ", ".join(sorted(source.contents)) or "none"
        why = f"ConfigMap {path} has no key {choice.default}; its keys: {keys}"
        return _not_followed(f"{where}.default", path, why)
    if choice.default not in ("", DEFAULT_KEY) and DEFAULT_KEY in source.contents:
        why = (
            f"ConfigMap {path} has a key {DEFAULT_KEY}, which nodes without a label"
            f" would run instead of {choice.default}; rename the key"
        )
        return _not_followed(f"{where}.default", path, why)
    if target.contents and not target.source:
        why = (
            f"ConfigMap {target.path} has configurations of its own, which the agents run;"
            " delete them, or leave the field out"
        )
        return _not_followed(f"{where}.name", target.path, why)
    return None


def _missing(path: str) -> str:
    return f"ConfigMap {path} does not exist; create it, or leave the field out"


def _not_followed(field: str, path: str, why: str) -> ConfigMapNotFollowed:
    subject, message = f"ConfigMap {path}", f"{field}: {why}"
    return ConfigMapNotFollowed(subject=subject, message=message, field=field, config_map=path)


def _applied(target: SeenConfigMap, contents: Mapping[str, str], source: str) -> ApplyConfigMap:
    return ApplyConfigMap(target.namespace, target.name, contents, source)
