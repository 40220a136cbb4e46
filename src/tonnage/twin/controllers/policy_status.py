"""Tells of every ValidatingAdmissionPolicy that it has been looked at, and what does not fit its kinds.

Source: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.loop.informer import Informers, Key, following
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.ports import Clock, KubernetesApi, PatchType
from tonnage.twin.controllers.policy_types import Types, expression_warnings
from tonnage.wire.kinds import CUSTOM_RESOURCE, Kind
from tonnage.wire.objects import Service
from tonnage.wire.schema import load_schema

# Services have a spec and a status of any content, so they can stand for policies.
POLICY: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    False,
    Service,
)


class PolicyStatusController:
    """Writes the status of policies that have changed."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._policies = informers.of(POLICY, self._queue.add)

    async def run(self) -> None:
        """Tell until cancelled."""
        async with following(self._policies) as group:
            group.create_task(work(self._queue, self._reconcile))

    async def _reconcile(self, key: Key) -> None:
        policy = self._policies.get(key[1])
        if policy is None or policy.metadata.generation <= policy.status.get("observedGeneration", 0):
            return
        definitions = (await self._api.list(CUSTOM_RESOURCE)).items
        types = Types(load_schema(), [one.spec for one in definitions])
        warnings = expression_warnings(policy.spec, types)
        checked: JsonObject = {"expressionWarnings": warnings} if warnings else {}
        status: JsonObject = {"observedGeneration": policy.metadata.generation, "typeChecking": checked}
        whole: JsonObject = {"metadata": {"name": key[1]}, "status": status}
        with passing_over(404):
            await self._api.patch(POLICY, key[1], whole, subresource="status", patch_type=PatchType.APPLY)
