"""What the agent's start depends on: devices that can be read, and a MIG change that was left half done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.agent.board import NodeBoard
from tonnage.loop.ticks import next_beat
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.node.plugin_settings import Override
from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceReader, KubeletDevices

if TYPE_CHECKING:
    from tonnage.agent.context import AgentContext, MigPermits
    from tonnage.agent.devices import NodeDevices
    from tonnage.agent.holds.hold_ledger import HoldLedger
    from tonnage.agent.mig.layout import NodeMigLayout
    from tonnage.agent.operands.adoption import AdoptionWait
    from tonnage.agent.operands.follower import OperandFollower
    from tonnage.agent.options import AgentOptions
    from tonnage.agent.status.publisher import StatusPublisher


async def end_without_devices(clock: Clock, board: NodeBoard, overrides: Iterable[Override]) -> None:
    """Return once the devices were read. A driver that is lost later is a matter of health.

    A configuration that only ran last does not count: its successor may say otherwise. `overrides` win over
    the configuration's text.

    Raises:
        HardwareError: they cannot be read, and the configuration says `failOnInitError: true`.
    """
    while board.inventory.value is None or board.devices_error.value:
        error, current = board.devices_error.value, board.configuration.value
        if (
            error
            and board.config_confirmed.value
            and current is not None
            and current.config.fail_on_init_error
        ):
            text = "the devices cannot be read, and failOnInitError is true"
            remedy = "run tonnage doctor on the node, or set failOnInitError: false to wait for the driver"
            flags = (
                override.where for override in overrides if override.path == ("flags", "failOnInitError")
            )
            raise HardwareError(Problem(text, next(flags, current.choice.source), error, remedy))
        await next_beat(clock)


async def layout_of(
    permits: MigPermits,
    context: AgentContext,
    board: NodeBoard,
    hardware: DeviceReader,
    devices: NodeDevices,
    ledger: HoldLedger,
) -> NodeMigLayout | None:
    """What divides the GPUs, if the agent is told to; it knows what an earlier agent began."""
    if not permits.options.config_map or context.api is None:
        return None
    from tonnage.agent.mig.layout import NodeMigLayout  # nobody else needs its modules

    layout = NodeMigLayout(context, board, hardware, devices, ledger, permits)
    await layout.restore()
    return layout


async def operands_of(
    options: AgentOptions, context: AgentContext, board: NodeBoard, kubelet: KubeletDevices
) -> OperandFollower | AdoptionWait | None:
    """What tells them; it knows which parts were switched off last."""
    if options.wait_for_adoption:
        from tonnage.agent.operands.adoption import AdoptionWait

        return AdoptionWait(context, board, kubelet)
    if not options.operands:
        return None
    from tonnage.agent.operands.follower import OperandFollower

    follower = OperandFollower(context, board)
    await follower.restore()
    return follower


def publisher_of(
    options: AgentOptions,
    context: AgentContext,
    board: NodeBoard,
    backend: DeviceReader,
    kubelet: KubeletDevices,
) -> StatusPublisher:
    """What publishes the node's status; agents that wait for adoption say which devices kubelet has."""
    from tonnage.agent.status.publisher import StatusPublisher

    return StatusPublisher(context, board, backend, kubelet if options.wait_for_adoption else None)


def socket_of(options: AgentOptions) -> Path | None:
    """Where kubelet takes registrations; None: at nobody's."""
    return options.root / options.kubelet_socket.lstrip("/") if options.kubelet_socket else None
