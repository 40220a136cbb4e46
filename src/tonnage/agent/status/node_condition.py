"""Conditions of the agent's Node, for everybody who looks at nodes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.retries import Retries
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.actions.cluster import PatchNodeStatus
from tonnage.model.devices.inventory import Inventory
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.json import JsonObject, JsonValue, parsed_json
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.node.condition_report import (
    CONFIGURED,
    HEALTHY,
    MIG_APPLIED,
    MPS_READY,
    ConditionReport,
)

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "node-conditions"
_AGAIN_S: Final = 300.0
_TICK_S: Final = 4.5
"""On a beat of the other loops, so that the process wakes for all of them at once."""
_NOT_OFTENER_S: Final = 0.5
_LONGEST: Final = 1024


def health_of(inventory: Inventory | None, error: str) -> ConditionReport:
    """`GPUsHealthy` as it follows from the devices.

    >>> health_of(None, "").status
    'Unknown'
    """
    if error:
        return ConditionReport("False", "DevicesNotReadable", _cut(error))
    if inventory is None:
        return ConditionReport("Unknown", "DevicesNotReadYet", "the devices are being read")
    faulty = [f"{device.uuid}: {device.reason}" for device in inventory.devices if not device.healthy]
    parts = [
        f"{mig.uuid}: {mig.reason}"
        for device in inventory.devices
        if device.healthy
        for mig in device.migs
        if not mig.healthy
    ]
    total = len(inventory.devices)
    if not faulty and not parts:
        return ConditionReport("True", "AllGPUsHealthy", f"{total} of {total} GPUs are usable")
    reason = "NoGPUHealthy" if len(faulty) == total else "SomeGPUsUnhealthy"
    head = f"{total - len(faulty)} of {total} GPUs are usable"
    return ConditionReport("False", reason, _cut("; ".join([head, *faulty, *parts])))


def applied(current: ConfigInForce | None) -> ConditionReport:
    """`GPUConfigApplied`: which device-plugin configuration runs, and why not the one that was asked for.

    >>> applied(None).status
    'Unknown'
    """
    if current is None:
        return ConditionReport("Unknown", "ConfigNotReadYet", "the configuration is being read")
    runs = [f"in force: {current.choice.source}"]
    if current.device_list:
        runs.append(f"deviceListStrategy auto is {current.device_list}")
    if current.error:
        return ConditionReport("False", "ConfigRefused", _cut("\n".join([current.error, *runs])))
    remarks = [f"overlooked: {remark}" for remark in current.config.remarks]
    text = "\n".join([*runs, *remarks])
    return ConditionReport("True", "ConfigOverlooked" if remarks else "ConfigApplied", _cut(text))


class NodeConditions:
    """Keeps conditions like the board. An API server that refuses is asked again now and then.

    When each last changed is on disk: the agent may not read its Node for that.
    """

    def __init__(self, context: AgentContext, board: NodeBoard) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._begun = context.started
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._board = board
        self._dirty = asyncio.Event()
        self._since: dict[str, tuple[str, str]] = {}
        """The status of each that was written last, and since when it has been so."""
        self._written: dict[str, ConditionReport] = {}
        self._complaint = ""
        self._retries = Retries()
        self._due = 0.0
        facts = (board.inventory, board.devices_error, board.configuration)
        for topic in (*facts, board.mps_condition, board.mig_condition):
            topic.subscribe(self._dirty.set)

    def _reports(self) -> dict[str, ConditionReport]:
        """What each condition says, by type."""
        board = self._board
        return {
            HEALTHY: health_of(board.inventory.value, board.devices_error.value),
            CONFIGURED: applied(board.configuration.value),
            MPS_READY: board.mps_condition.value,
            MIG_APPLIED: board.mig_condition.value,
        }

    async def run(self) -> None:
        """Write after every change until cancelled."""
        if self._api is None:
            return
        await self._begun.wait()
        await self._restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                reports = {
                    kind: report
                    for kind, report in self._reports().items()
                    if self._is_reportable(kind, report)
                }
                again = self._clock.monotonic() >= self._due
                changed = {kind for kind, report in reports.items() if self._written.get(kind) != report}
                if reports and (again or (changed and not self._complaint)):
                    await self._write(reports)
                await self._clock.sleep(_NOT_OFTENER_S)

    def _is_reportable(self, kind: str, report: ConditionReport) -> bool:
        """Whether the Node gets it: never `Unknown`, and a quiet one only where it was written before."""
        return report.status != "Unknown" and (not report.quiet or kind in self._since)

    async def _tick(self) -> None:
        while True:
            await next_beat(self._clock, _TICK_S)
            if self._clock.monotonic() >= self._due:
                self._dirty.set()

    async def _write(self, reports: Mapping[str, ConditionReport]) -> None:
        at = timestamp(self._clock.now())
        since = dict(self._since)
        for kind, report in reports.items():
            if kind not in since or since[kind][0] != report.status:
                since[kind] = (report.status, at)
        conditions: list[JsonValue] = [
            {
                "type": kind,
                "status": report.status,
                "reason": report.reason,
                "message": report.message,
                "lastHeartbeatTime": at,
                "lastTransitionTime": since[kind][1],
            }
            for kind, report in reports.items()
        ]
        patch: JsonObject = {"status": {"conditions": conditions}}
        try:
            await self._performer.perform(PatchNodeStatus(self._node, patch))
        except ClusterError as error:
            self._due = self._clock.monotonic() + self._retries.after(error)
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("conditions not written: node=%s error=%s", self._node, error)
            return
        self._written, self._complaint = dict(reports), ""
        self._retries.succeeded()
        self._due = self._clock.monotonic() + _AGAIN_S
        if since != self._since:
            self._since = since
            await self._save()

    async def _save(self) -> None:
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, json.dumps(self._since).encode()))
        except HardwareError as error:
            _LOG.warning("conditions not kept on disk: node=%s error=%s", self._node, error)

    async def _restore(self) -> None:
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            saved: Any = parsed_json(payload) if payload else {}
            self._since = {str(kind): (str(status), str(at)) for kind, (status, at) in saved.items()}
        except (HardwareError, ValueError, TypeError, AttributeError) as error:
            _LOG.warning("earlier conditions unknown: node=%s error=%s", self._node, error)


def _cut(text: str) -> str:
    line = "; ".join(part.strip() for part in text.splitlines())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
