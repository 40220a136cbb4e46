"""Performs the Actions of `model.actions`, each recorded before and after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar, assert_never

from tonnage.model.actions.action import Action
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
    SetComputeMode,
    SetMigMode,
)
from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.actions.node import PatchNode, PatchNodeStatus
from tonnage.model.actions.retry import Retry
from tonnage.model.errors import Bug, Problem
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.ports.node import CdiFiles, DeviceBackend, MpsDaemons
from tonnage.wire.kinds import NODE

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ActionPorts:
    """What actions are performed on; None: there is no such thing here, and no action for it is decided."""

    devices: DeviceBackend | None = None
    daemons: MpsDaemons | None = None
    specs: CdiFiles | None = None
    api: KubernetesApi | None = None


class Phase(Enum):
    """Where an action stands when it is recorded. WITHHELD: a dry run leaves it at that."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    WITHHELD = "withheld"


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action before it, and after it; `why` it failed."""

    action: Action
    phase: Phase
    why: str = ""


class Sight:
    """What an action changes was read; good for one action, since that makes it old."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


def log_record(record: ActionRecord) -> None:
    """The record as a line for whoever looks for mistakes."""
    _LOG.debug(
        "action %s: action=%r retry=%s why=%s",
        *(record.phase.value, record.action, record.action.retry.value, record.why),
    )


class Performer:
    """Performs one action at a call, and repeats none: when to try again is the loop's to say.

    That an action which must look first is not repeated blindly is kept here, whatever a loop does.
    """

    def __init__(
        self,
        ports: ActionPorts,
        *,
        dry_run: bool = False,
        record: Callable[[ActionRecord], None] = log_record,
    ) -> None:
        self._ports = ports
        self._dry_run = dry_run
        self._record = record

    async def look(self, reading: Awaitable[_T]) -> tuple[_T, Sight]:
        """What was read of the world, and the permission to change it once. Raises what the reading does."""
        return await reading, Sight()

    async def perform(self, action: Action, sight: Sight | None = None) -> None:
        """Return once it is done.

        Raises:
            HardwareError, ConfigError, ClusterError: it is not done, or nobody knows.
            Bug: nobody has looked since the last action that must look first.
        """
        if action.retry is Retry.LOOK_FIRST:
            if sight is None or sight.used:
                raise Bug(Problem(f"{action!r} is performed without a new look at what it changes"))
            sight.used = True
        if self._dry_run:
            self._record(ActionRecord(action, Phase.WITHHELD))
            return
        self._record(ActionRecord(action, Phase.BEGUN))
        try:
            await self._effect(action)
        except BaseException as error:
            self._record(ActionRecord(action, Phase.FAILED, str(error) or type(error).__name__))
            raise
        self._record(ActionRecord(action, Phase.DONE))

    async def _effect(self, action: Action) -> None:
        ports = self._ports
        match action:
            case (
                SetComputeMode()
                | SetMigMode()
                | ResetGpu()
                | DestroyComputeInstance()
                | DestroyGpuInstance()
                | CreateGpuInstance()
                | CreateComputeInstance()
            ):
                await _there(ports.devices, action).apply(action)
            case StartDaemon(daemon):
                await _there(ports.daemons, action).start(daemon)
            case StopDaemon(daemon):
                await _there(ports.daemons, action).stop(daemon)
            case WriteSpec(file, content):
                await _there(ports.specs, action).write(file, content)
            case RemoveSpec(file):
                await _there(ports.specs, action).remove(file)
            case PatchNode(node, patch):
                await _there(ports.api, action).patch(NODE, node, patch)
            case PatchNodeStatus(node, patch):
                await _there(ports.api, action).patch(
                    NODE, node, patch, patch_type=PatchType.STRATEGIC, subresource="status"
                )
            case _:
                assert_never(action)


def _there(port: _T | None, action: Action) -> _T:
    if port is None:
        raise Bug(Problem(f"{action!r} has nothing here to be performed on"))
    return port
