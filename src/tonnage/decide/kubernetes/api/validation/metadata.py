"""ObjectMeta: names by kind, labels, annotations, owners, and what an update must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, forbidden, invalid, required, too_long
from tonnage.decide.kubernetes.api.validation.fields import (
    NEGATIVE,
    FieldErrors,
    finalizers,
    labels,
    standard_finalizer,
    unchanged,
)
from tonnage.decide.kubernetes.api.validation.network.addresses import canonical_address
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, number, text, texts
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
_FIXED: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_GENERAL_GROUPS: Final = ("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io")
_CHANGES: Final = (1, 0)
_BOTH: Final = (1, 1)
_WHOLE: Final = (0, 1)
_CHECKED_ANEW: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("", "Event"): (0, 0),
    ("events.k8s.io", "Event"): (0, 0),
    ("", "ConfigMap"): _BOTH,
    ("", "Endpoints"): _BOTH,
    ("", "LimitRange"): _WHOLE,
    ("", "Namespace"): _BOTH,
    ("", "Node"): _BOTH,
    ("", "PersistentVolume"): _WHOLE,
    ("", "PersistentVolumeClaim"): _BOTH,
    ("", "Pod"): _BOTH,
    ("", "Secret"): _BOTH,
    ("", "ServiceAccount"): _BOTH,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WHOLE,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _WHOLE,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _WHOLE,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WHOLE,
    ("apiregistration.k8s.io", "APIService"): _BOTH,
    ("apps", "ControllerRevision"): _BOTH,
    ("certificates.k8s.io", "CertificateSigningRequest"): _BOTH,
    ("discovery.k8s.io", "EndpointSlice"): _WHOLE,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _WHOLE,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _WHOLE,
    ("networking.k8s.io", "Ingress"): _BOTH,
    ("networking.k8s.io", "IngressClass"): _BOTH,
    ("policy", "PodDisruptionBudget"): (0, 0),
    ("rbac.authorization.k8s.io", "ClusterRole"): _BOTH,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BOTH,
    ("rbac.authorization.k8s.io", "Role"): _BOTH,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BOTH,
    ("resource.k8s.io", "DeviceClass"): _BOTH,
    ("resource.k8s.io", "ResourceClaim"): _BOTH,
    ("storage.k8s.io", "CSINode"): (0, 2),
    ("storage.k8s.io", "VolumeAttachment"): _WHOLE,
    ("storage.k8s.io", "VolumeAttributesClass"): _BOTH,
}
"""How often rules of an update check what changes of metadata, and how often all of it, if not (1, 0)."""
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


def metadata_create(kind_row: KindRow, obj: JsonObject) -> FieldErrors:
    """Metadata of a new object, whose name must have been generated already if it is to be."""
    meta = mapping(obj, "metadata")
    rule = NAME_RULES.get((kind_row.group, kind_row.kind), names.dns_subdomain)
    yield from _name_or_prefix(meta, rule)
    yield from _whole(meta, namespaced=kind_row.namespaced)
    yield from _own_finalizers(kind_row, meta)


def any_metadata(kind_row: KindRow, obj: JsonObject) -> FieldErrors:
    """What the server demands of the metadata of every object, whatever its kind's own rules."""
    meta = mapping(obj, "metadata")
    yield from _name_or_prefix(meta, names.path_segment)
    yield from _whole(meta, namespaced=kind_row.namespaced)


def custom_metadata(obj: JsonObject) -> FieldErrors:
    """Metadata of an object of a custom kind, whose scope is what the object says it is."""
    meta = mapping(obj, "metadata")
    yield from _name_or_prefix(meta, names.dns_subdomain)
    yield from _whole(meta, namespaced=bool(text(meta, "namespace")))


def embedded_metadata(meta: JsonObject) -> FieldErrors:
    """Metadata of a whole object within another, which may have no name."""
    yield from _name_or_prefix({**meta, "name": text(meta, "name") or "fakename"}, names.path_segment)
    yield from _whole(meta, namespaced=bool(text(meta, "namespace")))


def namespaced_metadata(obj: JsonObject) -> FieldErrors:
    """Metadata of a new object with a namespace and the usual name, for rules that check more before it."""
    meta = mapping(obj, "metadata")
    yield from _name_or_prefix(meta, names.dns_subdomain)
    yield from _whole(meta, namespaced=True)
    yield from _standard_finalizers(meta)


def metadata_changed(new: JsonObject, old: JsonObject) -> FieldErrors:
    """What an update changes of metadata, for rules that check more before it."""
    yield from _changed(mapping(new, "metadata"), mapping(old, "metadata"))
    yield from _standard_finalizers(mapping(new, "metadata"))


