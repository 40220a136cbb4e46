"""The kinds that Tonnage's own programs read and write, each with the Struct that decodes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage.wire import claims as c
from tonnage.wire import endpoints as e
from tonnage.wire import nvidia as v
from tonnage.wire import objects as o
from tonnage.wire import ownership as n
from tonnage.wire import policies as p
from tonnage.wire import reports as r
from tonnage.wire import workloads as w

T_co = TypeVar("T_co", bound=o.Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A kind at its API path: `group` is empty for core kinds, `plural` is the path segment."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T_co]

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`, as it stands in an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """URL path of the collection or the object.

        >>> POD.path("ml", "train", "status")
        '/api/v1/namespaces/ml/pods/train/status'
        """
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join(
            [*parts, self.plural, *([name] if name else []), *([subresource] if subresource else [])]
        )


POD = Kind("", "v1", "Pod", "pods", True, o.Pod)
NODE = Kind("", "v1", "Node", "nodes", False, o.Node)
LEAN_NODE = Kind("", "v1", "Node", "nodes", False, o.LeanNode)
NODE_WRITERS = Kind("", "v1", "Node", "nodes", False, n.OwnedNode)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, o.Namespace)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True, o.ConfigMap)
SECRET = Kind("", "v1", "Secret", "secrets", True, o.Secret)
EVENT = Kind("", "v1", "Event", "events", True, r.Event)
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", True, o.ResourceQuota)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, o.Object)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", True, o.Object)
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, o.Object)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, o.Object
)
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, o.ClusterRole)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", True, o.Deployment)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", True, o.ReplicaSet)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", True, o.DaemonSet)
JOB = Kind("batch", "v1", "Job", "jobs", True, w.Job)
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", True, w.CronJob)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", True, w.StatefulSet)
CONTROLLER_REVISION = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", True, o.ControllerRevision
)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, o.PriorityClass)
DISRUPTION_BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, o.PodDisruptionBudget
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, r.Lease)
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, r.AccessReview
)
CUSTOM_RESOURCE = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    o.CustomResourceDefinition,
)
NODE_GPU_STATUS = Kind("tonnage.dev", "v1alpha1", "NodeGPUStatus", "nodegpustatuses", False, o.NodeGPUStatus)
CLUSTER_POLICY = Kind("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies", False, v.ClusterPolicy)
GPU_CLUSTER = Kind("nvidia.com", "v1alpha1", "GPUCluster", "gpuclusters", False, v.GpuCluster)
NVIDIA_DRIVER = Kind("nvidia.com", "v1alpha1", "NVIDIADriver", "nvidiadrivers", False, v.NvidiaDriver)
KUEUE_WORKLOAD = Kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads", True, o.KueueWorkload)
SERVICE = Kind("", "v1", "Service", "services", True, o.Service)
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", True, e.Endpoints)
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, e.EndpointSlice)
REPLICATION_CONTROLLER = Kind(
    "", "v1", "ReplicationController", "replicationcontrollers", True, o.ReplicationController
)
NODE_FEATURE = Kind("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature", "nodefeatures", True, o.NodeFeature)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, c.ResourceSlice)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, c.DeviceClass)
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, c.ResourceClaim)
RESOURCE_CLAIM_TEMPLATE = Kind(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    True,
    c.ResourceClaimTemplate,
)
VOLUME_CLAIM = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, c.PersistentVolumeClaim
)
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, c.PersistentVolume)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, c.CSINode)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, c.CSIDriver)
STORAGE_CAPACITY = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, c.CSIStorageCapacity
)
VOLUME_ATTACHMENT = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, c.VolumeAttachment
)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, c.StorageClass)
DEVICE_TAINT_RULE = Kind(
    "resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", False, c.DeviceTaintRule
)
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", True, p.LimitRange)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, p.ServiceAccount)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, p.RuntimeClass)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    p.MutatingWebhooks,
)
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    p.ValidatingWebhooks,
)
ADMISSION_POLICY = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    False,
    p.AdmissionPolicy,
)
ADMISSION_POLICY_BINDING = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    False,
    p.AdmissionPolicyBinding,
)
POD_MAKERS = (
    Kind("apps", "v1", "Deployment", "deployments", True, p.DeploymentRead),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, p.ReplicaSetRead),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, p.StatefulSetRead),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, p.DaemonSetRead),
    Kind("batch", "v1", "Job", "jobs", True, p.JobRead),
    Kind("batch", "v1", "CronJob", "cronjobs", True, p.CronJobRead),
)
"""Workloads of every kind, their specs whole."""
