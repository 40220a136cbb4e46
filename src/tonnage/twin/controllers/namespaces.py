"""NamespaceController: what every namespace has, and the emptying of those that end.

Source: k8s.io/kubernetes/pkg/controller/namespace (v1.35), condition texts included.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from tonnage.loop.informer import Delta, Informer, Informers, Key, following
from tonnage.loop.refusals import passing_over
from tonnage.loop.status_writes import merge_status, patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.deletable_objects import built_in_kinds, custom_kind
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, EVENT, NAMESPACE, POD, Kind
from tonnage.wire.objects import Condition, ConfigMap, Namespace, Object, Pod

T = TypeVar("T", bound=Object)

SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Object)
ROOT_CA: Final = "kube-root-ca.crt"
_ABOUT_CA: Final = "kubernetes.io/description"
_CA_USE: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
)
_EMPTYING_AGAIN_S: Final = 1.0
_Row = tuple[str, str, str, str, str]
"""A condition: its type, what is wrong, the reason if something is, the reason and words if nothing is."""
_CONDITIONS: Final[tuple[_Row, ...]] = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "",
        "",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "",
        "",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
)
_DELETED: Final = (
    "ContentDeletionFailed",
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
)
_REMOVED: Final = ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed")
_FINISHED: Final = (
    "SomeFinalizersRemain",
    "ContentHasNoFinalizers",
    "All content-preserving finalizers finished",
)


@dataclass(slots=True)
class Leftovers:
    """What is left of a namespace, and why some of it should not be. While pods last none is counted."""

    objects: dict[Kind[Object], list[Object]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    counted: bool = True


class NamespaceController:
    """Gives every namespace its `default` ServiceAccount and the cluster's CA; empties those that are to end.

    `root_ca` is the certificate, PEM; without one there is no ConfigMap.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers, *, root_ca: str = "") -> None:
        self._api = api
        self._root_ca = root_ca
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._namespaces = informers.of(NAMESPACE, self._queue.add)
        self._accounts = informers.of(SERVICE_ACCOUNT)
        self._accounts.subscribe(self._belonging_changed)
        self._authorities = Informer(api, CONFIG_MAP, clock, field_selector=f"metadata.name={ROOT_CA}")
        self._authorities.subscribe(self._belonging_changed)
        self._definitions = informers.of(CUSTOM_RESOURCE)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with following(self._namespaces, self._accounts, self._authorities, self._definitions) as group:
            group.create_task(work(self._queue, self._reconcile, workers=2))

    def _belonging_changed(self, delta: Delta[ConfigMap] | Delta[Object]) -> None:
        """Look again at a namespace when what it has is changed or gone."""
        if delta.before is not None:
            self._queue.add(("", delta.before.metadata.namespace))

    async def _reconcile(self, key: Key) -> float | None:
        namespace = self._namespaces.get(key[1])
        if namespace is None:
            return None
        if namespace.metadata.deletion_timestamp is None:
            if self._accounts.get("default", namespace.metadata.name) is None:
                body: JsonObject = {"metadata": {"name": "default"}}
                await _create_unless_there(self._api, SERVICE_ACCOUNT, body, namespace.metadata.name)
            if self._root_ca:
                await self._publish_ca(namespace.metadata.name)
            return None
        if "kubernetes" not in (namespace.spec.get("finalizers") or []):
            return None
        left = await self._empty(namespace)
        await self._tell(namespace, left)
        if left.objects:
            return _EMPTYING_AGAIN_S
        await self._finalize(namespace)
        return None

    async def _publish_ca(self, namespace: str) -> None:
        """Write the ConfigMap with the CA, again when somebody has changed or deleted it."""
        config_map = self._authorities.get(ROOT_CA, namespace)
        certificates: JsonObject = {"ca.crt": self._root_ca}
        metadata: JsonObject = {"name": ROOT_CA, "annotations": {_ABOUT_CA: _CA_USE}}
        if config_map is None:
            await _create_unless_there(
                self._api, CONFIG_MAP, {"metadata": metadata, "data": certificates}, namespace
            )
        elif config_map.data != certificates or not config_map.metadata.annotations.get(_ABOUT_CA):
            strays: JsonObject = dict.fromkeys(config_map.data)
            about: JsonObject = {"annotations": {_ABOUT_CA: _CA_USE}}
            with passing_over(404):
                await patch_as_seen(
                    self._api, CONFIG_MAP, config_map, {"metadata": about, "data": strays | certificates}
                )

    def _kinds(self) -> list[Kind[Object]]:
        custom = (custom_kind(definition) for definition in self._definitions)
        events = Kind("", "v1", "Event", EVENT.plural, True, Object)
        kinds = [*built_in_kinds(), events, *(kind for kind in custom if kind is not None)]
        return [kind for kind in kinds if kind.namespaced]

    async def _empty(self, namespace: Namespace) -> Leftovers:
        """Ask for the deletion of all pods, and when they are gone of everything; what is left after that."""
        left = Leftovers()
        name = namespace.metadata.name
        pods = await self._clear(POD, name)
        if pods:
            left.counted = False
            if not any(pod.metadata.finalizers for pod in pods) and self._is_overdue(namespace, pods):
                left.failures.append(_unexpected(name, POD))
            left.objects[POD] = list(pods)
            return left
        for kind in self._kinds():
            objects = await self._clear(kind, name)
            if objects:
                left.objects[kind] = objects
                if not any(obj.metadata.finalizers for obj in objects):
                    left.failures.append(_unexpected(name, kind))
        return left

    async def _clear(self, kind: Kind[T], namespace: str) -> list[T]:
        """Ask for the deletion of all objects of a kind; those that are there after that."""
        try:
            listing = await self._api.list(kind, namespace=namespace)
            for obj in listing.items:
                if obj.metadata.deletion_timestamp is None:
                    await self._delete(kind, obj)
            if listing.items:
                listing = await self._api.list(kind, namespace=namespace)
        except ApiError as error:
            if error.code not in (404, 405):
                raise
            return []  # a definition that has gone meanwhile
        return listing.items

    def _is_overdue(self, namespace: Namespace, pods: list[Pod]) -> bool:
        """Whether the longest of the pods' grace periods has passed since the namespace was deleted."""
        running = (pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed"))
        grace = max((pod.spec.termination_grace_period_seconds or 0 for pod in running), default=0)
        since = moment_of(namespace.metadata.deletion_timestamp or timestamp(self._clock.now()))
        return (self._clock.now() - since).total_seconds() >= grace

    async def _delete(self, kind: Kind[T], obj: T) -> None:
        with passing_over(404, 409):
            await self._api.delete(
                kind, obj.metadata.name, namespace=obj.metadata.namespace, uid=obj.metadata.uid
            )

    async def _tell(self, namespace: Namespace, left: Leftovers) -> None:
        before = msgspec.convert(namespace.status.get("conditions") or [], list[Condition])
        after = deletion_conditions(before, left, self._clock.now())
        if before == after:
            return
        conditions: list[JsonValue] = msgspec.to_builtins(after)
        await merge_status(self._api, NAMESPACE, namespace, {"conditions": conditions})

    async def _finalize(self, namespace: Namespace) -> None:
        """Take the namespace's own finalizer away, by which it goes once nobody else holds it."""
        fresh = await self._api.get(NAMESPACE, namespace.metadata.name)
        if fresh.metadata.uid != namespace.metadata.uid:
            return
        body: JsonObject = msgspec.to_builtins(fresh)
        rest = [name for name in fresh.spec.get("finalizers") or [] if name != "kubernetes"]
        body["spec"] = {**fresh.spec, "finalizers": rest}
        with passing_over(404):
            await self._api.replace(NAMESPACE, body, subresource="finalize")


def _unexpected(namespace: str, kind: Kind[T]) -> str:
    which = f"{kind.group}/{kind.version}, Resource={kind.plural}"
    return f"unexpected items still remain in namespace: {namespace} for gvr: {which}"


def deletion_conditions(before: list[Condition], left: Leftovers, now: datetime) -> list[Condition]:
    """What a namespace that ends says about its contents, beside what others said of it."""
    remaining = left.objects if left.counted else {}
    failed = f"Failed to delete all resource types, {len(left.failures)} remaining: " + ", ".join(
        sorted(left.failures)
    )
    names = sorted((f"{kind.plural}.{kind.group}", len(objects)) for kind, objects in remaining.items())
    content = "Some resources are remaining: " + ", ".join(
        f"{name} has {count} resource instances" for name, count in names
    )
    finalizers = Counter(
        finalizer
        for objects in remaining.values()
        for obj in objects
        for finalizer in obj.metadata.finalizers
    )
    held = "Some content in the namespace has finalizers remaining: " + ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
    )
    rows = (
        *_CONDITIONS,
        ("NamespaceDeletionContentFailure", failed if left.failures else "", *_DELETED),
        ("NamespaceContentRemaining", content if names else "", *_REMOVED),
        ("NamespaceFinalizersRemaining", held if finalizers else "", *_FINISHED),
    )
    old = {condition.type: condition for condition in before}
    fresh = [_condition(old.get(row[0]), row, now) for row in rows]
    return list((old | {entry.type: entry for entry in fresh}).values())


def _condition(before: Condition | None, row: _Row, now: datetime) -> Condition:
    kind, wrong, bad_reason, good_reason, good_text = row
    status = "True" if wrong else "False"
    since = before.last_transition_time if before is not None and before.status == status else timestamp(now)
    return Condition(
        type=kind,
        status=status,
        reason=bad_reason if wrong else good_reason,
        message=wrong or good_text,
        last_transition_time=since,
    )


async def _create_unless_there(
    api: KubernetesApi, kind: Kind[T], body: JsonObject, namespace: str | None
) -> None:
    whole: JsonObject = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    try:
        await api.create(kind, whole, namespace=namespace)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
