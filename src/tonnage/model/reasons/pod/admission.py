"""What the API server has against an object."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import (
    LimitBreach,
)
from tonnage.model.reasons.lint.lint_rule import POD_VALIDATION, REFERENCES, VALIDATION, LintRule
from tonnage.model.reasons.reason import ManifestReason, Reason, reason


@reason
class AdmissionReason(Reason):
    """What the API server's admission says."""

    layer: Layer = Layer.ADMISSION


@reason
class FieldReason(AdmissionReason):
    """A field, by its path in the manifest."""

    field: str | None = None


class ManifestFieldReason(FieldReason, ManifestReason):
    """A field that lint finds, too."""


@reason
class FieldAmountReason(FieldReason):
    """An amount of a resource in a manifest."""

    trailing: ClassVar[tuple[str, ...]] = ("field",)
    field: str
    resource: str


@reason
class NameMissing(AdmissionReason, ManifestReason):
    """An object that a pod names and that does not exist."""

    kind: str
    name: str
    others: tuple[str, ...]


@reason
class ApiNotServed(AdmissionReason):
    """An object in the file has a version that this Kubernetes does not have (`no matches for kind`)."""

    code: ClassVar[str] = "api-not-served"
    advice: ClassVar[str] = "use an older version or a newer cluster"
    version: str
    kind: str
    since: str


class ObjectRefused(ManifestFieldReason):
    """The API server refuses a field of an object in the file, or cannot decode it; its own words are the
    reason."""

    code: ClassVar[str] = "object-refused"
    advice: ClassVar[str] = "correct the field: `kubectl explain` says what it takes"
    rule: ClassVar[LintRule] = LintRule("A field of any kind that the API server refuses.", VALIDATION)


@reason
class Unreadable(FieldReason):
    """An amount in the manifest, on the node, or of a pod there, is not a quantity; or a pod has spreading or
    affinity that no API server accepts.
    """

    code: ClassVar[str] = "unreadable"
    advice: ClassVar[str] = "correct it"
    layers: ClassVar[tuple[Layer, ...]] = (Layer.SCHEDULER, Layer.ADMISSION)
    feature: str | None = None


class ClaimEntryInvalid(FieldReason):
    """A claim of the pod, or a container's name of one, that the API server refuses."""

    code: ClassVar[str] = "claim-entry-invalid"
    advice: ClassVar[str] = "do what the reason says"


class PodFieldInvalid(ManifestFieldReason):
    """The API server refuses a field of the pod: no containers, a missing or duplicate name, no image, a
    port, a policy, a gate; it is named.
    """

    code: ClassVar[str] = "pod-field-invalid"
    advice: ClassVar[str] = "do what the reason says"
    rule: ClassVar[LintRule] = LintRule("A field of a pod that the API server refuses.", POD_VALIDATION)


class TolerationInvalid(ManifestFieldReason):
    """A toleration that the API server refuses: Equal without key, Exists with a value, tolerationSeconds
    without NoExecute, an unknown operator or effect."""

    code: ClassVar[str] = "toleration-invalid"
    advice: ClassVar[str] = "do what the reason says"
    rule: ClassVar[LintRule] = LintRule("A toleration that the API server refuses.", POD_VALIDATION)


class PodPlacementInvalid(ManifestFieldReason):
    """Spread constraints or affinity between pods that the API server refuses: a selector's operator or
    values, whenUnsatisfiable, a policy, maxSkew, minDomains, an empty topologyKey; the field is named."""

    code: ClassVar[str] = "pod-placement-invalid"
    advice: ClassVar[str] = "do what the reason says"
    rule: ClassVar[LintRule] = LintRule("Spreading or affinity that the API server refuses.", POD_VALIDATION)


class PodLevelResource(ManifestFieldReason):
    """A device stands under the resources of the whole pod, where only cpu, memory and huge pages may."""

    code: ClassVar[str] = "pod-level-resource"
    advice: ClassVar[str] = "put it under the container's limits"
    rule: ClassVar[LintRule] = LintRule("A device under the resources of the whole pod.", POD_VALIDATION)


@reason
class QuantityNegative(FieldAmountReason, ManifestReason):
    """An amount below zero is asked for."""

    code: ClassVar[str] = "quantity-negative"
    advice: ClassVar[str] = "ask for 0 or more"
    rule: ClassVar[LintRule] = LintRule("An amount below zero.", POD_VALIDATION)
    value: str


@reason
class ResourceNotInteger(FieldAmountReason, ManifestReason):
    """A part of a device is asked for."""

    code: ClassVar[str] = "resource-not-integer"
    advice: ClassVar[str] = "ask for a whole device, a shared resource, a MIG profile or a claim"
    rule: ClassVar[LintRule] = LintRule("A part of a device.", POD_VALIDATION)
    value: str


class ResourceNameInvalid(FieldAmountReason):
    """A container cannot ask for a resource of that name: it has no domain, is the key of a quota, or has
    other letters.
    """

    code: ClassVar[str] = "resource-name-invalid"
    advice: ClassVar[str] = "write domain/name"


