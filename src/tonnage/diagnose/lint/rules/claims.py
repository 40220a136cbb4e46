"""DRA-1, DRA-2, DRA-3: claims, templates and classes of resource.k8s.io as the API server validates them.

Source: k8s.io/kubernetes pkg/apis/resource/validation, k8s.io/dynamic-resource-allocation/cel, 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.node.claims.opaque import read_config
from tonnage.diagnose.lint import selectors_cel
from tonnage.diagnose.lint.finding import Draft, WrapEntries, field_draft
from tonnage.diagnose.lint.manifest_objects import (
    ManifestObject,
    PodSite,
    at_path,
    is_variable,
    mapping,
    mappings,
    sequence,
)
from tonnage.diagnose.lint.rule_inputs import LintCluster, RuleInputs
from tonnage.diagnose.related_resources import class_remedy
from tonnage.documents.nearest import nearest
from tonnage.documents.pods.fields import claim_entry_faults
from tonnage.documents.yaml.reader import Path
from tonnage.model.devices.claims import DRIVER
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.resource_claims import ADMIN_LABEL
from tonnage.model.reasons.lint.manifests import (
    ClaimConfigInvalid,
    ClaimInvalid,
    ClaimNameUnknown,
    RequestNotInExactly,
)
from tonnage.model.reasons.pod.claims import DeviceClassMissing
from tonnage.model.severity import Severity

_GROUP: Final = "resource.k8s.io"
_WRAPPED: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta2")
_FLAT: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
_MOST_REQUESTS: Final = 32
_COMPARED: Final = ("matchAttribute", "distinctAttribute")
_ALTERNATIVES: Final = ("exactly", "firstAvailable")


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a ResourceClaim, a ResourceClaimTemplate or a DeviceClass."""
    if manifest.group != _GROUP:
        return
    spec = mapping(manifest.value.get("spec"))
    at: Path = (*manifest.path, "spec")
    if manifest.kind == "DeviceClass":
        yield from selectors_cel.drafts(spec.get("selectors"), (*at, "selectors"), inputs)
        yield from _configs(spec.get("config"), (*at, "config"))
        return
    if manifest.kind == "ResourceClaimTemplate":
        spec, at = mapping(spec.get("spec")), (*at, "spec")
    elif manifest.kind != "ResourceClaim":
        return
    devices = mapping(spec.get("devices"))
    yield from _devices(devices, (*at, "devices"), manifest, inputs)
    yield from _configs(devices.get("config"), (*at, "devices", "config"))


