"""What a pod's specification names: secrets, config maps, claims, the account. Its node may read these.

Source: pkg/api/v1/pod/util.go and plugin/pkg/auth/authorizer/node/graph.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, text
from tonnage.model.kubernetes.well_known import MIRROR

_SECRET_REFERENCES: Final = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


def names_object(pod: JsonObject, plural: str, name: str) -> bool:
    """Whether the pod needs the object of its namespace to run. A mirror pod has a right to nothing."""
    if at(pod, "metadata", "annotations", MIRROR) is not None:
        return False
    match plural:
        case "secrets":
            return name in secret_names(mapping(pod, "spec"))
        case "configmaps":
            return name in _config_maps(mapping(pod, "spec"))
        case "serviceaccounts":
            return text(pod, "spec", "serviceAccountName") == name
        case "persistentvolumeclaims":
            return name in _volume_claims(pod)
        case "resourceclaims":
            return name in _resource_claims(pod)
    return False


def secret_names(spec: JsonObject) -> Iterator[str]:
    """Secrets that a pod needs."""
    yield from (text(entry, "name") for entry in mappings(spec, "imagePullSecrets"))
    yield from _environment(spec, "secretRef", "secretKeyRef")
    for volume in mappings(spec, "volumes"):
        yield text(volume, "secret", "secretName")
        yield text(volume, "azureFile", "secretName")
        yield text(volume, "csi", "nodePublishSecretRef", "name")
        yield from (text(volume, kind, "secretRef", "name") for kind in _SECRET_REFERENCES)
        yield from (text(entry, "secret", "name") for entry in mappings(volume, "projected", "sources"))


def _config_maps(spec: JsonObject) -> Iterator[str]:
    yield from _environment(spec, "configMapRef", "configMapKeyRef")
    for volume in mappings(spec, "volumes"):
        yield text(volume, "configMap", "name")
        yield from (text(source, "configMap", "name") for source in mappings(volume, "projected", "sources"))


def _environment(spec: JsonObject, whole: str, key: str) -> Iterator[str]:
    for container, _ in every_container(spec, ""):
        yield from (text(entry, whole, "name") for entry in mappings(container, "envFrom"))
        yield from (text(entry, "valueFrom", key, "name") for entry in mappings(container, "env"))


def _volume_claims(pod: JsonObject) -> Iterator[str]:
    own = text(pod, "metadata", "name")
    for volume in mappings(pod, "spec", "volumes"):
        yield text(volume, "persistentVolumeClaim", "claimName")
        if at(volume, "ephemeral") is not None:
            yield f"{own}-{text(volume, 'name')}"


def _resource_claims(pod: JsonObject) -> Iterator[str]:
    yield from (text(entry, "resourceClaimName") for entry in mappings(pod, "spec", "resourceClaims"))
    yield from (
        text(entry, "resourceClaimName") for entry in mappings(pod, "status", "resourceClaimStatuses")
    )
    yield text(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")


def first_reference(pod: JsonObject) -> str:
    """The first sort of API object that the pod needs, as refusals name it; empty if it needs none."""
    spec = mapping(pod, "spec")
    if text(spec, "serviceAccountName"):
        return "serviceaccounts"
    if any(secret_names(spec)):
        return "secrets"
    if any(_config_maps(spec)):
        return "configmaps"
    if mappings(spec, "resourceClaims"):
        return "resourceclaims"
    for volume in mappings(spec, "volumes"):
        for key, shown in _VOLUMES:
            if at(volume, key) is not None:
                return shown
        sources = mappings(volume, "projected", "sources")
        if any(at(source, "serviceAccountToken") is not None for source in sources):
            return "serviceaccounts (via projected volumes)"
    return ""


_VOLUMES: Final = (
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
)
