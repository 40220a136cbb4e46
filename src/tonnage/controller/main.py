"""The cluster controller: what its loops are made of."""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from tonnage import __version__
from tonnage.adapters.http.address import Address, listen, parse_address
from tonnage.adapters.http.metrics_page import MetricsPage
from tonnage.adapters.http.pages import probe_page
from tonnage.adapters.http.server import HttpServer, Route, ServerLimits
from tonnage.controller.context import ControllerContext
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.families import controller_families, webhook_families
from tonnage.controller.first_lists import FirstList
from tonnage.controller.operator.gpu_clusters import GpuClusterLoop
from tonnage.controller.operator.node_labels import NodeLabelLoop
from tonnage.controller.operator.node_status_metrics import NodeStatusMetrics
from tonnage.controller.operator.policies import PolicyLoop
from tonnage.controller.operator.policy_turns import PolicyTurns
from tonnage.controller.operator.probes import ProbeLoop
from tonnage.controller.operator.readiness_book import ReadinessBook
from tonnage.controller.operator.validations import ValidationLoop
from tonnage.controller.options import ControllerOptions
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.controller.stuck_loops import StuckLoops
from tonnage.loop.effects import ActionPorts
from tonnage.loop.events import EventRecorder
from tonnage.loop.informer import Economies, Informer, Informers, following
from tonnage.loop.leadership import Leadership, LeaseName
from tonnage.loop.performer import ActionRecord, Performer, log_record
from tonnage.model.admission import ObjectJudge
from tonnage.model.errors import ApiError, ClusterError, ConfigError, Problem, first_error
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.metric_families import MetricFamily
from tonnage.model.operands import NODE_POD, OPERAND_LABEL, OperandImage
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, KubernetesReader
from tonnage.ports.registry import ImageRegistry
from tonnage.reading.shared_values import SharedNodes, SharedReports
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    LEAN_NODE,
    NODE,
    NODE_GPU_STATUS,
    NVIDIA_DRIVER,
    POD,
)
from tonnage.wire.objects import ConfigMap

if TYPE_CHECKING:
    from tonnage.controller.cluster_metrics import ClusterCollector
    from tonnage.controller.operator.drivers import DriverLoop
    from tonnage.controller.operator.rejected_pods import RejectedPodLoop
    from tonnage.controller.webhook.main import WebhookServer

_LOG: Final = logging.getLogger(__name__)
_PAGE_S: Final = 60.0
"""So long may a scrape wait: the metrics of 10,000 nodes take 2 s of a core, and more on a busy one."""


@dataclass(frozen=True, slots=True)
class ControllerHost:
    """What a process lends the controller; what it lacks is not used.

    `registry` says whether drivers' images exist. `cluster_families` are the metrics of a cluster, for which
    `server_version` asks the API server. `served_at` is where pages are served for lack of an address.
    """

    registry: ImageRegistry | None = None
    server_version: Callable[[], Awaitable[str]] | None = None
    cluster_families: Callable[[Snapshot], Iterable[MetricFamily]] | None = None
    served_at: socket.socket | None = None
    reader: KubernetesReader | None = None
    """What loops read in place of the API server."""
    judge: ObjectJudge | None = None
    """What the webhook says about objects; None: there is no webhook."""
    webhook_at: socket.socket | None = None
    """Where it is served for lack of an address."""


async def run_controller(
    options: ControllerOptions,
    *,
    api: KubernetesApi,
    clock: Clock,
    counters: ControllerCounters | None = None,
    withheld: Callable[[ActionRecord], None] = log_record,
    host: ControllerHost | None = None,
) -> None:
    """Run until cancelled. In a dry run every action is told to `withheld` and none is performed.

    Raises ConfigError: the address cannot be used.
    """
    if options.withdraw:
        await _withdraw(options, api, clock, withheld)
        return
    if options.definitions:
        from tonnage.controller.definitions import upgrade_definitions

        performer = Performer(ActionPorts(api=api), dry_run=options.dry_run, record=withheld)
        await upgrade_definitions(api, performer)
        return
    host = host or ControllerHost()
    controller = _Controller(options, api, clock, counters or ControllerCounters(), withheld, host)
    webhook_address = options.webhook.address if options.webhook is not None else ""
    with (
        _listening(options.metrics_address, "--metrics-address", host.served_at) as pages,
        _listening(webhook_address, "--webhook-address", host.webhook_at) as reviews,
    ):
        await _run(controller, pages, reviews)


def _listening(
    text: str, flag: str, instead: socket.socket | None
) -> AbstractContextManager[socket.socket | None]:
    """The socket of an address, or what there is for lack of one. Raises ConfigError."""
    address = parse_address(text) if text else None
    if isinstance(address, Problem):
        raise ConfigError(replace(address, where=flag))
    return listen(address, flag) if address else nullcontext(instead)


