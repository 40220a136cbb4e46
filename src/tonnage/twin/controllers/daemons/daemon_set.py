"""DaemonSetsController: one pod on every node that may have one, bound by the default scheduler."""

from __future__ import annotations

from typing import Final

from tonnage.loop.events import recorder_over
from tonnage.loop.expectations import Expectations
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import Ownership, controller_of, controller_reference
from tonnage.loop.pod_control import PodControl
from tonnage.loop.status_writes import merge_status
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.model.kubernetes.well_known import CONTROLLER_REVISION_HASH
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.daemons.history import hash_of, history_of, revision_body, surplus
from tonnage.twin.controllers.daemons.plan import Failed, by_node, node_of, plan, status_of
from tonnage.twin.controllers.daemons.template import Placements, pod_template
from tonnage.twin.controllers.label_selection import owner_selects
from tonnage.twin.controllers.pod_templates import pod_from
from tonnage.twin.controllers.replicas.status import status_patch
from tonnage.wire.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from tonnage.wire.objects import ControllerRevision, DaemonSet, Node, Pod

_FAILURE_FIRST_S: Final = 1.0
_FAILURE_LONGEST_S: Final = 900.0
_PAUSE_OF_A_NODE_S: Final = 0.00025
_NO_PAUSE_S: Final = 0.025


