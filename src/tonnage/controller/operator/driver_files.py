"""Which files driver containers get out of ConfigMaps."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.cluster.operate.drivers.config_files import MODULE_SECTION, config_folders, missing_config
from tonnage.loop.informer import Informer
from tonnage.model.drivers.policy import DriverPolicy
from tonnage.wire.objects import ConfigMap


def with_file_names(policy: DriverPolicy, config_maps: Informer[ConfigMap], namespace: str) -> DriverPolicy:
    """The policy with the keys of the ConfigMaps that it names, or with why it cannot be followed."""
    sections = {config.section: config.config_map for config in config_folders(policy)}
    named = set(sections.values())
    standing = {name: config_maps.get(name, namespace) for name in sorted(named)}
    names = {name: tuple(sorted(there.data)) for name, there in standing.items() if there is not None}
    module = standing.get(sections.get(MODULE_SECTION, ""))
    policy = replace(policy, file_names=names, module_texts={} if module is None else module.data)
    return replace(policy, problem=policy.problem or missing_config(policy, namespace))
