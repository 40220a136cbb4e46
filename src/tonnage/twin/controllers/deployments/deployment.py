"""DeploymentController: a ReplicaSet per template, rolled over within the limits asked for."""

from __future__ import annotations

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import Ownership, controller_of
from tonnage.loop.pod_control import namespace_ends
from tonnage.loop.refusals import passing_over
from tonnage.loop.status_writes import merge_status, patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.deployments import plan
from tonnage.twin.controllers.deployments.plan import CreateSet, DeleteSet, ScaleSet
from tonnage.twin.controllers.deployments.replica_sets import (
    REVISION,
    Sets,
    new_set_body,
    new_set_patch,
    next_revision,
    revision_of,
    scale_annotations,
    sets_of,
)
from tonnage.twin.controllers.deployments.status import deployment_status
from tonnage.twin.controllers.label_selection import owner_selects, selects
from tonnage.twin.controllers.replicas.status import status_patch
from tonnage.wire.kinds import DEPLOYMENT, POD, REPLICA_SET
from tonnage.wire.objects import Deployment, Pod, ReplicaSet


class DeploymentController:
    """Rolls Deployments out: new ReplicaSets, their sizes, revisions, history, status."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "deployment-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._deployments = informers.of(DEPLOYMENT, self._queue.add)
        self._sets = informers.of(REPLICA_SET)
        self._sets.add_index("namespace", lambda replica_set: [replica_set.metadata.namespace])
        self._sets.subscribe(self._set_changed)
        self._pods = informers.of(POD)
        self._pods.add_index("controller", _controller_uids)
        self._pods.subscribe(self._pod_changed)
        self._ownership = Ownership(api, DEPLOYMENT, REPLICA_SET, owner_selects)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._deployments, self._sets, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile, workers=4))

    def _set_changed(self, delta: Delta[ReplicaSet]) -> None:
        for replica_set in (delta.before, delta.after):
            if replica_set is not None:
                self._add_owner_of(replica_set)

    def _add_owner_of(self, replica_set: ReplicaSet) -> None:
        namespace = replica_set.metadata.namespace
        controller = controller_of(replica_set)
        if controller is not None:
            if controller.kind == DEPLOYMENT.kind:
                self._queue.add((namespace, controller.name))
            return
        for deployment in self._deployments:
            same = deployment.metadata.namespace == namespace
            if same and selects(deployment.spec.selector, replica_set.metadata.labels):
                self._queue.add(key_of(deployment))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        """The last pod of an old set that goes lets a Recreate rollout go on."""
        if delta.before is None or (controller := controller_of(delta.before)) is None:
            return
        ended = delta.after is None or delta.after.status.phase in ("Succeeded", "Failed")
        if ended and controller.kind == REPLICA_SET.kind:
            owner = self._sets.get(controller.name, delta.before.metadata.namespace)
            if owner is not None:
                self._add_owner_of(owner)

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        deployment = self._deployments.get(name, namespace)
        if deployment is None or not _has_selector(deployment):
            return None
        owned = await self._ownership.settle(deployment, self._sets.by_index("namespace", namespace))
        sets = sets_of(deployment, owned)
        if deployment.metadata.deletion_timestamp is None:
            sets = await self._follow_template(deployment, sets)
        created = ""
        for action in plan.plan(deployment, sets, old_pods_remain=self._old_pods_remain(sets)):
            match action:
                case CreateSet(replicas):
                    created = await self._create(deployment, sets, replicas)
                case ScaleSet(target, replicas):
                    await self._scale(deployment, target, replicas)
                case DeleteSet(target):
                    await self._delete(target)
        return await self._update_status(deployment, sets, created)

    def _old_pods_remain(self, sets: Sets) -> bool:
        return any(
            pod.status.phase not in ("Succeeded", "Failed")
            for old in sets.old
            for pod in self._pods.by_index("controller", old.metadata.uid)
        )

    async def _follow_template(self, deployment: Deployment, sets: Sets) -> Sets:
        """Bring annotations and revision of the new set, and the Deployment's own revision, up to date."""
        patch = new_set_patch(deployment, sets)
        if sets.new is not None and patch is not None:
            sets = Sets(await patch_as_seen(self._api, REPLICA_SET, sets.new, patch), sets.old)
        if sets.new is not None:
            await self._note_revision(deployment, revision_of(sets.new))
        return sets

    async def _note_revision(self, deployment: Deployment, revision: int) -> None:
        if revision_of(deployment) != revision:
            patch: JsonObject = {"metadata": {"annotations": {REVISION: str(revision)}}}
            await self._api.patch(
                DEPLOYMENT,
                deployment.metadata.name,
                patch,
                namespace=deployment.metadata.namespace,
                subresource="status",
            )

    async def _create(self, deployment: Deployment, sets: Sets, replicas: int) -> str:
        """Make the new set and return its name, empty when it was there already."""
        revision = next_revision(sets)
        body = new_set_body(deployment, replicas, revision)
        try:
            made = await self._api.create(REPLICA_SET, body, namespace=deployment.metadata.namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                await self._resolve_collision(deployment, body)
                return ""
            if not namespace_ends(error):
                name = text(body, "metadata", "name")
                message = f'Failed to create new replica set "{name}": {error.message}'
                await self._events.emit(deployment, "Warning", "ReplicaSetCreateError", message)
            raise
        if replicas > 0:
            message = f"Scaled up replica set {made.metadata.name} from 0 to {replicas}"
            await self._events.emit(deployment, "Normal", "ScalingReplicaSet", message)
        await self._note_revision(deployment, revision)
        return made.metadata.name

    async def _resolve_collision(self, deployment: Deployment, body: JsonObject) -> None:
        """Somebody has the name. If it is our own set, our copy lags; else the next hash counts one more."""
        there = await self._api.get(
            REPLICA_SET, text(body, "metadata", "name"), deployment.metadata.namespace
        )
        controller = controller_of(there)
        own = controller is not None and controller.uid == deployment.metadata.uid
        if own and sets_of(deployment, [there]).new is not None:
            return
        count = (deployment.status.collision_count or 0) + 1
        await merge_status(self._api, DEPLOYMENT, deployment, {"collisionCount": count})

    async def _scale(self, deployment: Deployment, target: ReplicaSet, replicas: int) -> None:
        annotations: JsonObject = {**scale_annotations(deployment)}
        patch: JsonObject = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        await patch_as_seen(self._api, REPLICA_SET, target, patch)
        before = target.spec.replicas
        if before != replicas:
            way = "up" if before < replicas else "down"
            message = f"Scaled {way} replica set {target.metadata.name} from {before} to {replicas}"
            await self._events.emit(deployment, "Normal", "ScalingReplicaSet", message)

    async def _delete(self, target: ReplicaSet) -> None:
        with passing_over(404, 409):
            await self._api.delete(
                REPLICA_SET,
                target.metadata.name,
                namespace=target.metadata.namespace,
                uid=target.metadata.uid,
            )

    async def _update_status(self, deployment: Deployment, sets: Sets, created: str) -> float | None:
        planned = deployment_status(deployment, sets, self._clock.now(), created=created)
        patch = status_patch(deployment.status, planned.status)
        if patch is not None:
            await merge_status(self._api, DEPLOYMENT, deployment, patch)
        return planned.again_s


def _has_selector(deployment: Deployment) -> bool:
    selector = deployment.spec.selector
    return bool(selector.match_labels or selector.match_expressions)


def _controller_uids(pod: Pod) -> list[str]:
    controller = controller_of(pod)
    return [controller.uid] if controller is not None else []
