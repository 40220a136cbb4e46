"""The driver for ResourceClaims: there for kubelet where the node's configuration offers GPUs as claims."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.devices import ClaimableDevices
from tonnage.agent.claims.health import ClaimHealth
from tonnage.agent.claims.preparation import ClaimPreparation
from tonnage.agent.claims.publisher import SlicePublisher
from tonnage.agent.claims.sweep import ClaimSweep
from tonnage.agent.context import AgentContext
from tonnage.decide.node.claims.offer import (
    WITHOUT_PARTITIONS,
    ClaimOffer,
    serving_delay,
    serving_obstacle,
)
from tonnage.decide.node.claims.slices import CounterShape, counter_shape, desired_specs
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.claims import PublishedDevice
from tonnage.model.errors import HardwareError
from tonnage.model.json import JsonObject
from tonnage.ports.claims import ClaimSockets

_LOG: Final = logging.getLogger(__name__)
_ASK_EVERY_S: Final = 300.0


class ClaimDriver:
    """Opens the sockets and publishes the devices, while no other driver of that name serves the node.

    Slices are published once kubelet has registered the driver. Where nothing is offered any more, the
    sockets stay until the last claim is given back. Where claims of before cannot be read, nothing is
    published, and whoever asks is told why.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        sockets: ClaimSockets,
        devices: ClaimableDevices,
        preparation: ClaimPreparation,
        sweep: ClaimSweep,
    ) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._metrics = context.metrics
        self._started = context.started
        self._board = board
        self._sockets = sockets
        self._devices = devices
        self._book = preparation.book
        self._preparation = preparation
        self.metrics = preparation.metrics
        self._sweep = sweep
        self._health = ClaimHealth(context, board, devices, preparation.book)
        self._wake = asyncio.Event()
        self._slices = SlicePublisher(context, board, self._wake.set)
        self._complaint = ""
        self._kubelet = ""
        """The release of the node's kubelet when slices were made last."""
        self._unhealthy = frozenset[str]()
        """The unhealthy devices of then."""
        self._basis: tuple[tuple[PublishedDevice, ...], CounterShape] = (), CounterShape.NONE
        """What slices were made of last."""
        self._last_specs: tuple[JsonObject, ...] = ()
        self._ask_s = 0.0
        """When the server is asked again what it keeps, while it drops what is wanted."""
        for topic in (board.inventory, board.configuration, board.config_confirmed, board.node):
            topic.subscribe(self._wake.set)
        board.holds.subscribe(self._look_at_holds)

    def _look_at_holds(self) -> None:
        """Look anew if other devices are offered, or if only claims keep the sockets."""
        devices, offer = self._devices.current(), self._board.claims.value
        if not devices or offer is None or devices != offer.devices:
            self._wake.set()

    async def run(self) -> None:
        """Serve and publish until cancelled. Slices stay: kubelet removes them when nobody serves them."""
        try:
            if self._sockets.standing_by():  # kubelet asks already
                try:
                    await self._sockets.serve(self._preparation, self._health.reports)
                except HardwareError as error:  # tried again with the first turn
                    self._complain(str(error))
            await self._started.wait()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._slices.run())
                group.create_task(self._tick())
                group.create_task(self._sweep.run())
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    self._metrics.turned("claims")
                    try:
                        await self._turn()
                    except HardwareError as error:
                        self._complain(str(error))
        finally:
            await self._sockets.close()

    async def _tick(self) -> None:
        """Sockets vanish, and other drivers come; the kernel tells, but perhaps not of a folder made anew."""
        while True:
            self._sockets.watch(self._wake.set)
            self._wake.set()
            await next_beat(self._clock)

    async def _turn(self) -> None:
        """Bring sockets and slices in line with what the node offers. Raises HardwareError."""
        devices = self._devices.current()
        if devices is None:
            return
        serves = self._sockets.present()
        other = await self._sockets.other() if devices or serves else ""
        refusal, unreadable = serving_obstacle(other, self._slices.foreign), self._book.unreadable
        if refusal is not None or not (devices or self._book.uids() or unreadable):
            if serves:
                await self._sockets.close()
                if refusal is None:
                    _LOG.info("claims not served any more: node=%s why=none is offered", self._node)
        elif not serves:
            await self._sockets.serve(self._preparation, self._health.reports)
            _LOG.info("claims served: node=%s devices=%d", self._node, len(devices))
        registered = self._sockets.registered()
        refusal = refusal or serving_delay(unreadable, registered)
        shown = refusal is not None or not devices or registered is not None
        if self._board.config_confirmed.value and shown:
            self._slices.show(() if refusal is not None else self._specs(devices))
        unpublished = WITHOUT_PARTITIONS if self._slices.keeps_counters is False else ""
        self._board.claims.publish(ClaimOffer(devices, refusal, unpublished))
        self._complain(refusal.message if refusal is not None else "")

    def _specs(self, devices: tuple[PublishedDevice, ...]) -> tuple[JsonObject, ...]:
        """What slices should say, by what the server keeps and what release the node is of."""
        shared = any(device.counters is not None and not device.unfit for device in devices)
        slices, (kubelet, _) = self._slices, self._board.node_versions.value
        if kubelet != self._kubelet:  # after an upgrade, which the API server had before
            if self._kubelet:
                slices.ask_again()
            self._kubelet = kubelet
        keeps, splits = slices.keeps_counters, slices.splits_counters
        shape = counter_shape(kubelet, keeps=keeps, splits=splits) if shared else CounterShape.NONE
        unhealthy = frozenset(device.name for device in devices if not device.healthy)
        now_s = self._clock.monotonic()
        due = unhealthy - self._unhealthy or now_s >= self._ask_s
        lacks = bool(slices.dropped) or (shared and keeps is False)
        if due and (lacks or (unhealthy and not slices.keeps_taints)):
            slices.ask_of_features()  # one may be on by now
            self._ask_s = now_s + _ASK_EVERY_S
        self._unhealthy = unhealthy
        basis = tuple(device for device in devices if device.healthy or slices.keeps_taints), shape
        if basis != self._basis:  # hundreds of devices, and a turn at each beat
            self._basis, self._last_specs = basis, desired_specs(basis[0], self._node, counters=shape)
        return self._last_specs

    def _complain(self, text: str) -> None:
        if text and text != self._complaint:
            _LOG.warning("claims not served: node=%s why=%s", self._node, text)
            self._events.post("Warning", "ClaimsNotServed", text)
        self._complaint = text
