"""Mirrors Endpoints that somebody made by hand, for a service without a selector, in EndpointSlices.

Source: pkg/controller/endpointslicemirroring (v1.35).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Final

import msgspec

from tonnage.adapters.events import EventRecorder
from tonnage.adapters.informer import Delta, Informers, Key, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.errors import ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.well_known import SLICE_MANAGER, SLICE_SERVICE
from tonnage.twin.controllers.endpoint_subsets import LEADER, MOST_ADDRESSES, Subset, repacked
from tonnage.twin.controllers.ownership import controller_reference
from tonnage.twin.controllers.pod_control import namespace_ends
from tonnage.twin.controllers.refusals import passing_over
from tonnage.twin.controllers.service_ports import in_order
from tonnage.twin.controllers.trigger_times import TRIGGER_TIME
from tonnage.wire.endpoints import Endpoints, EndpointSlice
from tonnage.wire.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE

MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_NOT_COPIED: Final = (TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")
_Key = tuple[str, bytes]
"""Type of the addresses, and the ports."""


class SliceMirroringController:
    """One slice per subset and type of addresses, for as long as the service has no selector."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._events = EventRecorder(api, clock, "endpoint-slice-mirroring-controller")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._endpoints = informers.of(ENDPOINTS, self._queue.add)
        self._services = informers.of(SERVICE, self._queue.add)
        self._slices = informers.of(ENDPOINT_SLICE)
        self._slices.subscribe(self._slice_changed)

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with following(self._endpoints, self._services, self._slices) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _slice_changed(self, delta: Delta[EndpointSlice]) -> None:
        for one in (delta.before, delta.after):
            if one is not None and one.metadata.labels.get(SLICE_MANAGER) == MIRROR:
                self._queue.add((one.metadata.namespace, one.metadata.labels.get(SLICE_SERVICE, "")))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        found, service = self._endpoints.get(name, namespace), self._services.get(name, namespace)
        by_hand = service is not None and not service.spec.get("selector")
        selector = f"{SLICE_SERVICE}={name},{SLICE_MANAGER}={MIRROR}"
        existing = (await self._api.list(ENDPOINT_SLICE, namespace=namespace, label_selector=selector)).items
        wanted = await self._wanted(found) if found is not None and by_hand and _is_mirrored(found) else {}
        slices: dict[_Key, list[EndpointSlice]] = {}
        for one in existing:
            slices.setdefault((one.address_type, _ports_key(one.ports or [])), []).append(one)
        spare = [one for key_, group in slices.items() for one in (group[1:] if key_ in wanted else group)]
        for shape, endpoints in wanted.items():
            assert found is not None
            await self._keep(found, shape, endpoints, next(iter(slices.get(shape, [])), None), spare)
        for gone in spare:
            meta = gone.metadata
            await self._api.delete(ENDPOINT_SLICE, meta.name, namespace=namespace, uid=meta.uid)

    async def _wanted(self, found: Endpoints) -> dict[_Key, list[JsonObject]]:
        """Endpoints by their type and ports; Events tell what is left out."""
        wanted: dict[_Key, list[JsonObject]] = {}
        wrong = skipped = 0
        for subset in repacked(found.subsets or []):
            ports, count = _ports_key(subset.get("ports") or []), 0
            for field in ("addresses", "notReadyAddresses"):
                for address in subset.get(field) or []:
                    if count >= MOST_ADDRESSES:
                        skipped += 1
                        continue
                    try:
                        kind = f"IPv{ip_address(address['ip']).version}"
                    except ValueError:
                        wrong += 1
                        continue
                    count += 1
                    wanted.setdefault((kind, ports), []).append(_endpoint(address, field == "addresses"))
        if wrong:
            why = f"Skipped {wrong} invalid IP addresses when mirroring to EndpointSlices"
            await self._events.emit(found, "Warning", "InvalidIPAddress", why)
        if skipped:
            why = (
                f"A max of {MOST_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints "
                f"subset. {skipped + wrong} addresses were skipped"
            )
            await self._events.emit(found, "Warning", "TooManyAddressesToMirror", why)
        return wanted

    async def _keep(
        self,
        found: Endpoints,
        shape: _Key,
        endpoints: list[JsonObject],
        old: EndpointSlice | None,
        spare: list[EndpointSlice],
    ) -> None:
        """Write the slice of a shape where it is not right; one that would go is made into it."""
        body = _slice_body(found, shape, endpoints)
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        if old is not None and _same(old, body):
            return
        if old is None:
            old = next((one for one in spare if one.address_type == shape[0]), None)
            if old is not None:
                spare.remove(old)
        namespace = found.metadata.namespace
        try:
            with passing_over(404):
                if old is None:
                    await self._api.create(ENDPOINT_SLICE, body, namespace=namespace)
                    return
                metadata["name"] = old.metadata.name
                await self._api.replace(ENDPOINT_SLICE, body, namespace=namespace)
        except ClusterError as error:
            if not namespace_ends(error):
                raise


def _is_mirrored(found: Endpoints) -> bool:
    return found.metadata.labels.get(_SKIP) != "true" and LEADER not in found.metadata.annotations


def _ports_key(ports: list[dict[str, Any]]) -> bytes:
    whole = [{"name": "", **port} for port in ports]
    return msgspec.json.encode(in_order(whole, of_slice=True), order="deterministic")


def _endpoint(address: Subset, ready: bool) -> JsonObject:
    endpoint: JsonObject = {
        "addresses": [str(ip_address(address["ip"]))],
        "conditions": {"ready": ready},
    }
    return {
        **endpoint,
        **{key: address[key] for key in ("hostname", "nodeName", "targetRef") if key in address},
    }


def _slice_body(found: Endpoints, shape: _Key, endpoints: list[JsonObject]) -> JsonObject:
    meta = found.metadata
    metadata: JsonObject = {
        "generateName": f"{meta.name}-",
        "namespace": meta.namespace,
        "labels": {**meta.labels, SLICE_SERVICE: meta.name, SLICE_MANAGER: MIRROR},
        "annotations": {key: value for key, value in meta.annotations.items() if key not in _NOT_COPIED},
        "ownerReferences": [controller_reference(found, ENDPOINTS)],
    }
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": metadata,
        "addressType": shape[0],
        "endpoints": [*endpoints[:MOST_ADDRESSES]],
        "ports": msgspec.json.decode(shape[1]) or None,
    }


def _same(old: EndpointSlice, body: JsonObject) -> bool:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    owners = [owner.uid for owner in old.metadata.owner_references]
    references = metadata["ownerReferences"]
    assert isinstance(references, list)
    return (
        old.metadata.labels == metadata["labels"]
        and old.metadata.annotations == metadata["annotations"]
        and all(isinstance(one, dict) and one["uid"] in owners for one in references)
        and (old.endpoints or []) == body["endpoints"]
    )
