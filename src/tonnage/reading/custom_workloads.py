"""Where custom kinds keep their pod templates and how many pods they make of each. Pure.

Source: the types of JobSet, Kubeflow's Training Operator and Trainer, MPI Operator, KubeRay, LeaderWorkerSet,
Volcano, Argo Rollouts and OpenKruise, and what their controllers do where a field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.pod_sets import PodSet
from tonnage.reading.jobset_order import NO_COUNTS, CountsByJob, job_counts, job_wait

UNKNOWN_KIND: Final = "Tonnage does not know how many pods this kind makes"
_MOST: Final = 2**31 - 1
_JOBSET: Final = "jobset.sigs.k8s.io"
_TRAINING: Final = "training.kubeflow.org"
_GROUPED: Final = "leaderworkerset.sigs.k8s.io"
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_EXCLUSIVE: Final = ("alpha.jobset.sigs.k8s.io/exclusive-topology", f"{_GROUPED}/exclusive-topology")


class PodsUndetermined(Exception):  # noqa: N818 an answer, not an error: why nobody can count the pods
    """Why the number of pods cannot be told from the files, and what to do where that is plain."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A pod template of an object, and how many pods are made of it at a time."""

    pods: PodSet
    template: JsonObject
    count: int
    scheduler: str = ""
    """The scheduler of pods that name none, where it is not Kubernetes' own."""


def is_custom(api_version: str) -> bool:
    """Whether a version is of a group that Kubernetes itself cannot have.

    >>> is_custom("batch.volcano.sh/v1alpha1"), is_custom("apps/v1"), is_custom("networking.k8s.io/v1")
    (True, False, False)
    """
    group = api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def known_kind(obj: JsonObject) -> bool:
    """Whether the object is of a custom kind whose pods are known."""
    return _key(obj) in _READERS


def template_uses(obj: JsonObject, objects: Iterable[JsonObject]) -> tuple[TemplateUse, ...]:
    """The pod templates of an object with their numbers. `objects` are all of the same files.

    Raises:
        PodsUndetermined: the object, or what stands beside it, does not say how many.
    """
    reader = _READERS.get(_key(obj))
    if reader is None:
        raise PodsUndetermined(UNKNOWN_KIND)
    return tuple(reader(obj, tuple(objects)))


def why_undetermined(obj: JsonObject, objects: Iterable[JsonObject]) -> tuple[str, str]:
    """Why the pods of an object of a custom kind cannot be counted, and what to do; empty where they can."""
    try:
        template_uses(obj, objects)
    except PodsUndetermined as undetermined:
        return undetermined.why, undetermined.remedy
    return "", ""


def makes_none(obj: JsonObject) -> bool:
    """Whether the kind has pod templates for others to use, and makes no pods itself."""
    return _key(obj) in _TEMPLATES_ALONE


def exclusive_topology(obj: JsonObject) -> bool:
    """Whether a controller adds affinity, by which a group of pods has a topology domain for itself."""
    annotations = _mapping(_mapping(obj.get("metadata")).get("annotations"))
    return any(name in annotations for name in _EXCLUSIVE)


