"""What lint has against manifests before they are applied, where explain does not say the same of a pod."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import FactUnit
from tonnage.model.reasons.lint.lint_rule import (
    CLAIMS,
    DECODING,
    LIMIT_RANGES,
    POD_VALIDATION,
    PROMETHEUS_OPERATOR,
    QUOTAS,
    SCHEDULER,
    VALIDATION,
    LintRule,
)
from tonnage.model.reasons.pod.admission import AdmissionReason, ManifestFieldReason, NameMissing
from tonnage.model.reasons.reason import ManifestFault, Reason, reason
from tonnage.model.severity import Severity


@reason
class ObjectReason(AdmissionReason, ManifestFault):
    """What is wrong in a manifest. Its subject is the object, which lint fills in with the place."""

    subject: str = ""


@reason
class ObjectFieldReason(ManifestFieldReason, ManifestFault):
    """The same of a field, whose path lint fills in, too."""

    subject: str = ""


@reason
class ApiWarning(ObjectReason):
    """The API server takes the object and warns: an old label, annotation or field, a duplicate port or
    variable.
    """

    code: ClassVar[str] = "api-warning"
    advice: ClassVar[str] = "do what the warning says"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("What the API server warns about.", VALIDATION)
    warning: str


class ObjectUnreadable(ObjectFieldReason):
    """An object that the API server cannot decode, for a fault without a code of its own: a time, base64, a
    number that is too large.
    """

    code: ClassVar[str] = "object-unreadable"
    advice: ClassVar[str] = "correct the field that the server names"
    rule: ClassVar[LintRule] = LintRule("An object that the API server cannot decode.", DECODING)


class FieldUnknown(ObjectFieldReason):
    """A field that the kind does not have: kubectl refuses it, other clients drop it."""

    code: ClassVar[str] = "field-unknown"
    advice: ClassVar[str] = "use the nearest name, which lint gives"
    rule: ClassVar[LintRule] = LintRule("A field that the kind does not have.", DECODING)


@reason
class ValueOfWrongType(ObjectFieldReason):
    """A value of another type than the field's, such as a number where a text is needed."""

    code: ClassVar[str] = "value-of-wrong-type"
    advice: ClassVar[str] = "`--fix` writes the quotes"
    rule: ClassVar[LintRule] = LintRule("A value of another type than the field's.", DECODING)
    expected: str


@reason
class QuantityUnreadable(ObjectFieldReason):
    """An amount that is not a quantity."""

    code: ClassVar[str] = "quantity-unreadable"
    advice: ClassVar[str] = "write a number, with a suffix where it needs one"
    rule: ClassVar[LintRule] = LintRule("An amount that is not a quantity.", "Kubernetes quantity")
    resource: str
    value: str


@reason
class ResourceNameUnknown(ObjectReason):
    """A resource name close to a device's; an error where it has no domain, or is a quota's key."""

    code: ClassVar[str] = "resource-name-unknown"
    advice: ClassVar[str] = "use the nearest, which lint names"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A resource name close to a known one.", POD_VALIDATION)
    resource: str
    meant: str | None = None


class NodeAffinityInvalid(ObjectFieldReason):
    """A nodeSelector or node affinity that the API server refuses: too many or too few values, a value that
    no label can have, no terms.
    """

    code: ClassVar[str] = "node-affinity-invalid"
    advice: ClassVar[str] = "do what the finding says"
    rule: ClassVar[LintRule] = LintRule("Node affinity that the API server refuses.", POD_VALIDATION)


@reason
class DeviceAnnotation(ObjectReason):
    """An annotation `nvidia.cdi.k8s.io`, by which NVIDIA's NRI plugin gives a pod devices that no quota
    counts."""

    code: ClassVar[str] = "device-annotation"
    advice: ClassVar[str] = "request them"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule(
        "An annotation that gets devices past every quota.", "NVIDIA/nvidia-container-toolkit, NRI plugin"
    )
    annotation: str
    value: str


class LimitRangeInvalid(ObjectFieldReason):
    """A LimitRange that contradicts itself."""

    code: ClassVar[str] = "limit-range-invalid"
    advice: ClassVar[str] = "do what the finding says"
    rule: ClassVar[LintRule] = LintRule("A LimitRange that the API server refuses.", LIMIT_RANGES)


@reason
class LimitRangeGivesDevices(ObjectReason):
    """A LimitRange gives a device to every container that does not ask for one."""

    code: ClassVar[str] = "limit-range-gives-devices"
    advice: ClassVar[str] = "leave devices out of the defaults"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A LimitRange that gives devices to every container.", LIMIT_RANGES)
    resource: str


@reason
class QuotaKeyInvalid(ObjectReason):
    """A quota key that the API server refuses."""

    code: ClassVar[str] = "quota-key-invalid"
    advice: ClassVar[str] = "use the nearest, which lint names"
    rule: ClassVar[LintRule] = LintRule("A quota key that the API server refuses.", QUOTAS)
    layer: Layer = Layer.QUOTA
    key: str


