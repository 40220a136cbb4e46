"""Kubernetes objects out of parsed JSON or YAML: a cluster in a `kind: List`, manifests of pods. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Manifest, PriorityClass, Snapshot
from tonnage.model.kubernetes.scheduler_profile import SchedulerProfile
from tonnage.model.kubernetes.workloads import WorkloadState
from tonnage.reading import custom_workloads as custom
from tonnage.reading.cluster import Readable, node_from, pod_from, snapshot_from
from tonnage.reading.custom_manifests import custom_manifests
from tonnage.reading.nodes import with_manager
from tonnage.reading.null_fields import converted
from tonnage.reading.pod_templates import TEMPLATES, amounts_of, of_template
from tonnage.reading.policies import with_priority
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.decode import decoded_json
from tonnage.wire.kinds import Kind

READ_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.POD,
    kinds.NODE,
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.DISRUPTION_BUDGET,
    kinds.SERVICE,
    kinds.REPLICATION_CONTROLLER,
    kinds.RESOURCE_QUOTA,
    kinds.NODE_GPU_STATUS,
    kinds.RESOURCE_SLICE,
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_CLAIM,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.DEVICE_TAINT_RULE,
    kinds.VOLUME_CLAIM,
    kinds.STORAGE_CLASS,
    kinds.LIMIT_RANGE,
    kinds.RUNTIME_CLASS,
    kinds.SERVICE_ACCOUNT,
    kinds.MUTATING_WEBHOOKS,
    kinds.VALIDATING_WEBHOOKS,
    kinds.ADMISSION_POLICY,
    kinds.ADMISSION_POLICY_BINDING,
    *kinds.POD_MAKERS,
    kinds.KUEUE_WORKLOAD,
    kinds.PERSISTENT_VOLUME,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
    kinds.STORAGE_CAPACITY,
    kinds.VOLUME_ATTACHMENT,
)
"""Kinds that bear on an answer: what is read of a live cluster, and out of a file."""
_OLDER_VERSIONS: Final = ("v1beta2", "v1beta1")
READ: Final[dict[tuple[str, str], Kind[Any]]] = {
    (kinds.EVENT.api_version, kinds.EVENT.kind): kinds.EVENT,
    **{(kind.api_version, kind.kind): kind for kind in READ_KINDS},
    ("kueue.x-k8s.io/v1beta2", "Workload"): kinds.KUEUE_WORKLOAD,
    **{
        (f"{kind.group}/{version}", kind.kind): kind
        for kind in READ_KINDS
        if kind.group == kinds.RESOURCE_CLAIM.group
        for version in _OLDER_VERSIONS
    },
}
"""By apiVersion and kind, older versions too."""
OF_CLAIMS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
_DEEPEST_LIST: Final = 4
_NUMBERED: Final = re.compile(r"\[([0-9]{1,9})\]")


def _versions(obj: dict[str, JsonValue]) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")), str(obj.get("kind", ""))


def snapshot_from_documents(
    documents: Iterable[JsonValue], *, server_version: str = "", now: datetime | None = None
) -> Snapshot:
    """A cluster out of objects and lists of objects; kinds that bear on nothing here are passed over.

    Raises:
        ConfigError: objects that cannot be read, each with its place: `[2].items[7].spec.nodeName`.
    """
    objects: list[Readable] = []
    problems: list[Problem] = []
    earlier: dict[tuple[str, str, str], tuple[str, dict[str, JsonValue]]] = {}
    any_object = False
    for where, body in _items(documents, "", 0):
        any_object = True
        kind = READ.get((str(body.get("apiVersion", "")), str(body.get("kind", ""))))
        if kind is None:
            if not body.get("kind"):
                problems.append(Problem("no Kubernetes object: it has no kind", where))
            continue
        try:
            obj = converted(body, kind.type)
            problems += _misnamed(obj, body, where, earlier)
            cordoned = isinstance(obj, w.Node) and obj.spec.unschedulable
            objects.append(with_manager(node_from(obj), body) if cordoned else obj)
        except msgspec.ValidationError as error:
            problems.append(_problem(where, str(error)))
    if not any_object:
        problems.append(
            Problem("no Kubernetes object in it", remedy="give a List: kubectl get nodes,pods -A -o yaml")
        )
    if problems:
        raise ConfigError(*problems)
    return snapshot_from(objects, server_version=server_version, now=now)


def _misnamed(
    obj: w.Object,
    body: dict[str, JsonValue],
    where: str,
    earlier: dict[tuple[str, str, str], tuple[str, dict[str, JsonValue]]],
) -> Iterator[Problem]:
    """An object without a name, or with that of another; `earlier` has those before, and gets this one."""
    kind, meta = str(body.get("kind", "")), obj.metadata
    if not meta.name:
        yield Problem("it is missing", f"{where}.metadata.name")
        return
    first, same = earlier.setdefault((kind, meta.namespace, meta.name), (where, body))
    if same != body:
        yield Problem(f"another {kind} {meta.name} than {first}", where, remedy="give each object once")


def objects_in(documents: Iterable[JsonValue]) -> Iterator[JsonObject]:
    """Every object of documents, Lists opened."""
    for _, obj in _items(documents, "", 0):
        yield obj


def makes_pods(obj: JsonObject) -> bool:
    """Whether an object is a pod or has the template of one, of a kind whose pods are known."""
    if custom.is_custom(str(obj.get("apiVersion", ""))):
        return custom.known_kind(obj)
    return obj.get("kind") in ("Pod", *TEMPLATES)


def manifests_from_documents(
    documents: Iterable[JsonValue],
    *,
    namespace: str = "default",
    classes: Iterable[PriorityClass] = (),
    may_be_none: bool = False,
) -> tuple[Manifest, ...]:
    """The pods that documents make: Pods, and the templates of workloads. `classes` resolve priorities.

    Custom kinds whose pods nobody can count are passed over. `may_be_none`: nothing need make a pod.

    Raises:
        ConfigError: objects that cannot be read, each with its place; or nothing that makes a pod.
    """
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    priority_classes, items = tuple(classes), list(_items(documents, "", 0))
    beside = tuple(_versions(body) for _, body in items if body.get("kind") in OF_CLAIMS)
    bodies = [body for _, body in items]
    for where, body in items:
        try:
            if custom.is_custom(str(body.get("apiVersion", ""))):
                made = custom_manifests(body, namespace, bodies)
            else:
                made = _manifests(body, namespace)
        except msgspec.ValidationError as error:
            problems.append(_problem(where, str(error)))
            continue
        manifests += (
            replace(
                manifest,
                pod=with_priority(manifest.pod, priority_classes),
                beside=beside,
                document=body,
            )
            for manifest in made
        )
    # What cannot be read may have been a pod, so that alone is said.
    if not manifests and not problems and not may_be_none:
        kinds_read = ", ".join(["Pod", *TEMPLATES])
        problems.append(Problem("nothing in it makes a pod", remedy=f"kinds that do: {kinds_read}"))
    if problems:
        raise ConfigError(*problems)
    return tuple(manifests)


def with_schedulers(snapshot: Snapshot, profiles: Iterable[SchedulerProfile]) -> Snapshot:
    """The cluster with schedulers that decide by these profiles."""
    return replace(snapshot, schedulers={profile.name: profile for profile in profiles})


def _manifests(body: dict[str, JsonValue], namespace: str) -> list[Manifest]:
    kind = body.get("kind")
    if kind == "Pod":
        written = _in_namespace(converted(body, w.Pod), namespace)
        pod = pod_from(written)
        return [Manifest("Pod", pod.name, pod, amounts_of(written, "spec"), written=body)]
    if not isinstance(kind, str) or kind not in TEMPLATES:
        return []
    spec = body.get("spec")
    where = "spec"
    if kind == "CronJob":
        job = spec.get("jobTemplate") if isinstance(spec, dict) else None
        spec, where = (job.get("spec") if isinstance(job, dict) else None), "spec.jobTemplate.spec"
    template = spec.get("template") if isinstance(spec, dict) else None
    outer = converted({"metadata": body.get("metadata") or {}}, w.Object)
    space = outer.metadata.namespace or namespace
    made = of_template(kind, space, outer.metadata.name, template, f"{where}.template.spec")
    return [
        replace(
            made,
            replicas=_replicas(kind, spec),
            completions=_completions(kind, spec),
            in_order=_in_order(kind, spec),
        )
    ]


def manifest_of(workload: WorkloadState, classes: Iterable[PriorityClass] = ()) -> Manifest:
    """The pods that a workload of the cluster makes. `classes` resolve priorities.

    Raises:
        ConfigError: its template cannot be read.
    """
    kind, namespace, name = workload.key
    where = "spec.jobTemplate.spec" if kind == "CronJob" else "spec"
    try:
        template: JsonValue = decoded_json(workload.template or b"{}", object)
        manifest = of_template(kind, namespace, name, template, f"{where}.template.spec")
    except msgspec.DecodeError as error:
        raise ConfigError(_problem(str(workload.key), str(error))) from None
    replicas = workload.desired if workload.desired is not None else 1
    return replace(manifest, pod=with_priority(manifest.pod, tuple(classes)), replicas=replicas)


def _replicas(kind: str, spec: JsonValue) -> int:
    """How many pods a workload has at a time; one where it does not say. A DaemonSet's hang on the nodes.

    Of a CronJob, `spec` is that of its Jobs.
    """
    fields = spec if isinstance(spec, dict) else {}
    jobs = kind in ("Job", "CronJob")
    number = fields.get("parallelism" if jobs else "replicas")
    completions = _completions(kind, spec)
    count = number if isinstance(number, int) and number >= 0 else 1
    return count if completions is None else min(count, completions)


def _completions(kind: str, spec: JsonValue) -> int | None:
    """How many pods of a Job are to succeed, where it says so."""
    fields = spec if isinstance(spec, dict) and kind in ("Job", "CronJob") else {}
    completions = fields.get("completions")
    return completions if isinstance(completions, int) and completions >= 0 else None


def _in_order(kind: str, spec: JsonValue) -> bool:
    fields = spec if isinstance(spec, dict) else {}
    return kind == "StatefulSet" and fields.get("podManagementPolicy", "OrderedReady") == "OrderedReady"


def _in_namespace(pod: w.Pod, namespace: str) -> w.Pod:
    pod.metadata.namespace = pod.metadata.namespace or namespace
    return pod


def placed_objects(documents: Iterable[JsonValue]) -> Iterator[tuple[str, JsonObject]]:
    """Every object of documents, Lists opened, with its place: `[2].items[7]`."""
    yield from _items(documents, "", 0)


def _items(
    documents: Iterable[JsonValue], where: str, depth: int
) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Single objects with their place; lists (`List`, `PodList`) are opened, what is none there is empty."""
    for index, document in enumerate(documents):
        place = f"{where}[{index}]"
        if not isinstance(document, dict):
            if depth:
                yield place, {}
            continue
        items = document.get("items")
        if (
            isinstance(items, list)
            and str(document.get("kind", "")).endswith("List")
            and depth < _DEEPEST_LIST
        ):
            yield from _items(_with_kind(document, items), f"{place}.items", depth + 1)
        elif document.get("kind") or depth:
            yield place, document


