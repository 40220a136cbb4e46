"""Pretended devices of one node: what `--devices scenario:FILE` reads.

driverVersion: "570.124.06"
boot: "1"                                  # another text is another boot, or the driver loaded anew
devices:
- {uuid: GPU-6a1f, model: A100-40, numa: 0}
- {uuid: GPU-77c2, model: A100-40, numa: 1, health: lost}
- {uuid: GPU-01ab, model: A100-40, xids: [31, 48], rowRemap: pending, recoveryAction: gpu-reset}
- {uuid: GPU-9c01, model: A100-40, mig: [3g.20gb, 1g.5gb, 1c.2g.10gb]}   # []: MIG enabled, nothing made
fabric: in progress                        # of a board with NVSwitches
links: [{gpus: [0, 1], nvlinks: 12, path: PIX}]   # left out: as on the boards that the models come on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.source import Document, DocumentFieldError
from tonnage.documents.yaml.spelling import DEVICE_UUID, MIG_PROFILE
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import mig_model
from tonnage.model.errors import Problem
from tonnage.model.mig.placements import layout_refusal
from tonnage.model.reasons.gpu.mig import MigProfileNotOffered

MAX_DEVICES = 256
MAX_XIDS = 256
MAX_PROCESSES = 1000
MAX_PARTS = 56
MAX_LINKS = 256

RecoveryActionName = Literal[
    "none",
    "gpu-reset",
    "node-reboot",
    "drain-p2p",
    "drain-and-reset",
    "recover-imex-domain",
    "bus-reset",
    "system-reboot",
]
MigProfile = Annotated[str, Field(pattern=MIG_PROFILE)]
RowRemap = Literal["none", "pending", "failed"]


class HardwareProcess(Document):
    """A process that computes on a device, or on its GPU instance; `mps`: through an MPS server."""

    pid: Annotated[int, Field(ge=1, lt=1 << 22)]
    memory_mib: Annotated[int, Field(ge=0)] | None = None
    utilization_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    gpu_instance: Annotated[int, Field(ge=0, lt=64)] | None = None
    mps: bool = False


class HardwareDevice(Document):
    """One device. `index` defaults to its place in the list; readings are those of an idle device.

    `xids` are the errors that it has reported, oldest first: what is added to them happens then. `health`
    hung is a device whose driver calls do not come back. `mig` are the profiles of its MIG devices, which
    must fit on it together. None: MIG is disabled. `mig_reset`: another mode takes a reset.
    """

    uuid: Annotated[str, Field(pattern=DEVICE_UUID)]
    model: str
    index: Annotated[int, Field(ge=0, lt=MAX_DEVICES)] | None = None
    health: Literal["healthy", "unhealthy", "lost", "hung"] = "healthy"
    reason: Annotated[str, Field(max_length=200)] = ""
    xids: Annotated[tuple[Annotated[int, Field(ge=1, lt=1 << 16)], ...], Field(max_length=MAX_XIDS)] = ()
    ecc_uncorrected: Annotated[int, Field(ge=0)] = 0
    row_remap: RowRemap = "none"
    recovery_action: RecoveryActionName = "none"
    nvlinks_down: Annotated[int, Field(ge=0, le=64)] = 0
    nvlink_errors: Annotated[int, Field(ge=0)] = 0
    numa: Annotated[int, Field(ge=0, lt=1024)] | None = None
    mig: Annotated[tuple[MigProfile, ...], Field(max_length=MAX_PARTS)] | None = None
    mig_reset: bool = False
    memory_used_mib: Annotated[int, Field(ge=0)] = 0
    utilization_percent: Annotated[int, Field(ge=0, le=100)] = 0
    temperature_c: Annotated[int, Field(ge=0, le=150)] = 35
    processes: Annotated[tuple[HardwareProcess, ...], Field(max_length=MAX_PROCESSES)] = ()

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        if model not in gpu_models():
            raise DocumentFieldError(
                f"unknown GPU model {model[:60]}", remedy=nearest(model, list(gpu_models()))
            )
        return model

    @model_validator(mode="after")
    def _divisible(self) -> HardwareDevice:
        if self.mig is not None and (problem := mig_problem(self.model, self.mig)) is not None:
            raise DocumentFieldError(problem.what, why=problem.why, remedy=problem.remedy)
        return self


def mig_problem(model: str, profiles: Sequence[str]) -> Problem | None:
    """Why no GPU of the catalogue's model can have these MIG devices at once; None: it can."""
    board = mig_model(gpu_models()[model].product)
    if board is None:
        able = [key for key, other in gpu_models().items() if other.mig]
        return Problem(f"{model} cannot be divided by MIG", remedy=f"one of {', '.join(able)} can")
    refusal = layout_refusal(board, Counter(profiles))
    if refusal is None:
        return None
    text, _, why = refusal.message.partition(": ")
    if isinstance(refusal, MigProfileNotOffered):
        return Problem(f"{model}: {refusal.message}", remedy=f"it has {', '.join(refusal.instead)}")
    return Problem(text, why=why, remedy=f"these fit: {' or '.join(refusal.instead[:3])}")


class HardwareLink(Document):
    """How two GPUs, by index, reach each other: NVLinks side by side, and the way over PCI."""

    gpus: tuple[Annotated[int, Field(ge=0, lt=MAX_DEVICES)], Annotated[int, Field(ge=0, lt=MAX_DEVICES)]]
    nvlinks: Annotated[int, Field(ge=0, le=36)] = 0
    path: Literal["BOARD", "PIX", "PXB", "PHB", "NODE", "SYS"] | None = None


class Hardware(Document):
    """A node's devices and the driver that they pretend to have.

    `links` replace those that the models have on a board of their maker. `fabric` is what Fabric Manager has
    made of the NVSwitches of such a board; without it the driver does not say.
    """

    boot: Annotated[str, Field(max_length=100)] = "1"

    driver_version: str = "570.124.06"
    cuda_version: str = "12.8"
    fabric: Literal["not started", "in progress", "completed", "failed"] | None = None
    devices: Annotated[tuple[HardwareDevice, ...], Field(max_length=MAX_DEVICES)] = ()
    links: Annotated[tuple[HardwareLink, ...], Field(max_length=MAX_LINKS)] = ()

    @model_validator(mode="after")
    def _between_devices(self) -> Hardware:
        there = {index for _, index in self.indexed()}
        for link in self.links:
            if len({*link.gpus} & there) < 2:
                pair = ", ".join(map(str, link.gpus))
                raise DocumentFieldError(
                    f"GPUs {pair} cannot be linked", remedy="give the indices of two devices"
                )
        return self

    @model_validator(mode="after")
    def _distinct(self) -> Hardware:
        uuids = [device.uuid for device in self.devices]
        indices = [str(index) for _, index in self.indexed()]
        for field, values in (("uuid", uuids), ("index", indices)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise DocumentFieldError(
                    f"{field} {', '.join(twice)} is given twice", remedy=f"give each its own {field}"
                )
        return self

    def indexed(self) -> tuple[tuple[HardwareDevice, int], ...]:
        """Each device with its index, in index order."""
        pairs = (
            (device, place if device.index is None else device.index)
            for place, device in enumerate(self.devices)
        )
        return tuple(sorted(pairs, key=lambda pair: pair[1]))