@reason
class RequestLimitUnequal(FieldAmountReason, ManifestReason):
    """A device's request and limit differ, or another request is above its limit."""

    code: ClassVar[str] = "request-limit-unequal"
    advice: ClassVar[str] = "write a device once, under `limits`; raise the limit of the other"
    rule: ClassVar[LintRule] = LintRule("A device's request is not its limit.", POD_VALIDATION)
    request: str
    limit: str


@reason
class LimitMissing(FieldAmountReason, ManifestReason):
    """A device under `requests` alone."""

    code: ClassVar[str] = "limit-missing"
    advice: ClassVar[str] = "write it under `limits`"
    rule: ClassVar[LintRule] = LintRule("A device under requests alone.", POD_VALIDATION)
    request: str


@reason
class LimitRangeViolation(AdmissionReason):
    """A LimitRange of the namespace does not allow the amounts; the row, and what it allows, are named."""

    code: ClassVar[str] = "limit-range"
    advice: ClassVar[str] = "ask for what is allowed, or have the limit changed"
    range: str
    breaches: tuple[LimitBreach, ...]


@reason
class NamespaceTerminating(AdmissionReason):
    """The namespace is being deleted and accepts nothing new."""

    code: ClassVar[str] = "namespace-terminating"
    advice: ClassVar[str] = "wait until it is gone, or use another"
    namespace: str


@reason
class NamespaceMissing(AdmissionReason):
    """The namespace does not exist."""

    code: ClassVar[str] = "namespace-missing"
    advice: ClassVar[str] = "create it"
    namespace: str


@reason
class PodSecurityViolation(AdmissionReason):
    """The namespace enforces a pod security level that the pod violates; each violation is named."""

    code: ClassVar[str] = "pod-security"
    advice: ClassVar[str] = "set the required fields in the pod, or relax the label"
    policy: str
    violations: tuple[str, ...]


@reason
class PriorityNotOfClass(FieldReason):
    """Priority or preemptionPolicy contradict the pod's class."""

    code: ClassVar[str] = "priority-not-of-class"
    advice: ClassVar[str] = "leave the field out, or name a class"
    given: str
    computed: str


class PriorityClassUnknown(NameMissing):
    """The pod names a priority class that does not exist."""

    code: ClassVar[str] = "priority-class-unknown"
    advice: ClassVar[str] = "create it, or name another"
    rule: ClassVar[LintRule] = LintRule("A PriorityClass that does not exist.", REFERENCES)


class RuntimeClassMissing(NameMissing):
    """The pod names a RuntimeClass that does not exist."""

    code: ClassVar[str] = "runtime-class-missing"
    alias: ClassVar[str] = "runtime-class-unknown"
    advice: ClassVar[str] = "create it, or leave it out"
    rule: ClassVar[LintRule] = LintRule("A RuntimeClass that does not exist.", REFERENCES)


class ServiceAccountMissing(NameMissing):
    """The pod runs as a ServiceAccount that does not exist in the namespace."""

    code: ClassVar[str] = "service-account-missing"
    alias: ClassVar[str] = "service-account-unknown"
    advice: ClassVar[str] = "create it"
    rule: ClassVar[LintRule] = LintRule("A ServiceAccount that does not exist.", REFERENCES)


@reason
class RuntimeClassConflict(AdmissionReason):
    """The pod's overhead or node labels differ from what its runtime class sets."""

    code: ClassVar[str] = "runtime-class-conflict"
    advice: ClassVar[str] = "leave them out"
    class_: str


@reason
class WebhookDenied(AdmissionReason):
    """A webhook refused the pods; its words are in the owner's conditions or Events."""

    code: ClassVar[str] = "webhook-denied"
    advice: ClassVar[str] = "do what it says"
    lasting: bool = False
    webhook: str
    said: str


@reason
class WebhookMayRefuse(AdmissionReason):
    """A note: webhooks will be asked about the pod; Tonnage cannot predict their answers."""

    code: ClassVar[str] = "webhook-may-refuse"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "run `kubectl apply --dry-run=server`"
    lasting: bool = False
    webhooks: tuple[str, ...]


@reason
class WebhookUnreachable(AdmissionReason):
    """A webhook that must be asked has no Service, or no running pod behind it."""

    code: ClassVar[str] = "webhook-unreachable"
    advice: ClassVar[str] = "start it, or remove its configuration"
    lasting: bool = False
    webhook: str
    configuration: str | None = None
    service: str | None = None


REASONS: Final[tuple[type[Reason], ...]] = (
    ApiNotServed,
    ObjectRefused,
    Unreadable,
    ClaimEntryInvalid,
    PodFieldInvalid,
    TolerationInvalid,
    PodPlacementInvalid,
    PodLevelResource,
    QuantityNegative,
    ResourceNotInteger,
    ResourceNameInvalid,
    RequestLimitUnequal,
    LimitMissing,
    LimitRangeViolation,
    NamespaceTerminating,
    NamespaceMissing,
    PodSecurityViolation,
    PriorityNotOfClass,
    PriorityClassUnknown,
    RuntimeClassMissing,
    ServiceAccountMissing,
    RuntimeClassConflict,
    WebhookDenied,
    WebhookMayRefuse,
    WebhookUnreachable,
)
