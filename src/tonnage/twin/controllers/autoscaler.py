"""HorizontalPodAutoscalers where nothing is measured: they keep to their bounds, and say what they lack.

Source: pkg/controller/podautoscaler of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.adapters.events import EventRecorder
from tonnage.adapters.informer import Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.objects.selectors import matches_labels, parse_labels
from tonnage.twin.apiserver.subresources import selector_text
from tonnage.twin.controllers.autoscaler_status import unmeasured, with_condition
from tonnage.twin.controllers.custom_scales import count_at, custom_versions
from tonnage.twin.controllers.writing import merge_status
from tonnage.wire.kinds import POD, Kind
from tonnage.wire.policies import PodMaker
from tonnage.wire.schema import load_schema
from tonnage.wire.timestamps import timestamp

AUTOSCALER: Final = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, PodMaker
)
_PERIOD_S: Final = 15.0
_ABLE: Final = "AbleToScale"
_ACTIVE: Final = "ScalingActive"


@dataclass(frozen=True, slots=True)
class _Target:
    """What is scaled, and how many pods it is asked for."""

    kind: Kind[PodMaker]
    name: str
    replicas: int
    selector: str


class AutoscalerController:
    """Looks at an autoscaler 15 s after it was made or changed, and every 15 s from then on."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, clock, "horizontal-pod-autoscaler")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._autoscalers = informers.of(AUTOSCALER, self._changed)
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._selectors: dict[Key, str] = {}
        """Of the pods that each autoscaler was last seen to scale."""

    async def run(self) -> None:
        """Keep to the bounds until cancelled."""
        async with following(self._autoscalers, self._pods) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, key: Key) -> None:
        self._queue.add_after(key, _PERIOD_S)

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        found = self._autoscalers.get(name, namespace)
        if found is None:
            self._selectors.pop(key, None)
            return None
        status = await self._judged(found)
        if status != {key: value for key, value in found.status.items() if value is not None}:
            patch: JsonObject = {key: None for key in found.status if key not in status}
            await merge_status(self._api, AUTOSCALER, found, {**patch, **status})
        return _PERIOD_S

    async def _judged(self, found: PodMaker) -> JsonObject:
        """The status after what there is to do has been done."""
        now = timestamp(self._clock.now())
        target = await self._target(found)
        if isinstance(target, str):
            await self._events.emit(found, "Warning", "FailedGetScale", target)
            why = f"the HPA controller was unable to get the target's current scale: {target}"
            return with_condition(found.status, _ABLE, False, "FailedGetScale", why, now)
        why = "the HPA controller was able to get the target's current scale"
        status = with_condition(found.status, _ABLE, True, "SucceededGetScale", why, now)
        counted: JsonObject = {key: value for key, value in status.items() if key != "currentMetrics"}
        counted.pop("currentReplicas", None)
        if target.replicas:
            counted["currentReplicas"] = target.replicas
        low, high = int(found.spec.get("minReplicas") or 1), int(found.spec.get("maxReplicas") or 0)
        if target.replicas == 0:
            why = "scaling is disabled since the replica count of the target is zero"
            counted["desiredReplicas"] = 0
            return with_condition(counted, _ACTIVE, False, "ScalingDisabled", why, now)
        if target.replicas > high or target.replicas < low:
            return await self._rescaled(found, target, counted, now)
        if target.selector and (why := self._ambiguity(found, target.selector)):
            await self._events.emit(found, "Warning", "AmbiguousSelector", why)
            await self._events.emit(found, "Warning", "FailedComputeMetricsReplicas", why)
            return with_condition(counted, _ACTIVE, False, "AmbiguousSelector", why, now)
        return await self._unmeasured(found, counted, now)

    def _ambiguity(self, found: PodMaker, selector: str) -> str:
        """Which autoscalers have the pods of this one too, empty where none has."""
        namespace = found.metadata.namespace
        self._selectors[key_of(found)] = selector
        mine = parse_labels(selector)
        labels = [pod.metadata.labels for pod in self._pods.by_index("namespace", namespace)]
        pods = [one for one in labels if matches_labels(mine, one)]
        having = [
            f"{namespace}/{name}"
            for (home, name), other in sorted(self._selectors.items())
            if home == namespace and any(matches_labels(parse_labels(other), one) for one in pods)
        ]
        told = f"pods by selector {selector} are controlled by multiple HPAs: [{' '.join(having)}]"
        return told if len(having) > 1 else ""

    async def _rescaled(self, found: PodMaker, target: _Target, status: JsonObject, now: str) -> JsonObject:
        low, high = int(found.spec.get("minReplicas") or 1), int(found.spec.get("maxReplicas") or 0)
        above = target.replicas > high
        wanted = high if above else low
        bound = "above Spec.MaxReplicas" if above else "below Spec.MinReplicas"
        said = f"New size: {wanted}; reason: Current number of replicas {bound}"
        patch: JsonObject = {"spec": {"replicas": wanted}}
        try:
            await self._api.patch(
                target.kind,
                target.name,
                patch,
                namespace=found.metadata.namespace,
                subresource="scale",
            )
        except ApiError as error:
            await self._events.emit(found, "Warning", "FailedRescale", f"{said}; error: {error.message}")
            why = f"the HPA controller was unable to update the target scale: {error.message}"
            return with_condition(status, _ABLE, False, "FailedUpdateScale", why, now)
        await self._events.emit(found, "Normal", "SuccessfulRescale", said)
        why = f"the HPA controller was able to update the target scale to {wanted}"
        scaled: JsonObject = {**status, "desiredReplicas": wanted, "lastScaleTime": now}
        return with_condition(scaled, _ABLE, True, "SucceededRescale", why, now)

    async def _unmeasured(self, found: PodMaker, status: JsonObject, now: str) -> JsonObject:
        metrics = list(found.spec.get("metrics") or [])
        reasons = unmeasured(metrics, found.metadata.namespace)
        for reason, why, _told in reasons:
            await self._events.emit(found, "Warning", reason, why)
        if not reasons:
            return status
        reason, why, told = reasons[0]
        whole = f"invalid metrics ({len(reasons)} invalid out of {len(metrics)}), first error is: {told}"
        await self._events.emit(found, "Warning", "FailedComputeMetricsReplicas", whole)
        said = f"the HPA was unable to compute the replica count: {why}"
        empty: JsonObject = {**status, "currentMetrics": [{"type": ""} for _ in metrics]}
        return with_condition(empty, _ACTIVE, False, reason, said, now)

    async def _target(self, found: PodMaker) -> _Target | str:
        """What is scaled, or why it cannot be."""
        ref = found.spec.get("scaleTargetRef") or {}
        name, wanted = str(ref.get("name")), str(ref.get("kind"))
        group = str(ref.get("apiVersion") or "").rpartition("/")[0]
        rows = [row for row in load_schema().kinds if (row.group, row.kind) == (group, wanted)]
        if rows:
            row = rows[0]
            if row.subresource("scale") is None:
                return "the server could not find the requested resource"
            kind = Kind(row.group, row.version, row.kind, row.plural, row.namespaced, PodMaker)
            path: tuple[str, ...] = ("replicas",)
        else:
            custom = await self._custom(group, wanted)
            if isinstance(custom, str):
                return custom
            kind, path = custom
        try:
            there = await self._api.get(kind, name, found.metadata.namespace)
        except ApiError as error:
            return error.message
        selector = selector_text(there.spec.get("selector") or "") if rows else ""
        return _Target(kind, name, count_at(there.spec, path), selector)

    async def _custom(self, group: str, wanted: str) -> tuple[Kind[PodMaker], tuple[str, ...]] | str:
        """A custom kind and where in its spec the number stands."""
        versions = await custom_versions(self._api, group, wanted)
        if versions is None:
            return f'no matches for kind "{wanted}" in group "{group}"'
        for one in versions:
            if one.served and one.replicas is not None:
                return one.kind, one.replicas
        return "the server could not find the requested resource"
