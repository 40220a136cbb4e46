"""Signs approved requests for certificates, as the signers of Kubernetes itself.

Source: k8s.io/kubernetes/pkg/controller/certificates/signer (v1.35), with kubeadm's certificates.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Final

from tonnage.adapters.informer import Informers, Key, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.well_known import CLIENT_SIGNER, LEGACY_SIGNER
from tonnage.twin.apiserver.access import mappings, number, text, texts
from tonnage.twin.apiserver.objects.validation.signing_requests import request_in
from tonnage.twin.controllers.kubelet_requests import (
    KUBELET_CLIENT,
    KUBELET_SERVER,
    fault_of,
)
from tonnage.twin.controllers.request_approval import REQUEST
from tonnage.twin.controllers.writing import merge_status
from tonnage.twin.pki import Authority
from tonnage.wire.objects import Service
from tonnage.wire.timestamps import timestamp

_SIGNERS: Final = (CLIENT_SIGNER, KUBELET_CLIENT, KUBELET_SERVER, LEGACY_SIGNER)
_LONGEST_S: Final = 365 * 24 * 3600
_SHORTEST_S: Final = 600


class RequestSigningController:
    """Gives every approved request its certificate, or says why it gets none."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers, authority: Authority) -> None:
        self._api = api
        self._clock = clock
        self._authority = authority
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._requests = informers.of(REQUEST, self._queue.add)

    async def run(self) -> None:
        """Sign until cancelled."""
        async with following(self._requests) as group:
            group.create_task(work(self._queue, self._reconcile))

    async def _reconcile(self, key: Key) -> None:
        request = self._requests.get(key[1])
        if request is None or text(request.spec, "signerName") not in _SIGNERS or not _waits(request):
            return
        asked, usages = (
            request_in(base64.b64decode(text(request.spec, "request"))),
            texts(request.spec, "usages"),
        )
        fault = fault_of(asked, text(request.spec, "signerName"), usages)
        if fault:
            status = self._refused(request, fault)
        else:
            seconds = number(request.spec, "expirationSeconds", default=_LONGEST_S)
            lifetime = timedelta(seconds=max(min(seconds, _LONGEST_S), _SHORTEST_S))
            held = self._authority.sign(asked, usages, lifetime, self._clock.now())
            status = {"certificate": base64.b64encode(held).decode()}
        await merge_status(self._api, REQUEST, request, status)

    def _refused(self, request: Service, fault: str) -> JsonObject:
        failed: JsonObject = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": fault,
            "lastUpdateTime": timestamp(self._clock.now()),
        }
        return {"conditions": [*mappings(request.status, "conditions"), failed]}


def _waits(request: Service) -> bool:
    """Whether a request is approved and nobody has answered it."""
    told = {text(one, "type") for one in mappings(request.status, "conditions")}
    return "Approved" in told and not told & {"Denied", "Failed"} and not text(request.status, "certificate")
