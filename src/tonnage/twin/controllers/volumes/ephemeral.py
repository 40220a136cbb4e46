"""ephemeral.Controller: claims for the ephemeral volumes of pods, which go with them.

Source: pkg/controller/volume/ephemeral of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Informers, Key, following, key_of
from tonnage.loop.ownership import controller_of, controller_reference
from tonnage.loop.pod_control import message_of
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.claims import PersistentVolumeClaim
from tonnage.wire.kinds import POD, VOLUME_CLAIM
from tonnage.wire.objects import Pod


class EphemeralVolumeController:
    """Makes the claim of every ephemeral volume, also again when somebody deletes it."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = recorder_over(api, clock, "ephemeral_volume")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pods = informers.of(POD)
        self._pods.subscribe(lambda delta: self._look_at(delta.after) if delta.before is None else None)
        self._claims = informers.of(VOLUME_CLAIM)
        self._claims.subscribe(lambda delta: self._gone(delta.before) if delta.after is None else None)

    async def run(self) -> None:
        """Make claims until cancelled."""
        async with following(self._pods, self._claims) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _look_at(self, pod: Pod | None) -> None:
        if pod is not None and pod.metadata.deletion_timestamp is None and any(_ephemeral(pod)):
            self._queue.add(key_of(pod))

    def _gone(self, claim: PersistentVolumeClaim | None) -> None:
        owner = controller_of(claim) if claim is not None else None
        if claim is not None and owner is not None and owner.kind == POD.kind:
            self._look_at(self._pods.get(owner.name, claim.metadata.namespace))

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        for name, template in _ephemeral(pod):
            try:
                await self._have(pod, f"{pod.metadata.name}-{name}", template)
            except ClusterError as error:
                message = f"ephemeral volume {name}: {message_of(error)}"
                await self._events.emit(pod, "Warning", "FailedBinding", message)
                raise

    async def _have(self, pod: Pod, name: str, template: JsonObject) -> None:
        namespace = pod.metadata.namespace
        claim = self._claims.get(name, namespace)
        if claim is not None:
            owner = controller_of(claim)
            if owner is None or owner.uid != pod.metadata.uid:
                whose = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name}"
                raise ApiError(409, "Conflict", f"{whose} (pod is not owner)")
            return
        metadata = template.get("metadata")
        head = metadata if isinstance(metadata, dict) else {}
        fields = {key: head[key] for key in ("labels", "annotations") if head.get(key)}
        body: JsonObject = {
            "metadata": {**fields, "name": name, "ownerReferences": [controller_reference(pod, POD)]},
            "spec": template.get("spec") or {},
        }
        try:
            await self._api.create(VOLUME_CLAIM, body, namespace=namespace)
        except ApiError as error:
            raise ApiError(error.code, error.reason, f"create PVC {name}: {error.message}") from error


def _ephemeral(pod: Pod) -> list[tuple[str, JsonObject]]:
    """The names of a pod's ephemeral volumes with the templates of their claims."""
    templates: list[tuple[str, JsonObject]] = []
    for volume in pod.spec.volumes:
        source = volume.get("ephemeral")
        template = source.get("volumeClaimTemplate") if isinstance(source, dict) else None
        if isinstance(template, dict):
            templates.append((str(volume.get("name", "")), template))
    return templates
