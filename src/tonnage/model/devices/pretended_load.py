"""What a pretended workload does to its GPUs: the parameters of the model of `twin.devices.load`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LOAD_ANNOTATION: Final = "tonnage.dev/pretended-load"
"""Of a pod: what its containers do with the GPUs that they are given, on the twin."""


class LoadKind(StrEnum):
    """TRAINING keeps a GPU busy but for checkpoints; INFERENCE answers requests; IDLE holds memory alone.

    LEAK is inference whose memory grows; CRASH is training that an Xid ends.
    """

    TRAINING = "training"
    INFERENCE = "inference"
    IDLE = "idle"
    LEAK = "leak"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class PretendedLoad:
    """A workload by itself on a GPU.

    `busy` is the share of time in which its kernels run; of a kind that answers requests it follows from
    `rate` (a second) and `service_s` (the time that one takes alone). `width` is the share of the GPU that
    its kernels fill while they run. Memory is `memory_mib`, else `memory_share` of the device, and grows by
    `growth_share` of the device a second. An Xid is reported `after_s`. The same `seed` wobbles alike.
    """

    kind: LoadKind
    busy: float = 0.0
    rate: float = 0.0
    service_s: float = 0.0
    width: float = 1.0
    memory_mib: int | None = None
    memory_share: float = 0.0
    growth_share: float = 0.0
    xid: int = 0
    after_s: float = 0.0
    seed: int | None = None

    @property
    def demand(self) -> float:
        """The share of time in which its kernels would run alone; above 1 it cannot keep up."""
        return self.rate * self.service_s if self.service_s else self.busy