def metadata_update(
    kind_row: KindRow, new: JsonObject, old: JsonObject, subresource: str = ""
) -> FieldErrors:
    """Metadata of an update against what is stored: what every kind is held to, and its own rules again.

    The server tells a fault as often as it finds it.
    """
    meta, before = mapping(new, "metadata"), mapping(old, "metadata")
    whole, changed = tuple(_whole(meta, namespaced=kind_row.namespaced)), tuple(_changed(meta, before))
    yield from _name_or_prefix(meta, names.path_segment)
    yield from whole
    yield from changed
    changes, wholes = _CHECKED_ANEW.get((kind_row.group, kind_row.kind), _CHANGES)
    if subresource == "status" and (changes or wholes):
        changes, wholes = _CHANGES
    yield from changed * changes
    finalizers_named = tuple(_own_finalizers(kind_row, meta))
    yield from finalizers_named * changes
    yield from (*whole, *finalizers_named) * wholes


def _name_or_prefix(meta: JsonObject, rule: Callable[[str], names.Complaints]) -> FieldErrors:
    name, generate = text(meta, "name"), text(meta, "generateName")
    if generate:
        # The server adds letters, so a trailing hyphen is fine.
        masked = f"{generate[:-2]}a" if len(generate) > 1 and generate.endswith("-") else generate
        yield from complaints("metadata.generateName", generate, rule(masked))
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from complaints("metadata.name", name, rule(name))


def _whole(meta: JsonObject, *, namespaced: bool) -> FieldErrors:
    if namespaced:  # From others the server takes it.
        yield from _namespace(text(meta, "namespace"))
    if (generation := number(meta, "generation")) < 0:
        yield invalid("metadata.generation", generation, NEGATIVE)
    yield from _common(meta)
    yield from finalizers(meta, "metadata")


def _changed(meta: JsonObject, before: JsonObject) -> FieldErrors:
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
    for key in _FIXED:
        yield from unchanged(meta.get(key), before.get(key), f"metadata.{key}")
    yield from _common(meta)


def _own_finalizers(kind_row: KindRow, meta: JsonObject) -> FieldErrors:
    """Finalizers of kinds whose rules know the standard ones."""
    if kind_row.type and kind_row.group not in _GENERAL_GROUPS:
        yield from _standard_finalizers(meta)


def _standard_finalizers(meta: JsonObject) -> FieldErrors:
    for index, finalizer in enumerate(texts(meta, "finalizers")):
        yield from standard_finalizer(finalizer, f"metadata.finalizers[{index}]")


def _namespace(namespace: str) -> FieldErrors:
    if not namespace:
        yield required("metadata.namespace")
    else:
        yield from complaints("metadata.namespace", namespace, names.dns_label(namespace))


def _common(meta: JsonObject) -> FieldErrors:
    yield from labels(mapping(meta, "labels"), "metadata.labels")
    yield from annotation_rules(mapping(meta, "annotations"), "metadata.annotations")
    yield from _owners(mappings(meta, "ownerReferences"))


def annotation_rules(annotations: JsonObject, path: str) -> FieldErrors:
    """Keys of annotations, and the size of them all."""
    for key in sorted(annotations):
        yield from complaints(path, key, names.qualified_name(key.lower()))
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
        > LARGEST_ANNOTATIONS
    ):
        yield too_long(path, LARGEST_ANNOTATIONS)


def template_metadata(metadata: JsonObject, path: str) -> FieldErrors:
    """What claims made by a template get: nothing but annotations and labels."""
    yield from annotation_rules(mapping(metadata, "annotations"), f"{path}.annotations")
    yield from labels(mapping(metadata, "labels"), f"{path}.labels")
    for key in _NOT_OF_TEMPLATES:
        value = metadata.get(key)
        if value or value == [] or (key == "deletionGracePeriodSeconds" and key in metadata):
            yield forbidden(f"{path}.{_SPELLED.get(key, key)}", "cannot be set")


def _owners(owners: list[JsonObject]) -> FieldErrors:
    path = "metadata.ownerReferences"
    first = ""
    for owner in owners:
        yield from _owner(owner, path)
        if flag(owner, "controller"):
            owner_name = f"{text(owner, 'kind')}/{text(owner, 'name')}"
            if first:
                words = 'Only one reference can have Controller set to true. Found "true" in references for '
                yield invalid(path, list(owners), f"{words}{first} and {owner_name}")
            first = first or owner_name


def _owner(owner: JsonObject, path: str) -> FieldErrors:
    group, _, version = text(owner, "apiVersion").rpartition("/")
    if not version or "/" in group:
        yield invalid(f"{path}.apiVersion", text(owner, "apiVersion"), "version must not be empty")
    for key in ("kind", "name", "uid"):
        if not text(owner, key):
            yield invalid(f"{path}.{key}", "", "must not be empty")
    if (text(owner, "apiVersion"), text(owner, "kind")) == ("v1", "Event"):
        yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
