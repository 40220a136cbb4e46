"""What the agent sees of container runtime and kubelet on its node, and of the folder of CDI specs.

The runtime's configuration is read as `tonnage doctor` reads it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.files import SPEC_FOLDER
from tonnage.model.drivers.node import HostSystem
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.software import KubeletPolicies

_WRITE: Final = os.W_OK | os.X_OK


class RuntimeFiles:
    """Looks below `root`, then below where the driver's root is mounted: it may be the host's own.

    No socket of a runtime is asked: whoever may speak to one may do anything on the node.
    """

    def __init__(self, root: Path, driver_root: Path | None = None) -> None:
        self._roots = (root,) if driver_root is None else (root, driver_root)

    async def look(self) -> NodeRuntime:
        """What can be seen; the versions are the Node's to say."""
        return await asyncio.to_thread(self._look)

    async def policies(self) -> KubeletPolicies:
        """kubelet's policies, as far as its files are to be seen."""
        return await asyncio.to_thread(self._policies)

    def _policies(self) -> KubeletPolicies:
        from tonnage.adapters.node_facts.files import NodeFiles
        from tonnage.adapters.node_facts.kubelet_policies import kubelet_policies  # YAML: after registration

        return kubelet_policies(NodeFiles(root) for root in self._roots)

    async def host(self) -> HostSystem:
        """What a driver needs of the host, by the files that can be seen."""
        return await asyncio.to_thread(self._host)

    def _host(self) -> HostSystem:
        from tonnage.adapters.node_facts.host_system import host_system  # after registration

        return host_system(*self._roots)

    def _look(self) -> NodeRuntime:
        from tonnage.adapters.node_facts.files import (
            NodeFiles,
        )  # after registration, or where auto is asked for
        from tonnage.adapters.node_facts.runtime import runtime_configs

        by_root = (tuple(runtime_configs(NodeFiles(root))) for root in self._roots)
        configs = next((own for own in by_root if own), ())
        return NodeRuntime(configs=configs, unwritable=_unwritable(self._roots[0] / SPEC_FOLDER))


def _unwritable(folder: Path) -> str:
    """Why nothing can be written there; empty if something can, though the folder may have to be made."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a folder"
    return "" if os.access(place, _WRITE) else f"{folder} is missing in the agent's container, or read-only"
