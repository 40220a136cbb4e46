"""What every loop of the controller is given."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.controller.counters import ControllerCounters
from tonnage.controller.operator.policy_turns import PolicyTurns
from tonnage.controller.operator.readiness_book import ReadinessBook
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.loop.events import EventRecorder
from tonnage.loop.informer import Informers
from tonnage.loop.performer import Performer
from tonnage.model.operands import OperandImage
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The outside; `operator_namespace` has what a ClusterPolicy names, `namespace` the agents."""

    api: KubernetesReader
    clock: Clock
    copies: Informers
    performer: Performer
    events: EventRecorder
    counters: ControllerCounters
    readiness: ReadinessBook
    refused: RefusedWrites
    policy_turns: PolicyTurns
    namespace: str
    operator_namespace: str
    operand_image: OperandImage | None = None
    workload_image: str = ""
