"""Labels, annotations, finalizers and fields with a meaning to Kubernetes of which several modules know."""

from __future__ import annotations

from typing import Final

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
KUBERNETES_SERVICE: Final = ("default", "kubernetes")
"""Namespace and name of the Service of the API server."""
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
DEFAULT_STORAGE_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
DEVICE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has devices."""
FOREGROUND: Final = "foregroundDeletion"
LEASE_NAMESPACE: Final = "kube-node-lease"
MIRROR: Final = "kubernetes.io/config.mirror"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
NOT_READY: Final = "node.kubernetes.io/not-ready"
OLD_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
OLD_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
ORPHAN: Final = "orphan"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SAFE_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of which names are made that spell nothing."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
SLICE_MANAGER: Final = "endpointslice.kubernetes.io/managed-by"
SLICE_SERVICE: Final = "kubernetes.io/service-name"
SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
ZONE: Final = "topology.kubernetes.io/zone"