def _configs(entries: JsonValue, at: Path) -> Iterator[Draft]:
    """Opaque configurations for our driver, as it reads them when it prepares a claim."""
    for index, entry in mappings(entries):
        opaque = mapping(entry.get("opaque"))
        parameters = opaque.get("parameters")
        if opaque.get("driver") != DRIVER or is_variable(parameters):
            continue
        place: Path = (*at, index, "opaque", "parameters")
        read = read_config(parameters) if isinstance(parameters, dict) else ("it is not an object",)
        for problem in read if isinstance(read, tuple) else ():
            reason = ClaimConfigInvalid(
                message=f"the driver {DRIVER} refuses this configuration: {problem}",
                remedy="correct it, or remove it",
                driver=DRIVER,
                problem=problem,
            )
            yield Draft(reason, place, "the API server takes it, and the pod waits until it is corrected")


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Claims and templates that a pod names; those of the files are there as soon as they are applied."""
    for fault in claim_entry_faults(site.spec):
        if not is_variable(at_path(site.spec, fault.place)):
            yield field_draft(ClaimInvalid, fault, site)
    if inputs.cluster is not None:
        yield from _absent(site, inputs, inputs.cluster)


def _absent(site: PodSite, inputs: RuleInputs, cluster: LintCluster) -> Iterator[Draft]:
    snapshot = cluster.ground.view.snapshot
    for index, claim in mappings(site.spec.get("resourceClaims")):
        for field, kind, there in (
            ("resourceClaimName", "ResourceClaim", snapshot.claims),
            ("resourceClaimTemplateName", "ResourceClaimTemplate", snapshot.claim_templates),
        ):
            name = claim.get(field)
            if not isinstance(name, str) or not cluster.looked_at(kind, site.manifest.namespace):
                continue
            names = sorted(
                candidate.name for candidate in there if candidate.namespace == site.manifest.namespace
            )
            if name not in names and inputs.own(kind, site.manifest.namespace, name) is None:
                reason = ClaimNameUnknown(
                    message=f"the {kind} {name[:100]} does not exist in namespace {site.manifest.namespace}",
                    remedy=nearest(name, names) or "create it",
                    kind=kind,
                    name=name,
                )
                yield Draft(
                    reason,
                    (*site.path, "resourceClaims", index, field),
                    "the pod waits until it exists",
                    severity=Severity.WARNING,
                )


def _devices(devices: JsonObject, at: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    requests = [*mappings(devices.get("requests"))]
    if len(requests) > _MOST_REQUESTS:
        message = f"{len(requests)} requests; a claim has at most {_MOST_REQUESTS}"
        yield _invalid((*at, "requests"), message)
    names: set[str] = set()
    for index, request in requests:
        place: Path = (*at, "requests", index)
        name = request.get("name")
        if not isinstance(name, str) or not name:
            yield _invalid(place, "the request has no name", "add a name")
        elif name in names:
            yield _invalid((*place, "name"), f"two requests are named {name[:63]}", "rename one")
        names.add(str(name))
        names.update(f"{name}/{sub.get('name')}" for _, sub in mappings(request.get("firstAvailable")))
        yield from _request(request, place, manifest, inputs)
    for section in ("constraints", "config"):
        for index, entry in mappings(devices.get(section)):
            yield from _references(entry, (*at, section, index), names, inputs)
            if section == "constraints" and not any(field in entry for field in _COMPARED):
                message = "matchAttribute is missing from the constraint"
                yield _invalid((*at, section, index), message, "name the attribute that must be equal")


def _references(entry: JsonObject, at: Path, names: set[str], inputs: RuleInputs) -> Iterator[Draft]:
    for place, name in enumerate(sequence(entry.get("requests"))):
        if isinstance(name, str) and name not in names:
            message = f"the claim has no request {name[:130]}"
            yield _invalid((*at, "requests", place), message, nearest(name, sorted(names)))
    for field in _COMPARED:
        name = entry.get(field)
        if isinstance(name, str) and "/" not in name:
            message = f"{name[:100]} has no domain"
            yield _invalid((*at, field), message, f"write the driver's: gpu.nvidia.com/{name[:32]}")
        elif isinstance(name, str):
            yield from selectors_cel.of_constraint(name, (*at, field), inputs)


def _request(request: JsonObject, at: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    if manifest.api_version not in _WRAPPED:
        yield from _flat(request, at, manifest, inputs)
        return
    flat = tuple(key for key in _FLAT if key in request)
    present = tuple(key for key in _ALTERNATIVES if key in request)
    if flat and not present:
        yield _not_wrapped(flat, at)
        yield from _exact(request, at, manifest, inputs)
        return
    if flat:
        for key in flat:
            message = f"{key} is beside {present[0]}, where {manifest.api_version} has no such field"
            why = (
                "kubectl refuses it; clients that do not validate drop it, and other devices may be allocated"
            )
            yield _invalid((*at, key), message, f"move it under {present[0]}", why, on_key=True)
    if len(present) != 1:
        message = "exactly one of `exactly` or `firstAvailable` is required"
        yield _invalid(at, message, "keep one of them" if present else "write exactly:")
    if "exactly" in request:
        yield from _exact(mapping(request.get("exactly")), (*at, "exactly"), manifest, inputs)
    for index, sub in mappings(request.get("firstAvailable")):
        yield from _exact(sub, (*at, "firstAvailable", index), manifest, inputs)


def _flat(request: JsonObject, at: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """v1beta1: the fields of a request stand directly under it."""
    if "exactly" in request:
        message, remedy = "v1beta1 has no exactly", f"write apiVersion: {_WRAPPED[0]}"
        yield _invalid((*at, "exactly"), message, remedy, on_key=True)
        yield from _exact(mapping(request.get("exactly")), (*at, "exactly"), manifest, inputs)
    elif "firstAvailable" not in request:
        yield from _exact(request, at, manifest, inputs)


def _invalid(at: Path, message: str, remedy: str = "", why: str = "", *, on_key: bool = False) -> Draft:
    return Draft(ClaimInvalid(message=message, remedy=remedy), at, why, on_key=on_key)


def _not_wrapped(flat: tuple[str, ...], at: Path) -> Draft:
    reason = RequestNotInExactly(
        message=f"{_listed(flat)} must be under exactly",
        remedy="write exactly: above, and indent below it (--fix does)",
        fields=flat,
    )
    return Draft(
        reason,
        (*at, flat[0]),
        "the API server asks for exactly one of `exactly` or `firstAvailable`; v1beta1 alone has them here",
        WrapEntries(at, flat, "exactly"),
        on_key=True,
    )


def _listed(words: tuple[str, ...]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _exact(request: JsonObject, at: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """What one kind of device is asked by, wherever it stands."""
    name = request.get("deviceClassName")
    if not isinstance(name, str) or not name:
        yield _invalid(at, "deviceClassName is required", "name a DeviceClass")
    else:
        yield from _class(name, (*at, "deviceClassName"), manifest, inputs)
    mode, count = request.get("allocationMode"), request.get("count")
    if mode not in (None, "ExactCount", "All"):
        message = f"{str(mode)[:60]} is not an allocationMode"
        yield _invalid((*at, "allocationMode"), message, "write ExactCount or All")
    if mode == "All" and count:
        message = "count needs allocationMode: ExactCount; All takes every device"
        yield _invalid((*at, "count"), message, "remove it")
    elif isinstance(count, int) and count < 0:  # 0 is unset: one
        yield _invalid((*at, "count"), f"count is {count}, but must be above 0", "write 1")
    if request.get("adminAccess") is True:
        yield from _admin_access((*at, "adminAccess"), manifest.namespace, inputs)
    before = _selectors_of(str(name), inputs)
    yield from selectors_cel.drafts(request.get("selectors"), (*at, "selectors"), inputs, before)


def _admin_access(place: Path, namespace: str, inputs: RuleInputs) -> Iterator[Draft]:
    """Where the namespace is in the files, or the cluster's are known."""
    labels: Mapping[str, JsonValue] | None = None
    if (own := inputs.own("Namespace", "", namespace)) is not None:
        labels = mapping(mapping(own.value.get("metadata")).get("labels"))
    elif inputs.cluster is not None and inputs.cluster.looked_at("Namespace"):
        labels = inputs.cluster.ground.view.snapshot.namespaces.get(namespace)
    if labels is not None and labels.get(ADMIN_LABEL) != "true":
        message = f"admin access to devices needs the label {ADMIN_LABEL}: true of the namespace {namespace}"
        remedy = f"kubectl label namespace {namespace} {ADMIN_LABEL}=true, or remove adminAccess"
        yield _invalid(place, message, remedy)


def _selectors_of(name: str, inputs: RuleInputs) -> tuple[str, ...]:
    if inputs.cluster is None:
        return ()
    device_class = inputs.cluster.ground.view.supply.classes.get(name)
    return device_class.selectors if device_class is not None else ()


def _class(name: str, place: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    if inputs.cluster is None or inputs.own("DeviceClass", "", name) is not None:
        return
    snapshot = inputs.cluster.ground.view.snapshot
    names = sorted(candidate.name for candidate in snapshot.device_classes)
    if name not in names and inputs.cluster.looked_at("DeviceClass"):
        message = f"the DeviceClass {name[:100]} does not exist"
        remedy = class_remedy(name, names)
        reason = DeviceClassMissing(
            subject=manifest.subject,
            message=message,
            remedy=remedy,
            claims=(manifest.name,),
        )
        yield Draft(reason, place)
