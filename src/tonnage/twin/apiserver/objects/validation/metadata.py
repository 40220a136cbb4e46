"""ObjectMeta: names by kind, labels, annotations, owners, and what an update must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, forbidden, invalid, required, too_long
from tonnage.twin.apiserver.objects.validation.fields import (
    NEGATIVE,
    Found,
    finalizers,
    labels,
    standard_finalizer,
    unchanged,
)
from tonnage.twin.apiserver.objects.validation.network import canonical_address
from tonnage.wire.schema import KindRow

LARGEST_ANNOTATIONS: Final = 256 * 1024
NAME_RULES: Final[dict[tuple[str, str], Callable[[str], names.Complaints]]] = {
    ("", "Namespace"): names.dns_label,
    ("", "Service"): names.dns_label_1035,
    ("apiregistration.k8s.io", "APIService"): names.path_segment,
    ("apps", "StatefulSet"): names.dns_label,
    ("certificates.k8s.io", "CertificateSigningRequest"): names.path_segment,
    ("networking.k8s.io", "IPAddress"): canonical_address,
    ("policy", "PodDisruptionBudget"): names.path_segment,
    ("rbac.authorization.k8s.io", "Role"): names.path_segment,
    ("rbac.authorization.k8s.io", "RoleBinding"): names.path_segment,
    ("rbac.authorization.k8s.io", "ClusterRole"): names.path_segment,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): names.path_segment,
}
"""Kinds whose names are not DNS subdomains."""
_ADMISSION: Final = "admissionregistration.k8s.io"
_RIGHTS: Final = "rbac.authorization.k8s.io"
CHECKED_AGAIN: Final = frozenset(
    {
        *(("", kind) for kind in ("ConfigMap", "Endpoints", "Node", "Pod", "Secret", "ServiceAccount")),
        *(("", kind) for kind in ("PersistentVolume", "PersistentVolumeClaim")),
        *((_ADMISSION, f"ValidatingAdmissionPolicy{part}") for part in ("", "Binding")),
        *((_ADMISSION, f"{what}WebhookConfiguration") for what in ("Mutating", "Validating")),
        *((_RIGHTS, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
        *(("apps", kind) for kind in ("ControllerRevision", "StatefulSet")),
        *(("networking.k8s.io", kind) for kind in ("Ingress", "IngressClass")),
        *(("storage.k8s.io", kind) for kind in ("CSINode", "VolumeAttachment", "VolumeAttributesClass")),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("resource.k8s.io", "ResourceClaim"),
    }
)
"""Kinds whose update looks at all finalizers as of a new object (ValidateObjectMeta of Validate…Update)."""
_WITHOUT_STANDARD_FINALIZERS: Final = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
_FIXED: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_NOT_OF_TEMPLATES: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_SPELLED: Final = {"uid": "uID"}
"""Names in Go whose first letter alone becomes small."""


def metadata_create(kind_row: KindRow, obj: JsonObject) -> Found:
    """Metadata of a new object, whose name must have been generated already if it is to be."""
    meta = mapping(obj, "metadata")
    rule = NAME_RULES.get((kind_row.group, kind_row.kind), names.dns_subdomain)
    name, generate = text(meta, "name"), text(meta, "generateName")
    if generate:
        # The server adds letters, so a trailing hyphen is fine.
        yield from complaints("metadata.generateName", generate, rule(generate.removesuffix("-") + "a"))
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from complaints("metadata.name", name, rule(name))
    yield from _namespace(kind_row, text(meta, "namespace"))
    if (generation := number(meta, "generation")) < 0:
        yield invalid("metadata.generation", generation, NEGATIVE)
    yield from _common(meta)
    yield from finalizers(meta, "metadata")
    yield from _standard_finalizers(kind_row, meta)


def metadata_update(kind_row: KindRow, new: JsonObject, old: JsonObject, subresource: str = "") -> Found:
    """Metadata of an update against what is stored."""
    meta, before = mapping(new, "metadata"), mapping(old, "metadata")
    if before.get("deletionTimestamp"):
        added = sorted(set(texts(meta, "finalizers")) - set(texts(before, "finalizers")))
        if added:
            shown = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            words = "no new finalizers can be added if the object is being deleted, found new finalizers "
            yield forbidden("metadata.finalizers", words + shown)
    if not text(meta, "resourceVersion"):
        yield invalid("metadata.resourceVersion", "", "must be specified for an update")
    if number(meta, "generation") < number(before, "generation"):
        yield invalid("metadata.generation", number(meta, "generation"), "must not be decremented")
    yield from identity_kept(new, old)
    yield from _common(meta)
    yield from _standard_finalizers(kind_row, meta)
    if (kind_row.group, kind_row.kind) in CHECKED_AGAIN and not subresource:
        yield from finalizers(meta, "metadata")


def identity_kept(new: JsonObject, old: JsonObject) -> Found:
    """Metadata that no writer changes, of whatever kind."""
    meta, before = mapping(new, "metadata"), mapping(old, "metadata")
    for key in _FIXED:
        yield from unchanged(meta.get(key), before.get(key), f"metadata.{key}")


def _standard_finalizers(kind_row: KindRow, meta: JsonObject) -> Found:
    if not kind_row.type or kind_row.group in _WITHOUT_STANDARD_FINALIZERS:
        return
    for index, finalizer in enumerate(texts(meta, "finalizers")):
        yield from standard_finalizer(finalizer, f"metadata.finalizers[{index}]")


def _namespace(kind_row: KindRow, namespace: str) -> Found:
    if not kind_row.namespaced:
        return  # The server clears it.
    if not namespace:
        yield required("metadata.namespace")
    else:
        yield from complaints("metadata.namespace", namespace, names.dns_label(namespace))


def _common(meta: JsonObject) -> Found:
    yield from labels(mapping(meta, "labels"), "metadata.labels")
    yield from annotation_rules(mapping(meta, "annotations"), "metadata.annotations")
    yield from _owners(mappings(meta, "ownerReferences"))


def annotation_rules(found: JsonObject, path: str) -> Found:
    """Keys of annotations, and the size of them all."""
    for key in sorted(found):
        yield from complaints(path, key, names.qualified_name(key.lower()))
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in found.items())
        > LARGEST_ANNOTATIONS
    ):
        yield too_long(path, LARGEST_ANNOTATIONS)


def template_metadata(metadata: JsonObject, path: str) -> Found:
    """What claims made by a template get: nothing but annotations and labels."""
    yield from annotation_rules(mapping(metadata, "annotations"), f"{path}.annotations")
    yield from labels(mapping(metadata, "labels"), f"{path}.labels")
    for key in _NOT_OF_TEMPLATES:
        if metadata.get(key):
            yield forbidden(f"{path}.{_SPELLED.get(key, key)}", "cannot be set")


def _owners(owners: list[JsonObject]) -> Found:
    path = "metadata.ownerReferences"
    first = ""
    for owner in owners:
        yield from _owner(owner, path)
        if flag(owner, "controller"):
            this = f"{text(owner, 'kind')}/{text(owner, 'name')}"
            if first:
                words = 'Only one reference can have Controller set to true. Found "true" in references for '
                yield invalid(path, list(owners), f"{words}{first} and {this}")
            first = first or this


def _owner(owner: JsonObject, path: str) -> Found:
    group, _, version = text(owner, "apiVersion").rpartition("/")
    if not version or "/" in group:
        yield invalid(f"{path}.apiVersion", text(owner, "apiVersion"), "version must not be empty")
    for key in ("kind", "name", "uid"):
        if not text(owner, key):
            yield invalid(f"{path}.{key}", "", "must not be empty")
    if (text(owner, "apiVersion"), text(owner, "kind")) == ("v1", "Event"):
        yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
