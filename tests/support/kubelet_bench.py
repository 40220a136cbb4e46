"""One kubelet of the twin with everything around it, for its tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from support.fake_plugin import GPU, FakePlugin
from support.memory_api import Body, MemoryApi
from tonnage.twin.clock import VirtualClock
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_disk import FaultyDisk
from tonnage.wire import kinds


@dataclass
class KubeletBench:
    """One node with everything around it."""

    api: MemoryApi
    clock: VirtualClock
    root: Path
    disk: FaultyDisk
    runtime: PretendedRuntime
    kubelet: Kubelet
    plugins: list[FakePlugin] = field(default_factory=list)

    async def plugin(self, resource: str = GPU, count: int = 4, **options: Any) -> FakePlugin:
        """A registered plugin whose devices the Node shows."""
        plugin = FakePlugin(self.kubelet.paths, resource, {f"GPU-{n}": True for n in range(count)}, **options)
        self.plugins.append(plugin)
        await plugin.start()
        await plugin.register()
        await self.api.until(lambda: self.allocatable(resource) == str(count))
        return plugin

    def allocatable(self, resource: str = GPU) -> str | None:
        return cast("str | None", self.api.node().get("status", {}).get("allocatable", {}).get(resource))

    def capacity(self, resource: str = GPU) -> str | None:
        return cast("str | None", self.api.node().get("status", {}).get("capacity", {}).get(resource))

    def bind(
        self,
        name: str,
        *,
        gpus: int = 0,
        command: list[str] | None = None,
        status: Body | None = None,
        **spec: Any,
    ) -> Body:
        """A pod that the scheduler has put on this node."""
        container: Body = {"name": "main", "image": "ubuntu:24.04", "command": command or ["sleep", "3600"]}
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
        body = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"nodeName": self.kubelet.spec.name, "containers": [container], **spec},
            "status": status or {"phase": "Pending"},
        }
        return self.api.put(kinds.POD, body)

    async def phase(self, name: str, phase: str) -> Body:
        """The pod's status once it has that phase."""
        await self.api.until(lambda: self.api.pod(name).get("status", {}).get("phase") == phase)
        return cast(Body, self.api.pod(name)["status"])

    async def gone(self, name: str) -> None:
        await self.api.until(lambda: not self.api.pod(name))

    def held(self, name: str) -> list[str]:
        """Devices of the pod's containers."""
        entries = self.kubelet.devices.held(f"uid-{name}")
        return sorted(device for group in entries.values() for entry in group for device in entry.ids)
