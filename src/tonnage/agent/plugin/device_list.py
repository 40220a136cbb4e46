"""Settles what `deviceListStrategy: auto` is on this node, and keeps to it while nothing says otherwise."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tonnage.agent.context import AgentContext
from tonnage.decide.node.device_list import device_list
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.devices.sharing import DeviceListStrategy, PluginConfig
from tonnage.model.errors import HardwareError
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.ports.node import RuntimeView

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "device-list"
_BEATS: Final = 5
"""Files are looked at on every fifth beat: a runtime is configured seldom."""


class DeviceLists:
    """Follows the Node's versions and the runtime's files, but only once `auto` is asked for.

    What it came to last is on disk: an agent that starts while the Node cannot be read stays with it.
    """

    def __init__(self, context: AgentContext, files: RuntimeView) -> None:
        self._node = context.node
        self._started = context.started
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._events = context.events
        self._files = files
        self._versions = ("", "")
        self._runtime: NodeRuntime | None = None
        """What the files said; None until `auto` is asked for."""
        self._chosen: DeviceListStrategy | None = None
        self._beat = 0

    def observe(self, node_info: Mapping[str, Any]) -> None:
        """The Node says this of itself (`status.nodeInfo`)."""
        versions = (node_info.get("kubeletVersion"), node_info.get("containerRuntimeVersion"))
        if all(isinstance(text, str) and text for text in versions):
            self._versions = (str(versions[0]), str(versions[1]))

    @property
    def versions(self) -> tuple[str, str]:
        """(of kubelet, of the container runtime) as the Node says them; empty while it does not."""
        return self._versions

    async def changed(self) -> bool:
        """Whether the files say something else now; asked on every beat."""
        self._beat += 1
        if self._runtime is None or self._beat % _BEATS:
            return False
        before, self._runtime = self._runtime, await self._files.look()
        return before != self._runtime

    async def resolved(self, config: PluginConfig) -> tuple[PluginConfig, str]:
        """(the configuration without `auto`, what that came to and why; empty if it is not asked for)."""
        if DeviceListStrategy.AUTO not in config.device_list:
            return config, ""
        if self._runtime is None:
            self._chosen = self._chosen or await self._recalled()
            if self._chosen is not None and not self._started.is_set():  # to look loads modules
                return replace(config, device_list=(self._chosen,)), f"{self._chosen}: as before"
            self._runtime = await self._files.look()
        kubelet, runtime = self._versions
        choice = device_list(replace(self._runtime, kubelet=kubelet, runtime=runtime))
        strategy, why = choice.strategy, choice.why
        if strategy is None:
            strategy = self._chosen or DeviceListStrategy.ENVVAR
            why = f"as before: {why}" if self._chosen else why
        elif strategy is not self._chosen:
            await self._choose(strategy, why)
        return replace(config, device_list=(strategy,)), f"{strategy}: {why}"

    async def _choose(self, strategy: DeviceListStrategy, why: str) -> None:
        before, self._chosen = self._chosen, strategy
        _LOG.info("device list strategy: node=%s auto=%s why=%s", self._node, strategy, why)
        if before is not None:
            text = f"deviceListStrategy auto is {strategy} now, not {before}: {why}"
            self._events.post("Normal", "DeviceListStrategyChanged", text)
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, strategy.value.encode()))
        except HardwareError as error:
            _LOG.warning("device list strategy not kept on disk: node=%s error=%s", self._node, error)

    async def _recalled(self) -> DeviceListStrategy | None:
        try:
            saved = await self._checkpoints.load(CHECKPOINT)
            return DeviceListStrategy(saved.decode("ascii", "replace")) if saved is not None else None
        except (HardwareError, ValueError) as error:
            _LOG.warning("earlier device list strategy unknown: node=%s error=%s", self._node, error)
            return None
