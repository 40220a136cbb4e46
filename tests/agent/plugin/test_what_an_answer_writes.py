"""What an answer to kubelet's Allocate costs the disk, without a clock: the same however much is held."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.plugin.device_plugin import DevicePlugin
from tonnage.agent.plugin.holders import Holders
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Hold, PluginConfig, SharedResource
from tonnage.model.names import GPU
from tonnage.ports.node import Shown

REPLICAS = 48
DEVICES = tuple(Device(f"GPU-{index}", index, "H100", 81559) for index in range(8))
CONFIG = ConfigInForce(
    PluginConfig(shared=(SharedResource(GPU, GPU, REPLICAS),)), ConfigChoice("", "built-in")
)
CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "truncate")


class SilentKubelet:
    """A kubelet that is there and is asked nothing."""

    def identity(self) -> str:
        return "kubelet-1"

    async def shown(self) -> Shown:
        raise NotImplementedError

    async def checkpoint(self) -> tuple[Hold, ...]:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


def plugin_in(folder: Path, clock: Any) -> DevicePlugin:
    """A plugin that offers 384 replicas, of which nobody holds any; none of its loops runs."""
    context, board = context_of("n", None, clock, FolderCheckpoints(folder)), NodeBoard.blank(clock)
    ledger = HoldLedger(context, board)
    sockets: Any = None
    plugin = DevicePlugin(
        context, board, sockets, ledger, Holders(context, board, SilentKubelet(), ledger), None
    )
    board.inventory.publish(Inventory(DEVICES))
    board.configuration.publish(CONFIG)
    board.holds.publish(DeviceHolds(settled=True))
    return plugin


class Disk:
    """Counts what is asked of the system, by call, and the bytes that are written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.bytes = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, call: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name == "write":
                self.bytes += len(arguments[1])
            return call(*arguments, **named)

        return counted

    def taken(self) -> tuple[tuple[str, ...], int]:
        """The calls and bytes since this was asked last."""
        calls, written = tuple(self.calls), self.bytes
        self.calls, self.bytes = [], 0
        return calls, written


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_every_answer_writes_one_row_however_much_is_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Any
) -> None:
    plugin, disk = plugin_in(tmp_path, clock), Disk(monkeypatch)
    replicas = [f"{device.uuid}::{number}" for number in range(REPLICAS) for device in DEVICES]
    costs = []
    for replica in (*replicas, *replicas):  # the second time all 384 are held
        assert isinstance(await plugin.answer(GPU, [[replica]]), tuple)
        calls, written = disk.taken()
        costs.append((calls, written - len(replica)))
    first, second, *others = costs
    assert "fsync" not in first[0]  # the ledger of this process is begun, and then its rows
    assert second == (("open", "write"), second[1])
    assert others == [(("write",), second[1])] * 766
    assert files_in(tmp_path) == ["allocations", "allocations.added"]
