"""StatefulSetController: pods with names that stay, one after the other, and their claims.

Source: pkg/controller/statefulset of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import msgspec

from tonnage.loop.events import recorder_over
from tonnage.loop.expectations import Expectations
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import Ownership, controller_of, owner_as_json
from tonnage.loop.pod_control import message_of
from tonnage.loop.refusals import or_none
from tonnage.loop.status_writes import replace_status
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.label_selection import owner_selects
from tonnage.twin.controllers.pod_state import available_in_s
from tonnage.twin.controllers.stateful.plan import OrdinalPlan, complete, plan, status_of
from tonnage.twin.controllers.stateful.template import (
    claim_bodies,
    claim_owner,
    equal_revisions,
    ordinal_of,
    revision_body,
    revision_of,
    stateful_pod,
    surplus,
    template_in,
)
from tonnage.wire.kinds import CONTROLLER_REVISION, POD, STATEFUL_SET, VOLUME_CLAIM
from tonnage.wire.objects import ControllerRevision, ObjectMeta, Pod
from tonnage.wire.workloads import StatefulSet, StatefulSetStatus

Revisions = tuple[ControllerRevision, ControllerRevision]
"""The one that pods are of, and the one that they are to be of."""


class StatefulSetController:
    """Makes, replaces and deletes the pods of StatefulSets and keeps their claims, revisions and status."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "statefulset-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._sets = informers.of(STATEFUL_SET, self._queue.add)
        self._pods = informers.of(POD)
        self._revisions = informers.of(CONTROLLER_REVISION)
        for informer in (self._pods, self._revisions):
            informer.add_index("namespace", lambda obj: [obj.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._expected = Expectations(clock)
        self._own_pods = Ownership(api, STATEFUL_SET, POD, owner_selects)
        self._own_revisions = Ownership(api, STATEFUL_SET, CONTROLLER_REVISION, owner_selects)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._sets, self._pods, self._revisions) as group:
            group.create_task(work(self._queue, self._reconcile, workers=2))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        self._expected.observe(delta)
        for key in self._own_pods.concerned(delta, self._sets):
            self._queue.add(key)

    async def _reconcile(self, key: Key) -> float | None:
        stateful_set = self._sets.get(key[1], key[0])
        if stateful_set is None or not self._expected.satisfied(key):
            return None if stateful_set is None else 30.0
        candidates = [
            pod for pod in self._pods.by_index("namespace", key[0]) if _called_after(pod, stateful_set)
        ]
        pods = await self._own_pods.settle(stateful_set, candidates)
        history = await self._own_revisions.settle(
            stateful_set, self._revisions.by_index("namespace", key[0])
        )
        history.sort(
            key=lambda revision: (
                revision.revision,
                revision.metadata.creation_timestamp or "",
                revision.metadata.name,
            )
        )
        current, update = await self._revise(stateful_set, history)
        now = self._clock.now()
        names = current.metadata.name, update.metadata.name
        status = status_of(stateful_set, pods, *names, now)
        failure: ClusterError | None = None
        if stateful_set.metadata.deletion_timestamp is None:
            try:
                planned = plan(stateful_set, pods, *names, now)
                status.current_replicas -= planned.updates
                await self._carry_out(stateful_set, (current, update), planned)
            except ClusterError as error:
                failure = error
        complete(stateful_set, status)
        await self._write(stateful_set, status)
        live = {*names, *map(revision_of, pods)}
        for old in surplus(history, live, stateful_set.spec.revision_history_limit):
            await self._api.delete(CONTROLLER_REVISION, old.metadata.name, namespace=key[0])
        if failure is not None:
            raise failure
        waits = (available_in_s(pod, stateful_set.spec.min_ready_seconds, now) for pod in pods)
        return min((wait for wait in waits if wait), default=None)

    async def _revise(self, stateful_set: StatefulSet, history: list[ControllerRevision]) -> Revisions:
        """The revision before, and that of the present template, made or brought to the front if need be."""
        equal = equal_revisions(stateful_set, history)
        number = history[-1].revision + 1 if history else 1
        if equal and equal[-1] is history[-1]:
            update = history[-1]
        elif equal:
            name, namespace = equal[-1].metadata.name, stateful_set.metadata.namespace
            patch: JsonObject = {"revision": number}
            update = await self._api.patch(CONTROLLER_REVISION, name, patch, namespace=namespace)
        else:
            update = await self._make_revision(stateful_set, number)
        named = (
            revision for revision in history if revision.metadata.name == stateful_set.status.current_revision
        )
        return next(named, update), update

    async def _make_revision(self, stateful_set: StatefulSet, number: int) -> ControllerRevision:
        body = revision_body(stateful_set, number, stateful_set.status.collision_count or 0)
        namespace = stateful_set.metadata.namespace
        try:
            return await self._api.create(CONTROLLER_REVISION, body, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        name = text(body, "metadata", "name")
        there = await self._api.get(CONTROLLER_REVISION, name, namespace)
        if template_in(there) == stateful_set.spec.template:
            return there
        status = msgspec.structs.replace(
            stateful_set.status, collision_count=(stateful_set.status.collision_count or 0) + 1
        )
        await self._write(stateful_set, status)
        raise ApiError(409, "Conflict", f"controllerrevisions.apps {name!r} belongs to another template")

    async def _carry_out(self, stateful_set: StatefulSet, revisions: Revisions, planned: OrdinalPlan) -> None:
        for pod in planned.lacking:
            ordinal = ordinal_of(pod, stateful_set)
            if ordinal is not None and pod.metadata.deletion_timestamp is None:
                await self._make_claims(stateful_set, ordinal, pod)
        for pod in planned.owning:
            await self._keep_claims(stateful_set, pod)
        for ordinal, updated in planned.make:
            await self._make(stateful_set, revisions[1] if updated else revisions[0], ordinal)
        for pod in planned.delete:
            await self._delete(stateful_set, pod)

    async def _make(self, stateful_set: StatefulSet, revision: ControllerRevision, ordinal: int) -> None:
        body = stateful_pod(stateful_set, revision, ordinal)
        name, owner = f"{stateful_set.metadata.name}-{ordinal}", stateful_set.metadata.name
        try:
            await self._make_claims(stateful_set, ordinal, Pod(metadata=ObjectMeta(name=name)))
            pod = await self._api.create(POD, body, namespace=stateful_set.metadata.namespace)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                raise  # the copy lags behind
            message = f"Create Pod {name} in StatefulSet {owner} failed error: {message_of(error)}"
            await self._events.emit(stateful_set, "Warning", "FailedCreate", message)
            raise
        self._expected.created(key_of(stateful_set), pod, self._pods)
        message = f"Create Pod {name} in StatefulSet {owner} successful"
        await self._events.emit(stateful_set, "Normal", "SuccessfulCreate", message)

    async def _make_claims(self, stateful_set: StatefulSet, ordinal: int, pod: Pod) -> None:
        """Have all claims of a pod, with owners; raises ApiError with what is wrong with any of them."""
        wrong = [
            await self._make_claim(stateful_set, ordinal, body)
            for body in claim_bodies(stateful_set, ordinal)
        ]
        if texts := [text for text in wrong if text]:
            whole = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise ApiError(500, "InternalError", whole)
        await self._keep_claims(stateful_set, pod)

    async def _make_claim(self, stateful_set: StatefulSet, ordinal: int, body: JsonObject) -> str:
        """Make a claim unless it is there; what is wrong with it, empty if nothing is."""
        name = text(body, "metadata", "name")
        there = await or_none(self._api.get(VOLUME_CLAIM, name, stateful_set.metadata.namespace))
        if there is not None:
            return f"pvc {name} is being deleted" if there.metadata.deletion_timestamp else ""
        pod, owner = f"{stateful_set.metadata.name}-{ordinal}", stateful_set.metadata.name
        try:
            await self._api.create(VOLUME_CLAIM, body, namespace=stateful_set.metadata.namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return ""
            why = f"Create Claim {name} for Pod {pod} in StatefulSet {owner} failed error: {error.message}"
            await self._events.emit(stateful_set, "Warning", "FailedCreate", why)
            return f"failed to create PVC {name}: {error.message}"
        message = f"Create Claim {name} Pod {pod} in StatefulSet {owner} success"
        await self._events.emit(stateful_set, "Normal", "SuccessfulCreate", message)
        return ""

    async def _keep_claims(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Give claims the owners that the retention policy says."""
        ordinal = ordinal_of(pod, stateful_set)
        if ordinal is None or not stateful_set.spec.volume_claim_templates:
            return
        claim_owner_reference = claim_owner(stateful_set, pod, ordinal)
        ours = {stateful_set.metadata.uid, pod.metadata.uid}
        for body in claim_bodies(stateful_set, ordinal):
            name = text(body, "metadata", "name")
            claim = await or_none(self._api.get(VOLUME_CLAIM, name, stateful_set.metadata.namespace))
            if claim is None:
                continue
            have = [owner_as_json(reference) for reference in claim.metadata.owner_references]
            rest = [reference for reference in have if reference["uid"] not in ours]
            if any(reference.get("controller") for reference in rest):
                continue  # somebody else's
            owners = [*rest, *([claim_owner_reference] if claim_owner_reference else [])]
            if owners != have:
                patch: JsonObject = {"metadata": {"ownerReferences": list(owners) or None}}
                await self._api.patch(VOLUME_CLAIM, name, patch, namespace=stateful_set.metadata.namespace)

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        name, owner = pod.metadata.name, stateful_set.metadata.name
        self._expected.deleting(key_of(stateful_set), pod)
        try:
            await self._api.delete(POD, name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        except ClusterError as error:
            self._expected.deletion_failed(pod)
            if isinstance(error, ApiError) and error.code in (404, 409):
                return
            message = f"Delete Pod {name} in StatefulSet {owner} failed error: {message_of(error)}"
            await self._events.emit(stateful_set, "Warning", "FailedDelete", message)
            raise
        message = f"Delete Pod {name} in StatefulSet {owner} successful"
        await self._events.emit(stateful_set, "Normal", "SuccessfulDelete", message)

    async def _write(self, stateful_set: StatefulSet, status: StatefulSetStatus) -> None:
        if status == stateful_set.status:
            return
        await or_none(replace_status(self._api, STATEFUL_SET, stateful_set, msgspec.to_builtins(status)))


def _called_after(pod: Pod, stateful_set: StatefulSet) -> bool:
    """Whether the pod can be the set's: another's name is nobody's number."""
    owner = controller_of(pod)
    owned = owner is not None and owner.uid == stateful_set.metadata.uid
    return owned or ordinal_of(pod, stateful_set) is not None
