"""The cluster controller: what its loops are made of."""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from tonnage import __version__
from tonnage.adapters.http.address import Address, listen, parse_address
from tonnage.adapters.http.metrics_page import MetricsPage
from tonnage.adapters.http.pages import probe_page
from tonnage.adapters.http.server import HttpServer, Route
from tonnage.controller.context import ControllerWorld
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.families import controller_families
from tonnage.controller.operator.gpu_clusters import GpuClusterLoop
from tonnage.controller.operator.node_labels import NodeLabelLoop
from tonnage.controller.operator.policies import PolicyLoop
from tonnage.controller.operator.probes import ProbeLoop
from tonnage.controller.operator.readiness_book import ReadinessBook
from tonnage.controller.operator.validations import ValidationLoop
from tonnage.controller.options import ControllerOptions
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.loop.effects import ActionPorts
from tonnage.loop.events import EventRecorder
from tonnage.loop.informer import Informer, Informers, following
from tonnage.loop.leadership import Leadership, LeaseName
from tonnage.loop.performer import ActionRecord, Performer, log_record
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.operands import NODE_POD, OPERAND_LABEL, OperandImage
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.registry import ImageRegistry
from tonnage.wire.kinds import CLUSTER_POLICY, LEAN_NODE, NODE, NODE_GPU_STATUS, NVIDIA_DRIVER, POD

if TYPE_CHECKING:
    from tonnage.controller.operator.drivers import DriverLoop
    from tonnage.controller.operator.rejected_pods import RejectedPodLoop

_LOG: Final = logging.getLogger(__name__)


async def run_controller(
    options: ControllerOptions,
    *,
    api: KubernetesApi,
    clock: Clock,
    counters: ControllerCounters | None = None,
    withheld: Callable[[ActionRecord], None] = log_record,
    registry: ImageRegistry | None = None,
) -> None:
    """Run until cancelled. In a dry run every action is told to `withheld` and none is performed.

    `registry` says whether drivers' images exist; None: nobody is asked.

    Raises ConfigError: the address cannot be used.
    """
    address = parse_address(options.metrics_address) if options.metrics_address else None
    if isinstance(address, Problem):
        raise ConfigError(address)
    controller = _Controller(options, api, clock, counters or ControllerCounters(), withheld, registry)
    with listen(address) if address else nullcontext() as listening:
        try:
            async with asyncio.TaskGroup() as group:
                if listening is not None:
                    group.create_task(controller.serve(listening))
                group.create_task(controller.run())
        except* _LookedOnceError:
            _LOG.debug("looked once")


class _Loop(Protocol):
    """Looks again and again, or once."""

    async def run(self) -> None: ...
    async def look_once(self) -> None: ...


class _LookedOnceError(Exception):
    """All was looked at once, and no more was asked for: ends the tasks that go on for ever."""


class _Controller:
    """The loops of one process, and what they share."""

    def __init__(
        self,
        options: ControllerOptions,
        api: KubernetesApi,
        clock: Clock,
        counters: ControllerCounters,
        withheld: Callable[[ActionRecord], None],
        registry: ImageRegistry | None,
    ) -> None:
        self._registry = registry
        self._options = options
        self._api = api
        self._clock = clock
        self._counters = counters
        self._withheld = withheld
        lease = LeaseName(options.namespace, options.lease, options.identity)
        elects = options.elect and not options.dry_run
        self._leadership = Leadership(api, clock, lease) if elects else None
        self._unlisted: tuple[str, ...] = ()

    async def run(self) -> None:
        """Lead whenever it is this process' turn."""
        await (self._lead() if self._leadership is None else self._leadership.run(self._lead))

    async def _lead(self) -> None:
        """Run the loops, from fresh copies on: the leader before has written since."""
        world = self._world()
        drivers = self._driver_loop(world)
        rejected = self._rejected_pods(world)
        policies = PolicyLoop(world, drivers, rejected)
        pods = Informer(
            *(world.api, POD, world.clock),
            namespace=world.operator_namespace,
            label_selector=f"{OPERAND_LABEL}={NODE_POD}",
        )
        loops: list[_Loop] = [
            NodeLabelLoop(world),
            *(loop for loop in (drivers, rejected) if loop is not None),
            policies,
            GpuClusterLoop(world),
            *(ValidationLoop(world, pods), ProbeLoop(world, pods)),
        ]
        kinds = [NODE, CLUSTER_POLICY, NODE_GPU_STATUS, *([] if drivers is None else [NVIDIA_DRIVER])]
        followed: list[Informer[Any]] = [world.copies.of(kind) for kind in kinds]
        self._unlisted = tuple(copy.kind.plural for copy in followed)
        own: list[Informer[Any]] = [*policies.copies, *(() if drivers is None else drivers.copies)]
        own += [pods] if world.operand_image else []
        world.refused.watch((*followed, *own))
        async with following(*followed, *own) as group:
            self._unlisted = ()
            if not self._options.once:
                for loop in loops:
                    group.create_task(loop.run())
                return
            for loop in loops:
                await loop.look_once()
            raise _LookedOnceError

    def _rejected_pods(self, world: ControllerWorld) -> RejectedPodLoop | None:
        if not self._options.rejected_pods:
            return None
        from tonnage.controller.operator.rejected_pods import RejectedPodLoop

        return RejectedPodLoop(world)

    def _driver_loop(self, world: ControllerWorld) -> DriverLoop | None:
        if not self._options.drivers:
            return None
        # Loaded where drivers are asked for, which is seldom.
        from tonnage.controller.operator.driver_images import ImageBook
        from tonnage.controller.operator.drivers import DriverLoop

        images = ImageBook(self._registry, self._api, self._clock, world.operator_namespace)
        return DriverLoop(world, images)

    def _world(self) -> ControllerWorld:
        options, leadership = self._options, self._leadership
        refused = RefusedWrites(self._clock)
        performer = Performer(
            ActionPorts(api=self._api),
            dry_run=options.dry_run,
            record=self._withheld if options.dry_run else refused.record,
            may_act=None if leadership is None else lambda: leadership.held,
        )
        copies = Informers(self._api, self._clock)
        copies.of(LEAN_NODE)  # which all who ask for Nodes share
        return ControllerWorld(
            api=self._api,
            clock=self._clock,
            copies=copies,
            performer=performer,
            events=EventRecorder(performer, self._clock, "tonnage-controller", options.identity),
            counters=self._counters,
            readiness=ReadinessBook(copies),
            refused=refused,
            namespace=options.namespace,
            operator_namespace=options.operator_namespace,
            operand_image=(
                OperandImage(options.operand_image, options.operand_pull_secrets)
                if options.operand_image
                else None
            ),
        )

    async def serve(self, listening: socket.socket) -> None:
        """Answer probes and show metrics."""
        build = {"version": __version__, "python": platform.python_version()}
        page = MetricsPage(lambda: controller_families(self._counters, self._leadership, build))
        routes = {
            "/metrics": Route(page),
            "/healthz": probe_page(lambda: ()),
            "/readyz": probe_page(lambda: tuple(f"{kind}: not listed yet" for kind in self._unlisted)),
        }
        host, port = listening.getsockname()[:2]
        _LOG.info("metrics served: address=%s", Address(host, port))
        await HttpServer(listening, routes).run()
