"""The StatefulSet controller: pods with names that stay, one after the other, and their claims.

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
from tonnage.twin.controllers.pod_state import available_in_s
from tonnage.twin.controllers.selection import owner_selects
from tonnage.twin.controllers.stateful.plan import Plan, complete, plan, status_of
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
        found = self._sets.get(key[1], key[0])
        if found is None or not self._expected.satisfied(key):
            return None if found is None else 30.0
        candidates = [pod for pod in self._pods.by_index("namespace", key[0]) if _called_after(pod, found)]
        pods = await self._own_pods.settle(found, candidates)
        kept = await self._own_revisions.settle(found, self._revisions.by_index("namespace", key[0]))
        kept.sort(key=lambda one: (one.revision, one.metadata.creation_timestamp or "", one.metadata.name))
        current, update = await self._revise(found, kept)
        now = self._clock.now()
        names = current.metadata.name, update.metadata.name
        status = status_of(found, pods, *names, now)
        failure: ClusterError | None = None
        if found.metadata.deletion_timestamp is None:
            try:
                planned = plan(found, pods, *names, now)
                status.current_replicas -= planned.updates
                await self._carry_out(found, (current, update), planned)
            except ClusterError as error:
                failure = error
        complete(found, status)
        await self._write(found, status)
        live = {*names, *map(revision_of, pods)}
        for old in surplus(kept, live, found.spec.revision_history_limit):
            await self._api.delete(CONTROLLER_REVISION, old.metadata.name, namespace=key[0])
        if failure is not None:
            raise failure
        waits = (available_in_s(pod, found.spec.min_ready_seconds, now) for pod in pods)
        return min((wait for wait in waits if wait), default=None)

    async def _revise(self, found: StatefulSet, kept: list[ControllerRevision]) -> Revisions:
        """The revision before, and that of the present template, made or brought to the front if need be."""
        equal = equal_revisions(found, kept)
        number = kept[-1].revision + 1 if kept else 1
        if equal and equal[-1] is kept[-1]:
            update = kept[-1]
        elif equal:
            name, namespace = equal[-1].metadata.name, found.metadata.namespace
            patch: JsonObject = {"revision": number}
            update = await self._api.patch(CONTROLLER_REVISION, name, patch, namespace=namespace)
        else:
            update = await self._make_revision(found, number)
        named = (one for one in kept if one.metadata.name == found.status.current_revision)
        return next(named, update), update

    async def _make_revision(self, found: StatefulSet, number: int) -> ControllerRevision:
        body = revision_body(found, number, found.status.collision_count or 0)
        namespace = found.metadata.namespace
        try:
            return await self._api.create(CONTROLLER_REVISION, body, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        name = text(body, "metadata", "name")
        there = await self._api.get(CONTROLLER_REVISION, name, namespace)
        if template_in(there) == found.spec.template:
            return there
        status = msgspec.structs.replace(
            found.status, collision_count=(found.status.collision_count or 0) + 1
        )
        await self._write(found, status)
        raise ApiError(409, "Conflict", f"controllerrevisions.apps {name!r} belongs to another template")

    async def _carry_out(self, found: StatefulSet, revisions: Revisions, planned: Plan) -> None:
        for pod in planned.lacking:
            ordinal = ordinal_of(pod, found)
            if ordinal is not None and pod.metadata.deletion_timestamp is None:
                await self._make_claims(found, ordinal, pod)
        for pod in planned.owning:
            await self._keep_claims(found, pod)
        for ordinal, updated in planned.make:
            await self._make(found, revisions[1] if updated else revisions[0], ordinal)
        for pod in planned.delete:
            await self._delete(found, pod)

    async def _make(self, found: StatefulSet, revision: ControllerRevision, ordinal: int) -> None:
        body = stateful_pod(found, revision, ordinal)
        name, owner = f"{found.metadata.name}-{ordinal}", found.metadata.name
        try:
            await self._make_claims(found, ordinal, Pod(metadata=ObjectMeta(name=name)))
            pod = await self._api.create(POD, body, namespace=found.metadata.namespace)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                raise  # the copy lags behind
            told = f"Create Pod {name} in StatefulSet {owner} failed error: {message_of(error)}"
            await self._events.emit(found, "Warning", "FailedCreate", told)
            raise
        self._expected.created(key_of(found), pod, self._pods)
        told = f"Create Pod {name} in StatefulSet {owner} successful"
        await self._events.emit(found, "Normal", "SuccessfulCreate", told)

    async def _make_claims(self, found: StatefulSet, ordinal: int, pod: Pod) -> None:
        """Have all claims of a pod, with owners; raises ApiError with what is wrong with any of them."""
        wrong = [await self._make_claim(found, ordinal, body) for body in claim_bodies(found, ordinal)]
        if texts := [text for text in wrong if text]:
            whole = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise ApiError(500, "InternalError", whole)
        await self._keep_claims(found, pod)

    async def _make_claim(self, found: StatefulSet, ordinal: int, body: JsonObject) -> str:
        """Make a claim unless it is there; what is wrong with it, empty if nothing is."""
        name = text(body, "metadata", "name")
        there = await or_none(self._api.get(VOLUME_CLAIM, name, found.metadata.namespace))
        if there is not None:
            return f"pvc {name} is being deleted" if there.metadata.deletion_timestamp else ""
        pod, owner = f"{found.metadata.name}-{ordinal}", found.metadata.name
        try:
            await self._api.create(VOLUME_CLAIM, body, namespace=found.metadata.namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return ""
            why = f"Create Claim {name} for Pod {pod} in StatefulSet {owner} failed error: {error.message}"
            await self._events.emit(found, "Warning", "FailedCreate", why)
            return f"failed to create PVC {name}: {error.message}"
        told = f"Create Claim {name} Pod {pod} in StatefulSet {owner} success"
        await self._events.emit(found, "Normal", "SuccessfulCreate", told)
        return ""

    async def _keep_claims(self, found: StatefulSet, pod: Pod) -> None:
        """Give claims the owners that the retention policy says."""
        ordinal = ordinal_of(pod, found)
        if ordinal is None or not found.spec.volume_claim_templates:
            return
        wanted = claim_owner(found, pod, ordinal)
        ours = {found.metadata.uid, pod.metadata.uid}
        for body in claim_bodies(found, ordinal):
            name = text(body, "metadata", "name")
            claim = await or_none(self._api.get(VOLUME_CLAIM, name, found.metadata.namespace))
            if claim is None:
                continue
            have = [owner_as_json(one) for one in claim.metadata.owner_references]
            rest = [one for one in have if one["uid"] not in ours]
            if any(one.get("controller") for one in rest):
                continue  # somebody else's
            owners = [*rest, *([wanted] if wanted else [])]
            if owners != have:
                patch: JsonObject = {"metadata": {"ownerReferences": list(owners) or None}}
                await self._api.patch(VOLUME_CLAIM, name, patch, namespace=found.metadata.namespace)

    async def _delete(self, found: StatefulSet, pod: Pod) -> None:
        name, owner = pod.metadata.name, found.metadata.name
        self._expected.deleting(key_of(found), pod)
        try:
            await self._api.delete(POD, name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        except ClusterError as error:
            self._expected.kept(pod)
            if isinstance(error, ApiError) and error.code in (404, 409):
                return
            told = f"Delete Pod {name} in StatefulSet {owner} failed error: {message_of(error)}"
            await self._events.emit(found, "Warning", "FailedDelete", told)
            raise
        told = f"Delete Pod {name} in StatefulSet {owner} successful"
        await self._events.emit(found, "Normal", "SuccessfulDelete", told)

    async def _write(self, found: StatefulSet, status: StatefulSetStatus) -> None:
        if status == found.status:
            return
        await or_none(replace_status(self._api, STATEFUL_SET, found, msgspec.to_builtins(status)))


def _called_after(pod: Pod, found: StatefulSet) -> bool:
    """Whether the pod can be the set's: another's name is nobody's number."""
    owner = controller_of(pod)
    mine = owner is not None and owner.uid == found.metadata.uid
    return mine or ordinal_of(pod, found) is not None
