"""`tonnage explain jobset/NAME`: objects of the custom kinds whose pods Tonnage can count."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from tonnage.model.errors import ApiError, ClusterError, ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.workloads import WorkloadKey
from tonnage.model.verdict import Explanation, Subject
from tonnage.reading.custom_types import CustomType

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes

_RUNTIMES: Final = {"ClusterTrainingRuntime": False, "TrainingRuntime": True}
"""What a TrainJob takes its pods from, and whether it is of a namespace."""


async def read_custom(
    api: HttpKubernetes, custom: CustomType, name: str, namespace: str
) -> tuple[JsonObject, ...]:
    """The object, and what it takes its pods from; none where it does not exist.

    Raises:
        ClusterError: it may not be read.
    """
    try:
        version = await _version(api, custom.group)
        base = f"/apis/{custom.group}/{version}"
        body = await _object(api, f"{base}/namespaces/{namespace}/{custom.plural}/{name}")
        runtime = _mapping(_mapping(body.get("spec")).get("runtimeRef"))
        kind = str(runtime.get("kind") or "ClusterTrainingRuntime")
        if not body or custom.kind != "TrainJob" or kind not in _RUNTIMES:
            return (body,) if body else ()
        space = f"/namespaces/{namespace}" if _RUNTIMES[kind] else ""
        other = await _object(api, f"{base}{space}/{kind.lower()}s/{runtime.get('name', '')}")
    except ApiError as error:
        if error.code == HTTPStatus.FORBIDDEN:
            raise _forbidden(custom, name, namespace, error) from None
        raise
    return (body, other) if other else (body,)


async def _version(api: HttpKubernetes, group: str) -> str:
    """The version of a group that the server prefers; empty where it does not serve the group."""
    preferred = _mapping((await _object(api, f"/apis/{group}")).get("preferredVersion")).get("version")
    return preferred if isinstance(preferred, str) else ""


async def _object(api: HttpKubernetes, path: str) -> JsonObject:
    """The object at a path; empty where there is none."""
    try:
        return _mapping(await api.get_raw(path))
    except ApiError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return {}
        raise


def _forbidden(custom: CustomType, name: str, namespace: str, error: ApiError) -> ClusterError:
    return ClusterError(
        Problem(
            f"{custom.kind} {name} was not read",
            f"namespace {namespace}",
            error.message,
            f"ask for the right to get {custom.plural}.{custom.group}, or explain its pods: --all-pending",
        )
    )


def explain_custom_target(
    custom: CustomType,
    name: str,
    objects: tuple[JsonObject, ...],
    snapshot: Snapshot,
    namespace: str,
    version: str,
) -> Explanation:
    """The explanation of a custom workload; `objects` as `read_custom` gives them, none out of a file.

    Raises:
        ConfigError: there is none of the name, or its template cannot be read.
    """
    from dataclasses import replace

    from tonnage.diagnose.explain.replicas.uncounted import explain_uncounted
    from tonnage.diagnose.explain.workloads.custom_workload import custom_family, explain_custom
    from tonnage.reading.custom_manifests import custom_manifests
    from tonnage.reading.custom_states import has_ended, is_suspended, ray_cluster_labels
    from tonnage.reading.custom_workloads import why_undetermined
    from tonnage.reading.policies import with_priority

    body = objects[0] if objects else {}
    try:
        manifests = custom_manifests(body, namespace, objects[1:]) if body else []
    except msgspec.ValidationError as error:
        problem = Problem(str(error), f"{custom.kind} {name}", remedy="check it: tonnage lint")
        raise ConfigError(problem) from None
    labels = [manifest.pod_set.labels for manifest in manifests if manifest.pod_set is not None]
    if custom.kind in ("RayJob", "RayService"):
        labels = [ray_cluster_labels(body)]
    family = custom_family(WorkloadKey(custom.kind, namespace, name), snapshot, labels)
    if not body and not family.pods:
        raise ConfigError(
            Problem(
                f'{custom.kind.lower()} "{name}" not found',
                f"namespace {namespace}",
                remedy=f"kubectl get {custom.plural}.{custom.group} -A, or explain its manifest with -f",
            )
        )
    ended = has_ended(body)
    why, remedy = why_undetermined(body, objects[1:]) if body else ("", "")
    if why and not family.pods and not ended:
        return explain_uncounted(Subject(custom.kind, namespace, name), why, remedy)
    family = replace(family, head=replace(family.head, paused=is_suspended(body) and not ended))
    classes = snapshot.priority_classes
    made = [replace(manifest, pod=with_priority(manifest.pod, classes)) for manifest in manifests]
    explanation = explain_custom(family, made, snapshot, version=version, ended=ended)
    if why and custom.kind == "JobSet" and not ended:  # of the Jobs that there are, and others come
        return replace(explanation, message="; ".join(filter(None, (explanation.message, why))))
    return explanation


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
