"""resourceclaim.Controller (templates): claims for devices that are made for pods.

Source: pkg/controller/resourceclaim of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informer, Informers, Key, following, key_of
from tonnage.loop.ownership import controller_of
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from tonnage.wire.objects import Pod

_CLAIM: Final = "device claim"
_FOR: Final = "resource.kubernetes.io/pod-claim-name"
_LONGEST: Final = 57
"""A generated name's base, so that a hyphen and five characters have room."""


class PodClaimsController:
    """Makes the claims of pods that name a template, tells the pods, and deletes what ended pods had."""

    def __init__(
        self, api: KubernetesApi, clock: Clock, informers: Informers, applier: KubernetesApi
    ) -> None:
        """Pods are told through `applier`, under another name."""
        self._api = api
        self._applier = applier
        self._events = recorder_over(api, clock, "resource_claim")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pods = informers.of(POD)
        index_by_claims(self._pods)
        self._pods.subscribe(self._pod_changed)
        self._claims = informers.of(RESOURCE_CLAIM)
        self._claims.add_index("owner", lambda claim: [o.uid for o in claim.metadata.owner_references])
        self._claims.subscribe(self._claim_changed)
        self._templates = informers.of(RESOURCE_CLAIM_TEMPLATE)

    async def run(self) -> None:
        """Make claims until cancelled."""
        async with following(self._pods, self._claims, self._templates) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.after is not None and any(map(_template_of, delta.after.spec.resource_claims)):
            self._queue.add(key_of(delta.after))

    def _claim_changed(self, delta: Delta[ResourceClaim]) -> None:
        claim = delta.after or delta.before
        owner = controller_of(claim) if claim is not None else None
        if claim is not None and owner is not None and owner.kind == POD.kind:
            self._queue.add((claim.metadata.namespace, owner.name))
        if delta.before is None and claim is not None:
            for pod in pods_with(self._pods, claim):
                self._queue.add(key_of(pod))

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None:
            return
        own = {
            claim.metadata.annotations.get(_FOR, ""): claim
            for claim in self._claims.by_index("owner", pod.metadata.uid)
        }
        if is_done(pod):
            for claim in own.values():
                await self._delete(claim)
        if pod.metadata.deletion_timestamp is not None:
            return
        recorded = {
            str(entry_name.get("name")): str(entry_name.get("resourceClaimName"))
            for entry_name in _statuses(pod)
        }
        if self._waits(pod, own):
            return
        made: dict[str, str] = {}
        for entry in pod.spec.resource_claims:
            name, template = str(entry.get("name", "")), _template_of(entry)
            if not template or (is_done(pod) and name in recorded):
                continue
            claim_made = own.get(name) or await self._make(pod, name, template)
            made[name] = claim_made.metadata.name
        if made.items() - recorded.items():
            await self._tell(
                pod, [{"name": entry_name, "resourceClaimName": claim} for entry_name, claim in made.items()]
            )

    def _waits(self, pod: Pod, own: Mapping[str, ResourceClaim]) -> bool:
        """Whether a claim that somebody else makes is missing, before the first that is to be made."""
        for entry in pod.spec.resource_claims:
            if named := entry.get("resourceClaimName"):
                if self._claims.get(str(named), pod.metadata.namespace) is None:
                    return True
            elif entry.get("name") not in own:
                return False
        return False

    async def _make(self, pod: Pod, name: str, template: str) -> ResourceClaim:
        namespace = pod.metadata.namespace
        try:
            template_object = await self._api.get(RESOURCE_CLAIM_TEMPLATE, template, namespace)
            body = _claim_body(pod, name, template_object.spec)
            return await self._api.create(RESOURCE_CLAIM, body, namespace=namespace)
        except ApiError as error:
            why = f"create ResourceClaim : {error.message}"
            if error.code == 404:
                missing = f'resourceclaimtemplate.resource.k8s.io "{template}" not found'
                why = f'resource claim template "{template}": {missing}'
            message = f"PodResourceClaim {name}: {why}"
            await self._events.emit(pod, "Warning", "FailedResourceClaimCreation", message)
            raise

    async def _tell(self, pod: Pod, statuses: list[JsonValue]) -> None:
        patch: JsonObject = {
            "metadata": {"name": pod.metadata.name},
            "status": {"resourceClaimStatuses": statuses},
        }
        await self._applier.patch(
            POD,
            pod.metadata.name,
            patch,
            namespace=pod.metadata.namespace,
            patch_type=PatchType.APPLY,
            subresource="status",
        )

    async def _delete(self, claim: ResourceClaim) -> None:
        namespace, name = key_of(claim)
        if claim.metadata.deletion_timestamp is not None or claim.status.get("reservedFor"):
            return
        with passing_over(404, 409):
            await self._api.delete(RESOURCE_CLAIM, name, namespace=namespace, uid=claim.metadata.uid)


def _template_of(entry: JsonObject) -> str:
    return str(entry.get("resourceClaimTemplateName") or "")


def _statuses(pod: Pod) -> list[JsonObject]:
    return list(pod.status.resource_claim_statuses)


def claim_keys(pod: Pod) -> list[Key]:
    """The claims of a pod that have names."""
    made = {entry.get("name"): entry.get("resourceClaimName") for entry in _statuses(pod)}
    entries = pod.spec.resource_claims
    names = (entry.get("resourceClaimName") or made.get(entry.get("name")) for entry in entries)
    return [(pod.metadata.namespace, str(name)) for name in names if name]


def index_by_claims(pods: Informer[Pod]) -> None:
    """Keep pods findable by their claims; see `pods_with`."""
    pods.add_index(_CLAIM, lambda pod: ["/".join(key) for key in claim_keys(pod)])


def pods_with(pods: Informer[Pod], claim: ResourceClaim) -> list[Pod]:
    """Pods that name a claim, or for which it was made."""
    return pods.by_index(_CLAIM, "/".join(key_of(claim)))


def is_done(pod: Pod) -> bool:
    """Whether none of its containers runs or will ever run."""
    ended = pod.status.phase in ("Succeeded", "Failed")
    return ended or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _claim_body(pod: Pod, name: str, template: JsonObject) -> JsonObject:
    metadata = template.get("metadata")
    head: JsonObject = metadata if isinstance(metadata, dict) else {}
    notes = head.get("annotations")
    owner: JsonObject = {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "generateName": _base_name(pod.metadata.name, name),
            "ownerReferences": [owner],
            "annotations": {**(notes if isinstance(notes, dict) else {}), _FOR: name},
            **({"labels": head["labels"]} if head.get("labels") else {}),
        },
        "spec": template.get("spec") or {},
    }


def _base_name(pod: str, claim: str) -> str:
    """What a claim's name begins with: both names, each cut in proportion where they are too long.

    >>> _base_name("train", "gpu"), len(_base_name("p" * 60, "c" * 60))
    ('train-gpu-', 57)
    """
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST:
        return whole
    return "-".join(part[: len(part) * _LONGEST // len(whole)] for part in (pod, claim))
