"""What kubectl calls the custom kinds that make pods, and where their objects are served. Pure.

Source: the definitions of JobSet, Kubeflow's Training Operator and Trainer, MPI Operator, KubeRay,
LeaderWorkerSet, Volcano, Argo Rollouts and Workflows, OpenKruise, KEDA and Knative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CustomType:
    """A custom kind at its API path. `also`: its short names."""

    group: str
    kind: str
    also: tuple[str, ...] = ()

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def key(self) -> str:
        """Kind and group, which no two types share.

        >>> CustomType("jobset.x-k8s.io", "JobSet").key
        'JobSet.jobset.x-k8s.io'
        """
        return f"{self.kind}.{self.group}"

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called; those that Kubernetes' own kinds have stand with the group alone."""
        short = () if self.kind in _OWN else (self.kind.lower(), self.plural)
        return *short, *self.also, f"{self.kind.lower()}.{self.group}", f"{self.plural}.{self.group}"


_OWN: Final = frozenset({"Job", "StatefulSet", "DaemonSet", "Deployment", "ReplicaSet", "Service"})
_KUBEFLOW: Final = "kubeflow.org"
CUSTOM_TYPES: Final = (
    CustomType("jobset.x-k8s.io", "JobSet"),
    CustomType("trainer.kubeflow.org", "TrainJob"),
    CustomType(_KUBEFLOW, "PyTorchJob"),
    CustomType(_KUBEFLOW, "TFJob"),
    CustomType(_KUBEFLOW, "XGBoostJob"),
    CustomType(_KUBEFLOW, "PaddleJob"),
    CustomType(_KUBEFLOW, "JAXJob"),
    CustomType(_KUBEFLOW, "MPIJob", ("mj",)),
    CustomType(_KUBEFLOW, "Notebook"),
    CustomType("ray.io", "RayCluster"),
    CustomType("ray.io", "RayJob"),
    CustomType("ray.io", "RayService"),
    CustomType("leaderworkerset.x-k8s.io", "LeaderWorkerSet", ("lws",)),
    CustomType("batch.volcano.sh", "Job", ("vcjob", "vj")),
    CustomType("argoproj.io", "Rollout", ("ro",)),
    CustomType("argoproj.io", "Workflow", ("wf",)),
    CustomType("apps.kruise.io", "CloneSet", ("clone",)),
    CustomType("apps.kruise.io", "StatefulSet", ("asts",)),
    CustomType("serving.knative.dev", "Service", ("ksvc", "kservice")),
    CustomType("keda.sh", "ScaledJob", ("sj",)),
)
_BY_NAME: Final = {name: custom for custom in CUSTOM_TYPES for name in custom.names}
_BY_KEY: Final = {custom.key: custom for custom in CUSTOM_TYPES}


def custom_type(name: str) -> CustomType | None:
    """The custom kind that kubectl knows under this name.

    >>> [found.key for found in map(custom_type, ("lws", "jobs.batch.volcano.sh")) if found]
    ['LeaderWorkerSet.leaderworkerset.x-k8s.io', 'Job.batch.volcano.sh']
    """
    return _BY_NAME.get(name.lower())


def custom_type_of(key: str) -> CustomType | None:
    """The custom kind of a key."""
    return _BY_KEY.get(key)