def _with_kind(outer: dict[str, JsonValue], items: list[JsonValue]) -> Iterator[JsonValue]:
    """Items of a typed list (`PodList`) may leave their kind out."""
    kind = str(outer.get("kind", "")).removesuffix("List")
    for element in items:
        if kind and isinstance(element, dict) and not element.get("kind"):
            yield {**element, "kind": kind, "apiVersion": outer.get("apiVersion", "")}
        else:
            yield element


def in_file(error: ConfigError, source: str) -> ConfigError:
    """The same problems, placed in the file that they were found in."""
    return ConfigError(
        *(
            problem
            if problem.where.startswith(source)
            else replace(problem, where=f"{source} {problem.where}".rstrip())
            for problem in error.problems
        )
    )


def in_files(error: ConfigError, files: Sequence[tuple[str, int]]) -> ConfigError:
    """The same problems, each placed in its file. `files`: names, and how many of the documents are theirs.

    A problem of all of them names no file where there are several.
    """
    if len(files) == 1:
        return in_file(error, files[0][0])
    return at_places(error, [f"{name} [{n}]" for name, count in files for n in range(count)])


def at_places(error: ConfigError, places: Sequence[str]) -> ConfigError:
    """The problems of a list of objects, where number n stands at the n-th of the places."""

    def placed(problem: Problem) -> Problem:
        number = _NUMBERED.match(problem.where)
        if number is None or int(number[1]) >= len(places):
            return problem
        return replace(problem, where=places[int(number[1])] + problem.where[number.end() :])

    return ConfigError(*map(placed, error.problems))


def _problem(where: str, error: str) -> Problem:
    message, _, path = error.partition(" - at `$")
    return Problem(message, where=where + path.rstrip("`"))
