"""Every action there is."""

from __future__ import annotations

from typing import TypeAlias

from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.devices import MigStep, SetComputeMode
from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.actions.node import PatchNode, PatchNodeStatus

Action: TypeAlias = (
    MigStep | SetComputeMode | StartDaemon | StopDaemon | WriteSpec | RemoveSpec | PatchNode | PatchNodeStatus
)
