"""endpointslice.Controller: the EndpointSlices of the pods behind each service.

Source: pkg/controller/endpointslice, k8s.io/endpointslice (v1.35).
"""

from __future__ import annotations

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import controller_reference
from tonnage.loop.pod_control import namespace_ends
from tonnage.loop.refusals import or_none
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import SLICE_MANAGER, SLICE_SERVICE, ZONE
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.services import slice_plan
from tonnage.twin.controllers.services.ports import has_endpoints, stands_behind
from tonnage.twin.controllers.trigger_times import TRIGGER_TIME, TriggerTimes
from tonnage.wire.endpoints import EndpointSlice
from tonnage.wire.kinds import ENDPOINT_SLICE, NODE, POD, SERVICE
from tonnage.wire.objects import Pod, Service


class EndpointSlicesController:
    """Follows services and pods, and puts right what others do to its slices."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = recorder_over(api, clock, "endpoint-slice-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._services = informers.of(SERVICE, self._queue.add)
        self._services.add_index("namespace", lambda service: [service.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._slices = informers.of(ENDPOINT_SLICE)
        self._slices.subscribe(self._slice_changed)
        self._times = TriggerTimes()

    async def run(self) -> None:
        """Keep endpoints until cancelled."""
        async with following(self._services, self._pods, self._slices) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.before is not None and delta.after is not None and _counts_alike(delta.before, delta.after):
            return
        for pod in (delta.before, delta.after):
            if pod is None:
                continue
            for service in self._services.by_index("namespace", pod.metadata.namespace):
                if stands_behind(service, pod.metadata.labels):
                    self._queue.add(key_of(service))

    def _slice_changed(self, delta: Delta[EndpointSlice]) -> None:
        for endpoint_slice in (delta.before, delta.after):
            if (
                endpoint_slice is not None
                and endpoint_slice.metadata.labels.get(SLICE_MANAGER) == slice_plan.MANAGER
            ):
                name = endpoint_slice.metadata.labels.get(SLICE_SERVICE, "")
                self._queue.add((endpoint_slice.metadata.namespace, name))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        service = self._services.get(name, namespace)
        if service is None:
            # Its slices go with their owner.
            self._times.forget(key)
            return
        if not has_endpoints(service):
            return
        pods = [
            pod
            for pod in self._pods.by_index("namespace", namespace)
            if stands_behind(service, pod.metadata.labels)
        ]
        since = self._times.since(service, pods)
        await self._keep_slices(service, pods, since)

    async def _keep_slices(self, service: Service, pods: list[Pod], since: str) -> None:
        namespace, name = key_of(service)
        selector = f"{SLICE_SERVICE}={name},{SLICE_MANAGER}={slice_plan.MANAGER}"
        listed = await self._api.list(ENDPOINT_SLICE, namespace=namespace, label_selector=selector)
        existing = [
            endpoint_slice
            for endpoint_slice in listed.items
            if endpoint_slice.metadata.deletion_timestamp is None
        ]
        zones = {node: await self._zone(node) for node in {pod.spec.node_name for pod in pods}}
        planned = slice_plan.plan(service, pods, zones.get, existing)
        try:
            await self._write_slices(service, planned, existing, since)
        except ClusterError as error:
            if namespace_ends(error):
                return
            raise
        if planned.astray:
            astray = ", ".join(planned.astray)
            why = f"[{astray}]" if len(planned.astray) > 1 else astray
            message = f"Error updating Endpoint Slices for Service {namespace}/{name}: {why}"
            await self._events.emit(service, "Warning", "FailedToUpdateEndpointSlices", message)
            raise ClusterError(Problem(message))  # so that it is tried again, later each time

    async def _write_slices(
        self, service: Service, planned: slice_plan.SlicePlan, existing: list[EndpointSlice], since: str
    ) -> None:
        namespace, old = (
            service.metadata.namespace,
            {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in existing},
        )
        if service.metadata.deletion_timestamp is None:
            for endpoint_slice in planned.create:
                body = _slice_body(service, endpoint_slice, None, since)
                await self._api.create(ENDPOINT_SLICE, body, namespace=namespace)
        for endpoint_slice in planned.update:
            body = _slice_body(service, endpoint_slice, old[endpoint_slice.name], since)
            await self._api.replace(ENDPOINT_SLICE, body, namespace=namespace)
        for gone in planned.delete:
            meta = gone.metadata
            await self._api.delete(ENDPOINT_SLICE, meta.name, namespace=namespace, uid=meta.uid)

    async def _zone(self, node: str) -> str | None:
        if not node:
            return None
        node_object = await or_none(self._api.get(NODE, node))
        return None if node_object is None else node_object.metadata.labels.get(ZONE, "")


def _counts_alike(before: Pod, after: Pod) -> bool:
    """Whether a pod's change means nothing to services."""

    def what_counts(pod: Pod) -> tuple[object, ...]:
        return (
            pod.metadata.labels,
            pod.metadata.deletion_timestamp,
            pod.spec.hostname,
            pod.spec.subdomain,
            pod.spec.node_name,
            pod.status.pod_ip,
            pod.status.phase in ("Succeeded", "Failed"),
            pod_state.is_ready(pod),
        )

    return what_counts(before) == what_counts(after)


def _with_trigger_time(annotations: dict[str, str], since: str) -> dict[str, str]:
    """Annotations with the time of the change, or without."""
    others = {key: value for key, value in annotations.items() if key != TRIGGER_TIME}
    return {**others, TRIGGER_TIME: since} if since else others


def _slice_body(
    service: Service, planned: slice_plan.Slice, old: EndpointSlice | None, since: str
) -> JsonObject:
    annotations = _with_trigger_time(dict(old.metadata.annotations) if old is not None else {}, since)
    metadata: JsonObject = {
        "generateName": f"{service.metadata.name}-",
        "namespace": service.metadata.namespace,
        "labels": {**planned.labels},
        "annotations": {**annotations},
        "ownerReferences": [controller_reference(service, SERVICE)],
    }
    if old is not None:
        metadata["name"], metadata["resourceVersion"] = planned.name, old.metadata.resource_version
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": list(planned.endpoints) or None,
        "ports": list(planned.ports) or None,
    }
