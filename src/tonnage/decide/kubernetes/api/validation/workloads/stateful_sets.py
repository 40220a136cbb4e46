"""StatefulSets.

Source: pkg/apis/apps/validation (v1.35).
"""

from __future__ import annotations

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import (
    FieldErrors,
    is_readable,
    nonnegative,
)
from tonnage.decide.kubernetes.api.validation.pods.pod import pod_template, template_head
from tonnage.decide.kubernetes.api.validation.storage.volume_claims import claim_spec
from tonnage.decide.kubernetes.api.validation.workloads.apps import always_restarts, matched, strict_selector
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, mappings, text


def stateful_set(obj: JsonObject) -> FieldErrors:
    """A new StatefulSet's spec."""
    yield from _stateful_set(obj, None)


def _stateful_set(obj: JsonObject, old: JsonObject | None) -> FieldErrors:
    """Claims and the service of one that is there never change, and may be what they are."""
    spec = mapping(obj, "spec")
    policy = text(spec, "podManagementPolicy")
    if not policy:
        yield required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _stateful_strategy(mapping(spec, "updateStrategy"), "spec.updateStrategy")
    if spec.get("persistentVolumeClaimRetentionPolicy") is not None:
        for key in ("whenDeleted", "whenScaled"):
            retention = text(spec, "persistentVolumeClaimRetentionPolicy", key)
            if retention not in ("Retain", "Delete"):
                yield unsupported(
                    f"spec.persistentVolumeClaimRetentionPolicy.{key}", retention, ("Retain", "Delete")
                )
    for index, template in enumerate(mappings(spec, "volumeClaimTemplates") if old is None else ()):
        yield from claim_spec(mapping(template, "spec"), f"spec.volumeClaimTemplates[{index}].spec")
    yield from nonnegative(spec, "replicas", "spec")
    yield from nonnegative(spec, "minReadySeconds", "spec")
    yield from nonnegative(mapping(spec, "ordinals"), "start", "spec.ordinals")
    if old is None and (service := text(spec, "serviceName")):
        yield from complaints("spec.serviceName", service, names.dns_label(service))
    yield from strict_selector(spec, "statefulset")
    template = _stateful_template(spec)
    if is_readable(mapping(spec, "selector")):
        yield from matched(spec)
        yield from pod_template(template, "spec.template")
        # The server looks at the template's metadata twice.
        yield from template_head(template, "spec.template")
    else:
        yield invalid("spec.selector", mapping(spec, "selector"), "")
    yield from always_restarts(template, "StatefulSet")


def _stateful_strategy(strategy: JsonObject, path: str) -> FieldErrors:
    kind, rolling = text(strategy, "type"), strategy.get("rollingUpdate")
    details = mapping(strategy, "rollingUpdate")
    inner: JsonObject = {
        "Partition": details.get("partition"),
        "MaxUnavailable": details.get("maxUnavailable"),
    }
    if not kind:
        yield required(path)
    elif kind == "RollingUpdate":
        yield from nonnegative(details, "partition", f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        shown: JsonObject = {"Type": kind, "RollingUpdate": None if rolling is None else inner}
        yield invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        words = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid(f"{path}.rollingUpdate", inner, words)


def _stateful_template(spec: JsonObject) -> JsonObject:
    """The pod template as the controller completes it: a name of its own, and the set's claims as volumes."""
    template = mapping(spec, "template")
    pod = {
        key: value for key, value in mapping(template, "spec").items() if key not in ("hostname", "subdomain")
    }
    names = (text(entry, "metadata", "name") for entry in mappings(spec, "volumeClaimTemplates"))
    claims = list(dict.fromkeys(names))
    if claims:
        own: list[JsonValue] = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims
        ]
        rest = [entry for entry in mappings(pod, "volumes") if text(entry, "name") not in claims]
        pod["volumes"] = [*own, *rest]
    return {**template, "spec": pod}


def stateful_set_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """What may change of a StatefulSet, beside being a good one."""
    changeable = (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
    yield from _stateful_set(new, old)
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    fixed = [
        {key: value for key, value in version.items() if key not in changeable} for version in (spec, before)
    ]
    if fixed[0] != fixed[1]:
        listed = "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
        listed += "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
        yield forbidden("spec", f"updates to statefulset spec for fields other than {listed} are forbidden")
