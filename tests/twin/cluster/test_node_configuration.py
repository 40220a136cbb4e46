"""Which configuration a node runs, and why not another, as kubectl shows it; a restart forgets none of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from support.fleet import Fleet

pytestmark = pytest.mark.long

LABEL = "nvidia.com/device-plugin.config"
MAP = "tonnage-system/device-plugin-config"
NAME = ("configmap", "device-plugin-config", "-n", "tonnage-system")
SHARED = "nvidia.com/gpu.shared"


@dataclass
class Node:
    """The node's Condition, Event and NodeGPUStatus about its configuration, through kubectl."""

    fleet: Fleet

    async def _json(self, *arguments: str) -> Any:
        return json.loads(await self.fleet.kubectl("get", *arguments, "-o", "json"))

    async def condition(self) -> tuple[str, str]:
        """(reason, message) of GPUConfigApplied."""
        found = (await self._json("node", "t4-0"))["status"]["conditions"]
        return next(((c["reason"], c["message"]) for c in found if c["type"] == "GPUConfigApplied"), ("", ""))

    async def refused(self, why: str) -> None:
        """Return once Condition, Event and NodeGPUStatus say why; the node still shares by four."""
        fleet = self.fleet

        async def said() -> bool:
            reason, message = await self.condition()
            status = (await self._json("nodegpustatus", "t4-0"))["status"]["config"]
            events = (
                await self._json("events", "-A", "--field-selector", "involvedObject.name=t4-0,type=Warning")
            )["items"]
            texts = [event["message"] for event in events if event["reason"] == "DevicePluginConfigRefused"]
            return (
                reason == "ConfigRefused"
                and why in message
                and f"in force: {MAP}[shared]" in message
                and why in status.get("error", "")
                and status["source"] == f"{MAP}[shared]"
                and any(why in text and f"kept: {MAP}[shared]" in text for text in texts)
            )

        await fleet.until(said)
        assert await fleet.allocatable(SHARED) == 8

    async def applied(self, key: str) -> None:
        async def said() -> bool:
            return await self.condition() == ("ConfigApplied", f"in force: {MAP}[{key}]")

        await self.fleet.until(said)

    async def restart_agent(self) -> None:
        """Return once another agent's pod is ready."""
        pods = ("-l", "app.kubernetes.io/name=tonnage-agent", "--field-selector", "spec.nodeName=t4-0")
        where = ("-n", "tonnage-system", *pods)
        await self.fleet.kubectl("delete", "pod", *where)
        await self.fleet.kubectl("rollout", "status", "daemonset/tonnage-agent", "-n", "tonnage-system")


async def test_the_nodes_software_is_said(fleet: Fleet) -> None:
    """Versions are the Node's words, policies those of the file by which the node's kubelet runs."""

    async def said() -> bool:
        found = await fleet.kubectl("get", "ngs", "t4-0", "-o", "json", "--ignore-not-found")
        status = json.loads(found or "{}").get("status", {})
        runtime, kubelet = status.get("runtime", {}), status.get("kubelet", {})
        return (
            (runtime.get("name"), runtime.get("version")) == ("containerd", "2.2.1")
            and kubelet["version"] == "1.35.8"
            and kubelet["topologyManagerPolicy"] == kubelet["cpuManagerPolicy"] == "none"
            and kubelet["sources"] == ["/var/lib/kubelet/config.yaml"]
        )

    await fleet.until(said)


async def test_what_runs_and_why_nothing_else_is_said_and_outlives_a_restart(fleet: Fleet) -> None:
    """SHR-3: garbage, an unknown name, a ConfigMap that is gone."""
    node, kubectl = Node(fleet), fleet.kubectl
    before = await kubectl("get", *NAME, "-o", "json")
    await node.applied("default")
    await kubectl("label", "node", "t4-0", f"{LABEL}=shared")
    await node.applied("shared")

    await kubectl("patch", *NAME, "--type=merge", "-p", '{"data": {"shared": "sharing: [four"}}')
    await node.refused("not valid YAML")
    await node.restart_agent()
    await node.refused("not valid YAML")

    await kubectl("label", "node", "t4-0", f"{LABEL}=sharde", "--overwrite")
    await node.refused("no device-plugin configuration 'sharde'")
    await node.restart_agent()
    await node.refused("no device-plugin configuration 'sharde'")

    await kubectl("delete", *NAME)
    await node.refused(f"ConfigMap {MAP} does not exist")
    await kubectl("label", "node", "t4-0", f"{LABEL}-")
    await node.refused("the device-plugin configuration was deleted")
    await node.restart_agent()
    await node.refused("the device-plugin configuration was deleted")

    data = json.loads(before)["data"]
    await kubectl("create", *NAME, *(f"--from-literal={key}={text}" for key, text in data.items()))
    await node.applied("default")
    assert await fleet.allocatable(SHARED) <= 0
