"""The end of a release: what controller and agents have left in the cluster is taken away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_pods import delete_pod
from tonnage.controller.options import ControllerOptions
from tonnage.decide.cluster.operate.claimed_devices import TEMPLATE
from tonnage.decide.cluster.operate.node_pod import OF_NODE, SeenPod
from tonnage.decide.cluster.operate.probe import PROBE
from tonnage.decide.cluster.operate.refusals import is_refusal
from tonnage.decide.cluster.operate.validation import APP
from tonnage.decide.cluster.operate.withdrawal import is_adopted, left_conditions, left_metadata
from tonnage.decide.node.mig.pause import NodeNow, restore
from tonnage.loop.performer import ActionRecord, Phase
from tonnage.loop.refusals import passing_over
from tonnage.model.actions.cluster import CreateEvent, DeleteObject, PatchNode, PatchNodeStatus
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.operands import OPERAND_LABEL
from tonnage.ports.kubernetes import KubernetesReader, Listing, WatchEvent
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    GPU_CLUSTER,
    NODE,
    NVIDIA_DRIVER,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    Kind,
)
from tonnage.wire.objects import Node, Object, Pod

T = TypeVar("T", bound=Object)
NOT_ALL: Final = "not all of it is taken away"
AGAIN: Final = "run tonnage controller --withdraw again once the API server takes that request"
_POLICIES: Final = frozenset(kind.plural for kind in (CLUSTER_POLICY, NVIDIA_DRIVER, GPU_CLUSTER))
_CONFLICT: Final = 409
_NOWHERE: Final = "0"
"""Version of a list that no server has made."""
_NAME: Final = "app.kubernetes.io/name"
_EXPORTER: Final = "tonnage-exporter"
_WRITERS: Final = f"{_NAME} in (tonnage-agent,tonnage-controller,{_EXPORTER})"
_FORBIDDEN: Final = 403
_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 2.0
_MOST_PASSES: Final = 20
_LOG: Final = logging.getLogger(__name__)


class ActionCounter:
    """How many actions were performed, and how many came too late; each record is passed on.

    `refusals` are what the API server said of those that it refused, which the loops pass over.
    """

    def __init__(self, record: Callable[[ActionRecord], None]) -> None:
        self._record = record
        self.done = 0
        self.conflicts = 0
        self.refusals: list[str] = []

    def __call__(self, action: ActionRecord) -> None:
        self._record(action)
        self.done += action.phase is Phase.DONE
        self.conflicts += action.code == _CONFLICT
        refused = action.phase is Phase.FAILED and is_refusal(action.code)
        if refused and not isinstance(action.action, CreateEvent):
            self.refusals.append(action.why)


async def withdraw(
    options: ControllerOptions,
    context: ControllerContext,
    look_once: Callable[[], Awaitable[None]],
    actions: ActionCounter,
) -> None:
    """Return once nothing of ours is left in the cluster, as if no policy had ever been there.

    `look_once` has the controller's loops look at a cluster without policies; `actions` counts what they
    do. In a dry run there is one pass.

    Raises ClusterError: agents or controllers are still there, there is always more to take away, or the API
    server refuses it.
    """
    if not options.dry_run:
        await _writers_gone(context)
    for _ in range(_MOST_PASSES):
        done, conflicts = actions.done, actions.conflicts
        actions.refusals.clear()
        await look_once()
        if actions.conflicts == conflicts:  # else a node still needs the note of what was set on it
            for app in (APP, PROBE.app):
                await _delete_pods(app, context)
            await _delete_template(context)
            await _clean_nodes(context, divides=options.agents_divide)
        if (actions.done, actions.conflicts) == (done, conflicts):
            if actions.refusals:
                raise ClusterError(Problem(NOT_ALL, why=actions.refusals[0], remedy=AGAIN))
            return
        await context.clock.sleep(_LOOK_S)
    why = f"in each of {_MOST_PASSES} passes there was something to take away"
    raise ClusterError(Problem(NOT_ALL, why=why, remedy="look for what writes it again"))


async def _clean_nodes(context: ControllerContext, *, divides: bool) -> None:
    """Take away what the agents have left in nodes."""
    for node in (await context.api.list(NODE)).items:
        await _clean_metadata(node, context, divides=divides)
        if conditions := left_conditions(condition.type for condition in node.status.conditions):
            with passing_over(404, 409):
                await context.performer.perform(PatchNodeStatus(node.metadata.name, conditions))


async def _clean_metadata(node: Node, context: ControllerContext, *, divides: bool) -> None:
    """Take away labels and annotations of a node; one that is adopted keeps its way back."""
    meta = node.metadata
    if is_adopted(meta.annotations):
        _LOG.warning("node is still adopted, tonnage operator release gives it back: node=%s", meta.name)
        return
    patch = restore(NodeNow(meta.resource_version, meta.labels, meta.annotations, node.spec.unschedulable))
    if patch is None:
        metadata = left_metadata(meta.labels, meta.annotations, divides=divides)
        patch = {"metadata": {**metadata, "resourceVersion": meta.resource_version}} if metadata else None
    if patch is not None:
        with passing_over(404, 409):  # it is gone, or looked at again in the next pass
            await context.performer.perform(PatchNode(meta.name, patch))


async def _delete_pods(app: str, context: ControllerContext) -> None:
    """Pods of an app that the controller ran once at nodes."""
    pods = await context.api.list(POD, namespace=context.operator_namespace, label_selector=f"app={app}")
    for pod in pods.items:
        if OF_NODE in pod.metadata.annotations and not pod.metadata.deletion_timestamp:
            with passing_over(409):
                await delete_pod(context, SeenPod(pod.metadata.name, pod.metadata.uid))


async def _delete_template(context: ControllerContext) -> None:
    """Of the claims by which nodes were validated; a cluster without claims has none."""
    namespace = context.operator_namespace
    gone = DeleteObject("ResourceClaimTemplate", TEMPLATE, "", namespace)
    with passing_over(404, 409):
        reading = context.api.get(RESOURCE_CLAIM_TEMPLATE, TEMPLATE, namespace)
        template, sight = await context.performer.look(gone.subject, reading)
        if OPERAND_LABEL in template.metadata.labels:
            await context.performer.perform(replace(gone, uid=template.metadata.uid), sight)


async def _writers_gone(context: ControllerContext) -> None:
    """Wait for the pods that would write again what is taken away. Raises ClusterError.

    Pods of another release count, wherever it is: what is taken away from the cluster is its own as well.
    """
    clock = context.clock
    deadline = clock.monotonic() + _PATIENCE_S
    while True:
        pods = await _writers(context)
        if not pods:
            return
        if clock.monotonic() >= deadline:
            names = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods[:5])
            problem = f"{len(pods)} pods of agents or controllers are still there"
            remedy = "uninstall their releases first, or delete those pods"
            raise ClusterError(Problem(problem, why=names, remedy=remedy))
        await clock.sleep(_LOOK_S)


async def _writers(context: ControllerContext) -> list[Pod]:
    """Of the release's namespace all; of others those that write to Nodes, if they may be listed."""
    own = context.namespace
    try:
        pods = (await context.api.list(POD, label_selector=_WRITERS)).items
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        _LOG.warning("agents of other namespaces are not waited for: pods cannot be listed: error=%s", error)
        return (await context.api.list(POD, namespace=own, label_selector=_WRITERS)).items
    return [
        pod for pod in pods if pod.metadata.namespace == own or pod.metadata.labels.get(_NAME) != _EXPORTER
    ]


class PolicylessReader:
    """The API server without policies; kinds that it does not serve have no object."""

    def __init__(self, api: KubernetesReader) -> None:
        self._api = api

    @property
    def server_ahead_s(self) -> float:
        """As the server's."""
        return self._api.server_ahead_s

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """The object. Raises ApiError 404."""
        return await self._api.get(kind, name, namespace)

    async def list(self, kind: Kind[T], **options: Any) -> Listing[T]:
        """All objects, of policies none."""
        if kind.plural in _POLICIES:
            return Listing([], _NOWHERE)
        try:
            return await self._api.list(kind, **options)
        except ApiError as error:
            if error.code != 404:
                raise
            return Listing([], _NOWHERE)

    async def dry_run_create(self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None) -> T:
        """The object as the server would store it. Raises ApiError."""
        return await self._api.dry_run_create(kind, body, namespace=namespace)

    async def watch(
        self, kind: Kind[T], *, resource_version: str, **options: Any
    ) -> AsyncIterator[WatchEvent[T]]:
        """Every change; none of what was not listed."""
        if resource_version == _NOWHERE:
            await asyncio.Event().wait()
        async for event in self._api.watch(kind, resource_version=resource_version, **options):
            yield event