@reason
class QuotaLeavesGap(ObjectReason):
    """A quota on whole GPUs does not count shared ones, MIG devices or claims; a warning where the cluster
    offers them."""

    code: ClassVar[str] = "quota-leaves-gap"
    advice: ClassVar[str] = "add a key for each"
    severity: ClassVar[Severity] = Severity.NOTE
    rule: ClassVar[LintRule] = LintRule("Devices under names that the quota does not count.", QUOTAS)
    layer: Layer = Layer.QUOTA
    uncounted: tuple[str, ...]


@reason
class ClaimConfigInvalid(ObjectFieldReason):
    """A claim, template or class has an opaque configuration that the driver refuses when it prepares one."""

    code: ClassVar[str] = "claim-config-invalid"
    advice: ClassVar[str] = "correct it, or remove it"
    rule: ClassVar[LintRule] = LintRule("A configuration of a claim that its driver refuses.", CLAIMS)
    driver: str
    problem: str


class ClaimInvalid(ObjectFieldReason):
    """A ResourceClaim or template that the API server refuses: a duplicate or missing name, a reference to an
    unknown request, fields beside `exactly`.
    """

    code: ClassVar[str] = "claim-invalid"
    advice: ClassVar[str] = "do what the finding says"
    rule: ClassVar[LintRule] = LintRule("A resource claim that the API server refuses.", CLAIMS)


@reason
class ClaimNameUnknown(ObjectFieldReason):
    """A container names a claim that its pod does not have; as a warning, a claim or template that the
    cluster does not have."""

    code: ClassVar[str] = "claim-name-unknown"
    advice: ClassVar[str] = "correct the name"
    rule: ClassVar[LintRule] = LintRule("A container names a claim that its pod does not have.", CLAIMS)
    kind: str | None = None
    name: str | None = None


@reason
class RequestNotInExactly(ObjectReason):
    """In `resource.k8s.io/v1` a request's fields belong under `exactly`."""

    code: ClassVar[str] = "request-not-in-exactly"
    advice: ClassVar[str] = "`--fix` moves them"
    rule: ClassVar[LintRule] = LintRule("A claim's request without exactly.", CLAIMS)
    fields: tuple[str, ...]


@reason
class SelectorRefused(ObjectReason):
    """A CEL selector that the API server refuses, with its text."""

    code: ClassVar[str] = "selector-refused"
    advice: ClassVar[str] = "use the expression that lint gives"
    rule: ClassVar[LintRule] = LintRule("A device selector that the API server refuses.", CLAIMS)
    expression: str | None = None
    error: str | None = None
    instead: str | None = None


@reason
class SelectorDoubtful(ObjectReason):
    """A DeviceClass does not name the driver of its devices; as a warning: a selector that fails on a
    device, or takes none of those there are, or a constraint on what no device has."""

    code: ClassVar[str] = "selector-doubtful"
    advice: ClassVar[str] = "begin with `device.driver ==`; lint gives an expression that works on all"
    severity: ClassVar[Severity] = Severity.NOTE
    rule: ClassVar[LintRule] = LintRule(
        "A device selector or constraint that can fail, or that no device meets.", CLAIMS
    )
    layer: Layer = Layer.SCHEDULER
    expression: str
    device: str | None = None
    error: str | None = None
    instead: str | None = None
    tried: Annotated[int | None, FactUnit("devices that were tried, none of which is selected")] = None


@reason
class ConfigMapUnknown(NameMissing, ManifestFault):
    """A ConfigMap, or a key of it, that does not exist."""

    code: ClassVar[str] = "config-map-unknown"
    advice: ClassVar[str] = "create it, or correct the name"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A ConfigMap that does not exist.", "kubelet")
    layer: Layer = Layer.RUNTIME
    key: str | None = None


@reason
class VolumeClaimUnknown(NameMissing, ManifestFault):
    """A PersistentVolumeClaim that the cluster does not have."""

    code: ClassVar[str] = "volume-claim-unknown"
    advice: ClassVar[str] = "create it"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule("A PersistentVolumeClaim that does not exist.", SCHEDULER)
    layer: Layer = Layer.SCHEDULER


@reason
class MonitorPortMissing(ObjectReason):
    """A ServiceMonitor names a port that the Services it selects do not have: Prometheus reads nothing."""

    code: ClassVar[str] = "monitor-port-missing"
    advice: ClassVar[str] = "name a port as the Service does"
    severity: ClassVar[Severity] = Severity.WARNING
    rule: ClassVar[LintRule] = LintRule(
        "A port of a ServiceMonitor that its Services lack.", PROMETHEUS_OPERATOR
    )
    layer: Layer = Layer.APPLICATION
    port: str
    ports: tuple[str, ...]


REASONS: Final[tuple[type[Reason], ...]] = (
    ApiWarning,
    ObjectUnreadable,
    FieldUnknown,
    ValueOfWrongType,
    QuantityUnreadable,
    ResourceNameUnknown,
    NodeAffinityInvalid,
    DeviceAnnotation,
    LimitRangeInvalid,
    LimitRangeGivesDevices,
    QuotaKeyInvalid,
    QuotaLeavesGap,
    ClaimConfigInvalid,
    ClaimInvalid,
    ClaimNameUnknown,
    RequestNotInExactly,
    SelectorRefused,
    SelectorDoubtful,
    ConfigMapUnknown,
    VolumeClaimUnknown,
    MonitorPortMissing,
)
