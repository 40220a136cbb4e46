"""What the API server asks before it takes a pod, and what makes pods, as far as answers need them.

Specs of workloads stay JSON objects here: their templates are carried, not read.

Source: the Kubernetes API: core v1, node.k8s.io v1, admissionregistration.k8s.io v1, apps v1, batch v1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Object, Toleration, Wire


class LimitRange(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ServiceAccount(Object):
    pass


class Overhead(Wire):
    pod_fixed: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class Scheduling(Wire):
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[Toleration] = msgspec.field(default_factory=list)


class RuntimeClass(Object):
    handler: str = ""
    overhead: Overhead = msgspec.field(default_factory=Overhead)
    scheduling: Scheduling = msgspec.field(default_factory=Scheduling)


class WebhookConfiguration(Object):
    webhooks: list[dict[str, Any]] = msgspec.field(default_factory=list)


class MutatingWebhooks(WebhookConfiguration):
    pass


class ValidatingWebhooks(WebhookConfiguration):
    pass


class AdmissionPolicy(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class AdmissionPolicyBinding(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class PodMaker(Object):
    """A workload of any kind."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class DeploymentRead(PodMaker):
    pass


class ReplicaSetRead(PodMaker):
    pass


class StatefulSetRead(PodMaker):
    pass


class DaemonSetRead(PodMaker):
    pass


class JobRead(PodMaker):
    pass


class CronJobRead(PodMaker):
    pass


class GpuCluster(Object):
    """GPUCluster of nvidia.com/v1alpha1, cluster-scoped; the controller owns `status`."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)
