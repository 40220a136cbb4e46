"""Which files driver containers get out of ConfigMaps."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.cluster.operate.drivers.config_files import config_folders, missing_config
from tonnage.loop.informer import Informer
from tonnage.model.drivers.policy import DriverPolicy
from tonnage.wire.objects import ConfigMap


def with_file_names(policy: DriverPolicy, config_maps: Informer[ConfigMap], namespace: str) -> DriverPolicy:
    """The policy with the keys of the ConfigMaps that it names, or with why it cannot be followed."""
    named = {config.config_map for config in config_folders(policy)}
    standing = {name: config_maps.get(name, namespace) for name in sorted(named)}
    names = {name: tuple(sorted(there.data)) for name, there in standing.items() if there is not None}
    policy = replace(policy, file_names=names)
    return replace(policy, problem=policy.problem or missing_config(policy, namespace))
