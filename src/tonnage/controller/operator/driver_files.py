"""The ConfigMaps whose keys become files of driver containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.drivers.config_files import config_folders, missing_config
from tonnage.loop.informer import Informer, Key
from tonnage.model.drivers.policy import DriverPolicy
from tonnage.wire.kinds import CONFIG_MAP
from tonnage.wire.objects import ConfigMap


class DriverConfigMaps:
    """Says which files a policy's drivers get; one that names a ConfigMap that is gone is not followed."""

    def __init__(self, context: ControllerContext, changed: Callable[[Key], None]) -> None:
        self._namespace = context.operator_namespace
        self.config_maps: Informer[ConfigMap] = Informer(
            *(context.api, CONFIG_MAP, context.clock), namespace=self._namespace, on_change=changed
        )

    def of(self, policy: DriverPolicy) -> DriverPolicy:
        """The policy with the names of its files, or with why it cannot be followed."""
        named = {config.config_map for config in config_folders(policy)}
        standing = {name: self.config_maps.get(name, self._namespace) for name in sorted(named)}
        names = {name: tuple(sorted(there.data)) for name, there in standing.items() if there is not None}
        policy = replace(policy, file_names=names)
        return replace(policy, problem=policy.problem or missing_config(policy, self._namespace))