class DaemonSetController:
    """Creates, updates and deletes the pods of DaemonSets and keeps their revisions and status."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "daemonset-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._daemons = informers.of(DAEMON_SET, self._queue.add)
        self._nodes = informers.of(NODE)
        self._nodes.subscribe(self._node_changed)
        self._revisions = informers.of(CONTROLLER_REVISION)
        self._revisions.add_index("namespace", lambda revision: [revision.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("controller", _controller)
        self._pods.add_index("node", lambda pod: [pod.spec.node_name])
        self._pods.subscribe(self._pod_changed)
        self._expected = Expectations(clock)
        self._control = PodControl(api, self._events, self._expected, self._pods)
        self._own_pods = Ownership(api, DAEMON_SET, POD, owner_selects)
        self._own_revisions = Ownership(api, DAEMON_SET, CONTROLLER_REVISION, owner_selects)
        self._failures: dict[Key, dict[str, tuple[float, int]]] = {}
        """By DaemonSet and node: when a failed pod was last replaced, and how often in a row."""
        self._placements: dict[Key, tuple[str, Placements]] = {}
        """By DaemonSet, with its uid."""
        self._sizes: dict[Key, int] = {}

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._daemons, self._nodes, self._revisions, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=2))

    def _node_changed(self, delta: Delta[Node]) -> None:
        """Look again where a pod is missing or has to go, or some are where they should not be."""
        before, after = delta.before, delta.after
        if after is None:
            return  # its pods will go, which is seen
        if before is not None:
            same = before.metadata.labels == after.metadata.labels and before.spec.taints == after.spec.taints
            if same:
                return  # a heartbeat
        there = [controller_of(pod) for pod in self._pods.by_index("node", after.metadata.name)]
        owners = {owner.uid for owner in there if owner is not None}
        for daemon_set in self._daemons:
            fit = self._placements_of(daemon_set).on(after)
            if daemon_set.metadata.uid in owners:
                changes = not fit.may_stay or daemon_set.status.number_misscheduled > 0
            else:
                changes = fit.should_run
            if changes:
                self._look_soon(key_of(daemon_set))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        self._expected.observe(delta)
        for key in self._own_pods.concerned(delta, self._daemons):
            self._look_soon(key)

    def _look_soon(self, key: Key) -> None:
        """Together with the next changes where the set is large, and each look takes long."""
        pause_s = self._sizes.get(key, 0) * _PAUSE_OF_A_NODE_S
        self._queue.add_after(key, pause_s if pause_s > _NO_PAUSE_S else 0)

    def _placements_of(self, daemon_set: DaemonSet) -> Placements:
        key, uid = key_of(daemon_set), daemon_set.metadata.uid
        owner, placements = self._placements.get(key, ("", None))
        if placements is None or (owner, placements.generation) != (uid, daemon_set.metadata.generation):
            placements = Placements(daemon_set)
            self._placements[key] = uid, placements
        return placements

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        daemon_set = self._daemons.get(name, namespace)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None:
            for of_set in (self._failures, self._placements, self._sizes):
                of_set.pop(key, None)
            return None
        if not self._expected.satisfied(key):
            return 30.0
        selector = daemon_set.spec.selector
        if not selector.match_labels and not selector.match_expressions:
            await self._events.emit(
                daemon_set,
                "Warning",
                "SelectingAll",
                "This daemon set is selecting all pods. A non-empty selector is required.",
            )
            return None
        candidates = [
            pod
            for controller in (daemon_set.metadata.uid, f"{namespace}/")
            for pod in self._pods.by_index("controller", controller)
        ]
        pods = await self._own_pods.settle(daemon_set, candidates)
        self._sizes[key] = max(len(pods), len(self._nodes))
        revision = await self._keep_history(daemon_set, pods)
        placed = by_node(pods)
        try:
            waits = [await self._carry_out(key, daemon_set, placed, revision)]
        except ApiError:
            await self._update_status(daemon_set, placed, revision)
            raise
        waits.append(await self._update_status(daemon_set, placed, revision))
        return min((wait for wait in waits if wait is not None), default=None)

    async def _keep_history(self, daemon_set: DaemonSet, pods: list[Pod]) -> str:
        """The hash of the present template, whose revision is made if need be; old ones are cleared away."""
        namespace = daemon_set.metadata.namespace
        owned = await self._own_revisions.settle(daemon_set, self._revisions.by_index("namespace", namespace))
        history = history_of(daemon_set, owned)
        current = history.current
        if current is None:
            body = revision_body(daemon_set, history.next_number)
            try:
                current = await self._api.create(CONTROLLER_REVISION, body, namespace=namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                current = await self._settle_collision(daemon_set, body)
        elif current.revision < history.next_number:
            patch: JsonObject = {"revision": history.next_number}
            await self._api.patch(CONTROLLER_REVISION, current.metadata.name, patch, namespace=namespace)
        live = {pod.metadata.labels.get(CONTROLLER_REVISION_HASH, "") for pod in pods}
        for old in surplus(history, daemon_set.spec.revision_history_limit, live):
            await self._api.delete(CONTROLLER_REVISION, old.metadata.name, namespace=namespace)
        return hash_of(current)

    async def _settle_collision(self, daemon_set: DaemonSet, body: JsonObject) -> ControllerRevision:
        """Somebody has the name. If it is our own revision, our copy lags; else the next hash is another."""
        namespace = daemon_set.metadata.namespace
        name = text(body, "metadata", "name")
        there = await self._api.get(CONTROLLER_REVISION, name, namespace)
        controller = controller_of(there)
        own = controller is not None and controller.uid == daemon_set.metadata.uid
        if own and history_of(daemon_set, [there]).current is not None:
            return there
        count = (daemon_set.status.collision_count or 0) + 1
        await merge_status(self._api, DAEMON_SET, daemon_set, {"collisionCount": count})
        raise ApiError(409, "Conflict", f"controllerrevisions.apps {name!r} belongs to another template")

    async def _carry_out(
        self, key: Key, daemon_set: DaemonSet, placed: dict[str, list[Pod]], revision: str
    ) -> float | None:
        fits = self._placements_of(daemon_set).on_all(self._nodes)
        planned = plan(daemon_set, fits, placed, revision, self._clock.now())
        waits = [await self._replace_failed(key, daemon_set, failed) for failed in planned.failed]
        for pod in planned.delete:
            await self._control.delete(daemon_set, pod)
        for node in planned.create:
            await self._create(daemon_set, node, revision)
        return min((wait for wait in waits if wait is not None), default=None)

    async def _create(self, daemon_set: DaemonSet, node: str, revision: str) -> None:
        controller = controller_reference(daemon_set, DAEMON_SET)
        template = pod_template(daemon_set, node, revision)
        body = pod_from(template, f"{daemon_set.metadata.name}-", controller)
        await self._control.make(daemon_set, body)

    async def _replace_failed(self, key: Key, daemon_set: DaemonSet, failed: Failed) -> float | None:
        """Delete an ended pod, so that the next step makes another; the seconds to wait if it is too soon."""
        node = node_of(failed.pod)
        failures = self._failures.setdefault(key, {})
        now = self._clock.monotonic()
        last_s, times = failures.get(node, (now, 0))
        pause_s = min(_FAILURE_FIRST_S * float(2 ** min(times, 16)) / 2, _FAILURE_LONGEST_S)
        if times and now - last_s < pause_s:
            return last_s + pause_s - now
        if now - last_s > 2 * _FAILURE_LONGEST_S:
            times = 0
        failures[node] = (now, times + 1)
        event_type = "Warning" if failed.reason == "FailedDaemonPod" else "Normal"
        await self._events.emit(daemon_set, event_type, failed.reason, failed.message)
        await self._control.delete(daemon_set, failed.pod)
        return None

    async def _update_status(
        self, daemon_set: DaemonSet, placed: dict[str, list[Pod]], revision: str
    ) -> float | None:
        fits = self._placements_of(daemon_set).on_all(self._nodes)
        status, again_s = status_of(daemon_set, fits, placed, revision, self._clock.now())
        patch = status_patch(daemon_set.status, status)
        if patch is not None:
            await merge_status(self._api, DAEMON_SET, daemon_set, patch)
        return again_s


def _controller(pod: Pod) -> list[str]:
    """The uid of the pod's controller; of one that has none its namespace, whose DaemonSets may adopt it."""
    controller = controller_of(pod)
    return [f"{pod.metadata.namespace}/" if controller is None else controller.uid]
