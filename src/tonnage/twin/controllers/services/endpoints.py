"""The controllers that tell where services lead: Endpoints and EndpointSlices of the pods behind each.

Source: pkg/controller/endpoint, pkg/controller/endpointslice, k8s.io/endpointslice (v1.35).
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.loop.events import EventRecorder
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.pod_control import message_of, namespace_ends
from tonnage.loop.refusals import or_none, passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.well_known import SLICE_MANAGER, SLICE_SERVICE, ZONE
from tonnage.ports import Clock, KubernetesApi
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.ownership import controller_reference
from tonnage.twin.controllers.services import slice_plan
from tonnage.twin.controllers.services.ports import HEADLESS, has_endpoints, is_headless, stands_behind
from tonnage.twin.controllers.services.subsets import LEADER, subsets_of, truncated
from tonnage.twin.controllers.trigger_times import TRIGGER_TIME, TriggerTimes
from tonnage.wire.endpoints import Endpoints, EndpointSlice
from tonnage.wire.kinds import ENDPOINT_SLICE, ENDPOINTS, NODE, POD, SERVICE
from tonnage.wire.objects import Object, Pod, Service

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"


class EndpointsController:
    """Follows services and pods, and puts right what others do to its objects."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = EventRecorder(api, clock, "endpoint-controller")
        self._slice_events = EventRecorder(api, clock, "endpoint-slice-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._services = informers.of(SERVICE, self._queue.add)
        self._services.add_index("namespace", lambda service: [service.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._endpoints = informers.of(ENDPOINTS)
        self._endpoints.subscribe(self._endpoints_changed)
        self._slices = informers.of(ENDPOINT_SLICE)
        self._slices.subscribe(self._slice_changed)
        self._times = TriggerTimes()

    async def run(self) -> None:
        """Keep endpoints until cancelled."""
        async with following(self._services, self._pods, self._endpoints, self._slices) as group:
            # What was there before this controller may belong to nobody.
            for found in self._endpoints:
                self._queue.add(key_of(found))
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

    def _endpoints_changed(self, delta: Delta[Endpoints]) -> None:
        """Of a deletion the service hears; what somebody else makes is left to him."""
        if delta.before is not None and delta.after is None:
            self._queue.add(key_of(delta.before))

    def _slice_changed(self, delta: Delta[EndpointSlice]) -> None:
        for one in (delta.before, delta.after):
            if one is not None and one.metadata.labels.get(SLICE_MANAGER) == slice_plan.MANAGER:
                name = one.metadata.labels.get(SLICE_SERVICE, "")
                self._queue.add((one.metadata.namespace, name))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        service = self._services.get(name, namespace)
        if service is None:
            self._times.forget(key)
            await self._forget(key)
            return
        if not has_endpoints(service):
            return
        pods = [
            pod
            for pod in self._pods.by_index("namespace", namespace)
            if stands_behind(service, pod.metadata.labels)
        ]
        since = self._times.since(service, pods)
        await self._keep_endpoints(service, pods, since)
        await self._keep_slices(service, pods, since)

    async def _forget(self, key: Key) -> None:
        """Delete the Endpoints of a service that is gone. Slices go with their owner."""
        found = self._endpoints.get(key[1], key[0])
        if found is None or LEADER in found.metadata.annotations:
            return
        with passing_over(404, 409):
            await self._api.delete(ENDPOINTS, key[1], namespace=key[0], uid=found.metadata.uid)

    async def _keep_endpoints(self, service: Service, pods: list[Pod], since: str) -> None:
        namespace, name = key_of(service)
        current = await or_none(self._api.get(ENDPOINTS, name, namespace))
        subsets, over = truncated(subsets_of(service, pods))
        if current is not None and _correct(current, service, subsets, over):
            return
        body = _endpoints_body(service, current, since, over)
        body["subsets"] = list(subsets)
        try:
            if current is None:
                await self._api.create(ENDPOINTS, body, namespace=namespace)
            else:
                await self._api.replace(ENDPOINTS, body, namespace=namespace)
        except ClusterError as error:
            await self._complain(service, error, made=current is None)

    async def _complain(self, service: Service, error: ClusterError, *, made: bool) -> None:
        """Tell why an object could not be written, unless its namespace ends."""
        why = message_of(error)
        if made and namespace_ends(error):
            return
        namespace, name = key_of(service)
        target = Object(api_version="v1", kind="Endpoints")
        target.metadata.namespace, target.metadata.name = namespace, name
        reason = "FailedToCreateEndpoint" if made else "FailedToUpdateEndpoint"
        what = (
            f"create endpoint for service {namespace}/{name}"
            if made
            else f"update endpoint {namespace}/{name}"
        )
        await self._events.emit(target, "Warning", reason, f"Failed to {what}: {why}")
        raise error

    async def _keep_slices(self, service: Service, pods: list[Pod], since: str) -> None:
        namespace, name = key_of(service)
        mine = f"{SLICE_SERVICE}={name},{SLICE_MANAGER}={slice_plan.MANAGER}"
        listed = await self._api.list(ENDPOINT_SLICE, namespace=namespace, label_selector=mine)
        existing = [one for one in listed.items if one.metadata.deletion_timestamp is None]
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
            told = f"Error updating Endpoint Slices for Service {namespace}/{name}: {why}"
            await self._slice_events.emit(service, "Warning", "FailedToUpdateEndpointSlices", told)
            raise ClusterError(Problem(told))  # so that it is tried again, later each time

    async def _write_slices(
        self, service: Service, planned: slice_plan.Plan, existing: list[EndpointSlice], since: str
    ) -> None:
        namespace, old = service.metadata.namespace, {one.metadata.name: one for one in existing}
        if service.metadata.deletion_timestamp is None:
            for one in planned.create:
                body = _slice_body(service, one, None, since)
                await self._api.create(ENDPOINT_SLICE, body, namespace=namespace)
        for one in planned.update:
            body = _slice_body(service, one, old[one.name], since)
            await self._api.replace(ENDPOINT_SLICE, body, namespace=namespace)
        for gone in planned.delete:
            meta = gone.metadata
            await self._api.delete(ENDPOINT_SLICE, meta.name, namespace=namespace, uid=meta.uid)

    async def _zone(self, node: str) -> str | None:
        if not node:
            return None
        found = await or_none(self._api.get(NODE, node))
        return None if found is None else found.metadata.labels.get(ZONE, "")


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


def _correct(current: Endpoints, service: Service, subsets: list[dict[str, Any]], over: bool) -> bool:
    """Whether Endpoints say already what they should."""
    labels = dict(current.metadata.labels)
    labels.pop(HEADLESS, None)
    return (
        not over
        and _OVER_CAPACITY not in current.metadata.annotations
        and (current.subsets or []) == subsets
        and labels.pop(_MANAGED_BY, "") == "endpoint-controller"
        and labels == service.metadata.labels
    )


def _endpoints_body(service: Service, current: Endpoints | None, since: str, over: bool) -> JsonObject:
    labels = {key: value for key, value in service.metadata.labels.items() if key != HEADLESS}
    if is_headless(service):
        labels[HEADLESS] = ""
    annotations = dict(current.metadata.annotations) if current is not None else {}
    annotations.pop(_OVER_CAPACITY, None)
    if over:
        annotations[_OVER_CAPACITY] = "truncated"
    metadata: JsonObject = {
        "name": service.metadata.name,
        "namespace": service.metadata.namespace,
        "labels": {**labels, _MANAGED_BY: "endpoint-controller"},
        "annotations": {**_told(annotations, since)},
    }
    if current is not None:
        metadata["resourceVersion"] = current.metadata.resource_version
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}


def _told(annotations: dict[str, str], since: str) -> dict[str, str]:
    """Annotations with the time of the change, or without."""
    kept = {key: value for key, value in annotations.items() if key != TRIGGER_TIME}
    return {**kept, TRIGGER_TIME: since} if since else kept


def _slice_body(
    service: Service, wanted: slice_plan.Slice, old: EndpointSlice | None, since: str
) -> JsonObject:
    annotations = _told(dict(old.metadata.annotations) if old is not None else {}, since)
    metadata: JsonObject = {
        "generateName": f"{service.metadata.name}-",
        "namespace": service.metadata.namespace,
        "labels": {**wanted.labels},
        "annotations": {**annotations},
        "ownerReferences": [controller_reference(service, SERVICE)],
    }
    if old is not None:
        metadata["name"], metadata["resourceVersion"] = wanted.name, old.metadata.resource_version
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": list(wanted.endpoints) or None,
        "ports": list(wanted.ports) or None,
    }