def _key(obj: JsonObject) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def _name(obj: JsonObject) -> str:
    name = _mapping(obj.get("metadata")).get("name")
    return name if isinstance(name, str) else ""


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _mappings(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    for index, element in enumerate(value if isinstance(value, list) else []):
        if isinstance(element, dict):
            yield index, element


def _number(fields: JsonObject, name: str, default: int, where: str) -> int:
    """A count. Raises PodsUndetermined: it is there, and is no whole number."""
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        why = f"{where}.{name} is not a whole number from 0 to {_MOST}"
        raise PodsUndetermined(why, f"correct {where}.{name}")
    return value


def _scaled(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    """`spec.replicas` of `spec.template`, as a Deployment has them."""
    spec = _mapping(obj.get("spec"))
    if not isinstance(spec.get("template"), dict):
        raise PodsUndetermined("its template is in another object (spec.workloadRef)" if "workloadRef" in spec
                               else "spec.template is missing")  # fmt: skip
    pods = PodSet("", "spec.template", _name(obj), generated=_key(obj)[1] != "StatefulSet")
    yield TemplateUse(pods, _mapping(spec.get("template")), _number(spec, "replicas", 1, "spec"))


def _notebook(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    pods = PodSet("", "spec.template", _name(obj), labels={"notebook-name": _name(obj)})
    yield TemplateUse(pods, _mapping(_mapping(obj.get("spec")).get("template")), 1)


def _jobset(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    yield from _replicated_jobs(_mapping(obj.get("spec")), _name(obj), "spec", counts=job_counts(obj))


def _replicated_jobs(
    spec: JsonObject,
    name: str,
    where: str,
    nodes: int | None = None,
    node: JsonObject | None = None,
    counts: CountsByJob = NO_COUNTS,
) -> Iterator[TemplateUse]:
    """The Jobs of a JobSet. `nodes` and `node`: how many a TrainJob wants of its trainer, and the trainer."""
    for index, job in _mappings(spec.get("replicatedJobs")):
        at, part = f"{where}.replicatedJobs[{index}]", str(job.get("name") or index)
        if wait := job_wait(spec, job, part, counts):
            raise PodsUndetermined(str(wait), wait.remedy)
        outer = _mapping(job.get("template"))
        inner = _mapping(outer.get("spec"))
        template = _mapping(inner.get("template"))
        at_once = _number(inner, "parallelism", 1, f"{at}.template.spec")
        pods = min(at_once, _number(inner, "completions", at_once, f"{at}.template.spec"))
        labels = _mapping(_mapping(outer.get("metadata")).get("labels"))
        if labels.get(_STEP) == "trainer":
            pods = pods if nodes is None else nodes
            template = _with_node(template, node or {})
        jobs = _number(job, "replicas", 1, at)
        own = {f"{_JOBSET}/jobset-name": name, f"{_JOBSET}/replicatedjob-name": part}
        path = f"{at}.template.spec.template"
        alone = pods == 1 and jobs > 1  # as many Jobs as there are pods
        pod_set = PodSet(
            part, path, f"{name}-{part}", max(1, pods), generated=True, labels=own, independent=alone
        )
        yield TemplateUse(pod_set, template, jobs * pods)


def _with_node(template: JsonObject, node: JsonObject) -> JsonObject:
    """A runtime's template with what a TrainJob says of its container `node`."""
    resources = node.get("resourcesPerNode")
    if not isinstance(resources, dict):
        return template
    spec = _mapping(template.get("spec"))
    containers: list[JsonValue] = [
        {**container, "resources": resources} if container.get("name") == "node" else container
        for _, container in _mappings(spec.get("containers"))
    ]
    return {**template, "spec": {**spec, "containers": containers}}


def _trainjob(obj: JsonObject, objects: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    """The Jobs of its runtime, where that is in the files."""
    spec = _mapping(obj.get("spec"))
    reference = _mapping(spec.get("runtimeRef"))
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name", ""))
    runtime = next((other for other in objects if (other.get("kind"), _name(other)) == (kind, name)), None)
    if runtime is None:
        why = f"its pods come from {kind[:63]} {name[:63]}, which is not among the files"
        remedy = f"add it with another -f: kubectl get {kind[:63].lower()} {name[:63]} -o yaml"
        raise PodsUndetermined(why, remedy)
    of_runtime, trainer = _mapping(runtime.get("spec")), _mapping(spec.get("trainer"))
    default = _number(_mapping(of_runtime.get("mlPolicy")), "numNodes", 1, "spec.mlPolicy of its runtime")
    nodes = _number(trainer, "numNodes", default, "spec.trainer")
    jobs = _mapping(_mapping(of_runtime.get("template")).get("spec"))
    yield from _replicated_jobs(jobs, _name(obj), "spec.template.spec", nodes, trainer)


def _by_role(field: str, defaults: Mapping[str, int]) -> Callable[..., Iterator[TemplateUse]]:
    """Kubeflow's jobs: a template and a number for each role. `defaults`: numbers that are not one."""

    def read(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
        name = _name(obj)
        for role, value in _mapping(_mapping(obj.get("spec")).get(field)).items():
            fields, where = _mapping(value), f"spec.{field}.{role}"
            count = _number(fields, "replicas", defaults.get(role, 1), where)
            labels = {f"{_TRAINING}/job-name": name, f"{_TRAINING}/replica-type": role.lower()}
            pods = PodSet(role, f"{where}.template", f"{name}-{role.lower()}", labels=labels)
            yield TemplateUse(pods, _mapping(fields.get("template")), count)

    return read


def _ray(*above: str) -> Callable[..., Iterator[TemplateUse]]:
    """A Ray cluster, which stands in `above` of the object."""

    def read(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
        spec = obj
        for key in above:
            spec = _mapping(spec.get(key))
        if not spec and len(above) > 1:
            raise PodsUndetermined("it runs on a Ray cluster that it does not make (clusterSelector)")
        where, name = ".".join(above), _name(obj)
        label = {"ray.io/cluster": name} if len(above) == 1 else {}
        head = PodSet("head", f"{where}.headGroupSpec.template", f"{name}-head", generated=True, labels=label)
        yield TemplateUse(head, _mapping(_mapping(spec.get("headGroupSpec")).get("template")), 1)
        for index, group in _mappings(spec.get("workerGroupSpecs")):
            at, part = f"{where}.workerGroupSpecs[{index}]", str(group.get("groupName") or index)
            prefix, own = f"{name}-{part}-worker", {**label, "ray.io/group": part}
            pods = PodSet(part, f"{at}.template", prefix, generated=True, labels=own)
            yield TemplateUse(pods, _mapping(group.get("template")), _ray_workers(group, at))

    return read


def _ray_workers(group: JsonObject, where: str) -> int:
    """Within the group's bounds; a replica may be several hosts."""
    if group.get("suspend") is True:
        return 0
    least = _number(group, "minReplicas", 0, where)
    desired = max(_number(group, "replicas", least, where), least)
    most = _number(group, "maxReplicas", desired, where)
    return min(desired, max(most, least)) * _number(group, "numOfHosts", 1, where)


def _leader_worker_set(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    spec, name = _mapping(obj.get("spec")), _name(obj)
    inner, where = _mapping(spec.get("leaderWorkerTemplate")), "spec.leaderWorkerTemplate"
    groups, size = _number(spec, "replicas", 1, "spec"), _number(inner, "size", 1, where)
    worker, labels = _mapping(inner.get("workerTemplate")), {f"{_GROUPED}/name": name}
    own = isinstance(inner.get("leaderTemplate"), dict)
    leader = _mapping(inner.get("leaderTemplate")) if own else worker
    path = f"{where}.{'leaderTemplate' if own else 'workerTemplate'}"
    yield TemplateUse(PodSet("leader", path, name, labels=labels), leader, groups)
    if size > 1:
        pods = PodSet("worker", f"{where}.workerTemplate", name, size - 1, 1, labels=labels)
        yield TemplateUse(pods, worker, groups * (size - 1))


def _volcano(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
    spec, name = _mapping(obj.get("spec")), _name(obj)
    scheduler = spec.get("schedulerName")
    for index, task in _mappings(spec.get("tasks")):
        at, part = f"spec.tasks[{index}]", str(task.get("name") or f"default{index}")
        labels = {"volcano.sh/job-name": name, "volcano.sh/task-spec": part}
        pods = PodSet(part, f"{at}.template", f"{name}-{part}", labels=labels)
        count = _number(task, "replicas", 1, at)
        by = scheduler if isinstance(scheduler, str) and scheduler else "volcano"
        yield TemplateUse(pods, _mapping(task.get("template")), count, by)


def _undetermined(why: str) -> Callable[..., Iterator[TemplateUse]]:
    def read(obj: JsonObject, _: Sequence[JsonObject]) -> Iterator[TemplateUse]:
        raise PodsUndetermined(why)

    return read


_KUBEFLOW: Final = "kubeflow.org"
_READERS: Final[Mapping[tuple[str, str], Callable[..., Iterator[TemplateUse]]]] = {
    ("jobset.x-k8s.io", "JobSet"): _jobset,
    ("trainer.kubeflow.org", "TrainJob"): _trainjob,
    (_KUBEFLOW, "PyTorchJob"): _by_role("pytorchReplicaSpecs", {}),
    (_KUBEFLOW, "TFJob"): _by_role("tfReplicaSpecs", {}),
    (_KUBEFLOW, "XGBoostJob"): _by_role("xgbReplicaSpecs", {}),
    (_KUBEFLOW, "PaddleJob"): _by_role("paddleReplicaSpecs", {}),
    (_KUBEFLOW, "JAXJob"): _by_role("jaxReplicaSpecs", {}),
    (_KUBEFLOW, "MPIJob"): _by_role("mpiReplicaSpecs", {"Worker": 0}),
    (_KUBEFLOW, "Notebook"): _notebook,
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): _ray("spec", "rayClusterSpec"),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("batch.volcano.sh", "Job"): _volcano,
    ("argoproj.io", "Rollout"): _scaled,
    ("apps.kruise.io", "CloneSet"): _scaled,
    ("apps.kruise.io", "StatefulSet"): _scaled,
    ("argoproj.io", "Workflow"): _undetermined("its steps decide while it runs how many pods there are"),
    ("argoproj.io", "CronWorkflow"): _undetermined("its steps decide while it runs how many pods there are"),
    ("serving.knative.dev", "Service"): _undetermined("requests decide how many pods there are"),
    ("keda.sh", "ScaledJob"): _undetermined("events decide how many pods there are"),
}
_TEMPLATES_ALONE: Final = frozenset(
    {
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org", "TrainingRuntime"),
        ("argoproj.io", "WorkflowTemplate"),
        ("argoproj.io", "ClusterWorkflowTemplate"),
        ("", "PodTemplate"),
    }
)
