"""Every action there is."""

from __future__ import annotations

from typing import TypeAlias

from tonnage.model.actions.cdi import CdiAction
from tonnage.model.actions.checkpoints import CheckpointAction
from tonnage.model.actions.cluster import ClusterAction, ControllerAction, SliceAction
from tonnage.model.actions.devices import DeviceAction
from tonnage.model.actions.host import HostAction
from tonnage.model.actions.labels import WriteLabels
from tonnage.model.actions.mps import MpsAction
from tonnage.model.actions.status_files import ShowStatusFiles

Action: TypeAlias = (
    CheckpointAction
    | DeviceAction
    | MpsAction
    | CdiAction
    | ClusterAction
    | ControllerAction
    | SliceAction
    | HostAction
    | WriteLabels
    | ShowStatusFiles
)