async def _run(
    controller: _Controller, pages: socket.socket | None = None, reviews: socket.socket | None = None
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            if pages is not None:
                group.create_task(controller.serve(pages))
            if reviews is not None and controller.webhook is not None:
                group.create_task(controller.webhook.run(reviews))
            group.create_task(controller.run())
    except BaseExceptionGroup as group:
        if (rest := group.split(_LookedOnceError)[1]) is not None:
            raise first_error(rest) from None
        _LOG.debug("looked once")


async def _withdraw(
    options: ControllerOptions, api: KubernetesApi, clock: Clock, withheld: Callable[[ActionRecord], None]
) -> None:
    """Take away what is left in the cluster, by the same loops, which see no policy."""
    from tonnage.controller.withdrawal import (  # once in a cluster's life
        AGAIN,
        NOT_ALL,
        ActionCounter,
        PolicylessReader,
        withdraw,
    )

    once = replace(options, once=True, elect=False)
    actions = ActionCounter(withheld)
    host = ControllerHost(reader=PolicylessReader(api))

    def controller() -> _Controller:
        return _Controller(once, api, clock, ControllerCounters(), actions, host)

    try:
        await withdraw(options, controller().context(), lambda: _run(controller()), actions)
    except ApiError as error:
        raise ClusterError(Problem(NOT_ALL, error.problems[0].where, error.message, AGAIN)) from None


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
        host: ControllerHost,
    ) -> None:
        self._host = host
        self._reader = host.reader or api
        self._options = options
        self._api = api
        self._clock = clock
        self._counters = counters
        self._withheld = withheld
        lease = LeaseName(options.namespace, options.lease, options.identity)
        elects = options.elect and not options.dry_run
        self._leadership = Leadership(api, clock, lease) if elects else None
        self._unlisted: tuple[str, ...] = ()
        self._listed = False
        loops = ("policies", "drivers") if options.drivers else ("policies",)
        self._loops = StuckLoops(clock, counters.turns, loops)
        self._node_status: NodeStatusMetrics | None = None
        self._of_cluster: ClusterCollector | None = None
        self.webhook = self._webhook()
        """What judges objects, where that is asked for."""

    async def run(self) -> None:
        """Lead whenever it is this process' turn."""
        await (self._lead() if self._leadership is None else self._leadership.run(self._lead))

    async def _lead(self) -> None:
        """Run the loops, from fresh copies on: the leader before has written since."""
        context = self.context()
        config_maps: Informer[ConfigMap] = Informer(
            *(context.api, CONFIG_MAP, context.clock), namespace=context.operator_namespace
        )
        drivers = self._driver_loop(context, config_maps)
        rejected = self._rejected_pods(context)
        clusters = GpuClusterLoop(context)
        policies = PolicyLoop(context, config_maps, drivers, rejected, clusters)
        self._node_status = NodeStatusMetrics(context)
        pods = Informer(
            *(context.api, POD, context.clock),
            namespace=context.operator_namespace,
            label_selector=f"{OPERAND_LABEL}={NODE_POD}",
        )
        loops: list[_Loop] = [
            NodeLabelLoop(context),
            *(loop for loop in (drivers, rejected) if loop is not None),
            policies,
            clusters,
            *(ValidationLoop(context, pods), ProbeLoop(context, pods)),
            *self._certificates(context),
        ]
        kinds = [NODE, CLUSTER_POLICY, NODE_GPU_STATUS, *([] if drivers is None else [NVIDIA_DRIVER])]
        followed: list[Informer[Any]] = [context.copies.of(kind) for kind in kinds]
        self._unlisted, self._listed = tuple(copy.kind.plural for copy in followed), False
        own: list[Informer[Any]] = [
            config_maps,
            *policies.copies,
            *(() if drivers is None else drivers.copies),
        ]
        own += [pods] if context.operand_image else []
        context.refused.watch((*followed, *own))
        # Somebody waits for the end of one look, or for what a dry run says: a missing kind is told.
        due = self._options.once or self._options.dry_run
        copies = [FirstList(copy) if due else copy for copy in (*followed, *own)]
        async with following(*copies) as group:
            self._unlisted, self._listed = (), True
            if not self._options.once:
                for loop in loops:
                    group.create_task(loop.run())
                if (collector := self._cluster_collector(context, followed)) is not None:
                    group.create_task(self._collect(collector))
                return
            for loop in loops:
                await loop.look_once()
            raise _LookedOnceError

    def _webhook(self) -> WebhookServer | None:
        options, judge = self._options.webhook, self._host.judge
        if options is None or judge is None:
            return None
        from tonnage.controller.webhook.main import WebhookServer

        copies = (self._api, self._clock, self._options.namespace)
        return WebhookServer(options, judge, self._counters, copies)

    def _certificates(self, context: ControllerContext) -> Iterator[_Loop]:
        """What keeps the webhook's certificate, where that is the controller's."""
        if self.webhook is not None and self._options.webhook is not None:
            from tonnage.controller.webhook.main import certificate_loop

            if (loop := certificate_loop(context, self._options.webhook)) is not None:
                yield loop

    def _cluster_collector(
        self, context: ControllerContext, copies: list[Informer[Any]]
    ) -> ClusterCollector | None:
        """What reads the cluster for its metrics; of the kinds that it needs, `copies` are fresh already."""
        interval_s, host = self._options.cluster_metrics_s, self._host
        if not interval_s or host.server_version is None or host.cluster_families is None:
            return None
        from tonnage.controller.cluster_metrics import ClusterCollector, FollowedCluster
        from tonnage.reading.command_kinds import CLUSTER_METRICS_KINDS

        kinds = {(kind.group, kind.plural) for kind in CLUSTER_METRICS_KINDS}
        shared = tuple(copy for copy in copies if (copy.kind.group, copy.kind.plural) in kinds)
        source = FollowedCluster(context.api, host.server_version, context.namespace, shared)
        return ClusterCollector(source, context.clock, interval_s, host.cluster_families)

    async def _collect(self, collector: ClusterCollector) -> None:
        """Have the page show the cluster while this process leads: two would count every pod twice."""
        self._of_cluster = collector
        try:
            await collector.run()
        finally:
            self._of_cluster = None

    def _families(self, build: Mapping[str, str]) -> Iterable[MetricFamily]:
        """Those of every node are worked out when a thread asks for them, the others now."""
        own = list(controller_families(self._counters, self._leadership, build))
        if self.webhook is not None:
            own += webhook_families(self._counters, self.webhook.end_s())
        if self._leadership is not None and not self._leadership.held:
            return own
        of_cluster = () if self._of_cluster is None else self._of_cluster.families()
        of_nodes = () if self._node_status is None else self._node_status.families()
        return chain(own, of_nodes, of_cluster)

    def _rejected_pods(self, context: ControllerContext) -> RejectedPodLoop | None:
        if not self._options.rejected_pods:
            return None
        from tonnage.controller.operator.rejected_pods import RejectedPodLoop

        return RejectedPodLoop(context)

    def _driver_loop(self, context: ControllerContext, config_maps: Informer[ConfigMap]) -> DriverLoop | None:
        if not self._options.drivers:
            return None
        # Loaded where drivers are asked for, which is seldom.
        from tonnage.controller.operator.driver_images import ImageBook
        from tonnage.controller.operator.drivers import DriverLoop

        images = ImageBook(self._host.registry, self._api, self._clock, context.operator_namespace)
        return DriverLoop(context, images, config_maps)

    def context(self) -> ControllerContext:
        """What every loop is given, new at each turn of leading."""
        options, leadership = self._options, self._leadership
        turns = PolicyTurns(self._clock)
        refused = RefusedWrites(self._clock, on_change=turns.soon)
        performer = Performer(
            ActionPorts(api=self._api),
            dry_run=options.dry_run,
            record=self._withheld if options.dry_run or options.once else refused.record,
            may_act=None if leadership is None else lambda: leadership.held,
        )
        economise: Economies = {LEAN_NODE.type: SharedNodes(), NODE_GPU_STATUS.type: SharedReports()}
        copies = Informers(self._reader, self._clock, economise)
        copies.of(LEAN_NODE)  # which all who ask for Nodes share
        return ControllerContext(
            api=self._reader,
            clock=self._clock,
            copies=copies,
            performer=performer,
            events=EventRecorder(performer, self._clock, "tonnage-controller", options.identity),
            counters=self._counters,
            readiness=ReadinessBook(copies),
            refused=refused,
            policy_turns=turns,
            namespace=options.namespace,
            operator_namespace=options.operator_namespace,
            operand_image=(
                OperandImage(options.operand_image, options.operand_pull_secrets)
                if options.operand_image
                else None
            ),
            workload_image=options.workload_image,
        )

    def _stuck(self) -> tuple[str, ...]:
        """Loops that do not go on, a line each; a leader alone has any, from its first complete list on."""
        leads = self._leadership is None or self._leadership.held
        return self._loops.problems(leads=leads and self._listed)

    def _missing(self) -> tuple[str, ...]:
        """What keeps the controller from working, a line each; empty when ready."""
        unlisted = tuple(f"{kind}: not listed yet" for kind in self._unlisted)
        return (*unlisted, *(() if self.webhook is None else self.webhook.missing()))

    async def serve(self, listening: socket.socket) -> None:
        """Answer probes and show metrics."""
        build = {"version": __version__, "python": platform.python_version()}
        page = MetricsPage(lambda: self._families(build), of_fleet=True)
        routes = {
            "/metrics": Route(page),
            "/healthz": probe_page(self._stuck),
            "/readyz": probe_page(self._missing),
        }
        host, port = listening.getsockname()[:2]
        _LOG.info("metrics served: address=%s", Address(host, port))
        await HttpServer(listening, routes, ServerLimits(request_s=_PAGE_S)).run()
