"""Approves requests for certificates of kubelets, if who asks has the right to one without being asked.

Source: k8s.io/kubernetes/pkg/controller/certificates/approver, pkg/apis/certificates/helpers.go (v1.35).
"""

from __future__ import annotations

import base64
from typing import Final

from tonnage.adapters.informer import Informers, Key, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import items, mappings, text, texts
from tonnage.twin.apiserver.objects.validation.signing_requests import request_in
from tonnage.twin.apiserver.signing import DECISIONS
from tonnage.twin.controllers.kubelet_requests import KUBELET_CLIENT, common_name, fault_of
from tonnage.twin.controllers.refusals import passing_over
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Service

_GROUP: Final = "certificates.k8s.io"
# Services have a spec and a status of any content, so they can stand for these.
REQUEST: Final = Kind(_GROUP, "v1", "CertificateSigningRequest", "certificatesigningrequests", False, Service)
_REVIEW: Final = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, Service
)
_AGAIN_S: Final = 1.0
"""A right may come later."""


class RequestApprovalController:
    """Looks at every request that nobody has decided."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._requests = informers.of(REQUEST, self._queue.add)

    async def run(self) -> None:
        """Approve until cancelled."""
        async with following(self._requests) as group:
            group.create_task(work(self._queue, self._reconcile))

    async def _reconcile(self, key: Key) -> float | None:
        request = self._requests.get(key[1])
        if request is None or any(text(one, "type") in DECISIONS for one in _conditions(request)):
            return None
        rights = rights_of(request.spec)
        for right, words in rights:
            if not await self._allowed(request.spec, right):
                continue
            approved: JsonObject = {
                "type": "Approved",
                "status": "True",
                "reason": "AutoApproved",
                "message": f"Auto approving {words} after SubjectAccessReview.",
            }
            status: JsonObject = {"conditions": [*_conditions(request), approved]}
            with passing_over(404):
                await self._api.patch(REQUEST, key[1], {"status": status}, subresource="approval")
            return None
        return _AGAIN_S if rights else None

    async def _allowed(self, spec: JsonObject, right: str) -> bool:
        attributes: JsonObject = {
            "group": _GROUP,
            "resource": REQUEST.plural,
            "verb": "create",
            "subresource": right,
            "version": "*",
        }
        asked: JsonObject = {"user": text(spec, "username"), "groups": items(spec, "groups")}
        asked |= {key: spec[key] for key in ("uid", "extra") if key in spec}
        review: JsonObject = {"spec": {**asked, "resourceAttributes": attributes}}
        return bool((await self._api.create(_REVIEW, review)).status.get("allowed"))


def rights_of(spec: JsonObject) -> list[tuple[str, str]]:
    """What a kubelet's request needs one of, each with what it is then; nothing for another's request."""
    if text(spec, "signerName") != KUBELET_CLIENT:
        return []
    request = request_in(base64.b64decode(text(spec, "request")))
    if fault_of(request, KUBELET_CLIENT, texts(spec, "usages")):
        return []
    own = text(spec, "username") == common_name(request)
    rights = [("selfnodeclient", "self kubelet client certificate")] if own else []
    return [*rights, ("nodeclient", "kubelet client certificate")]


def _conditions(request: Service) -> list[JsonObject]:
    return mappings(request.status, "conditions")
