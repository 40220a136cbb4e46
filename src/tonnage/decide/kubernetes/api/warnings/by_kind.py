"""What the server warns the writer of a valid object of, by kind.

Source: WarningsOnCreate and WarningsOnUpdate of pkg/registry/*/*/strategy.go (v1.35).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tonnage.decide.kubernetes.api.names import qualified_name
from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.decide.kubernetes.api.warnings import network
from tonnage.decide.kubernetes.api.warnings.network import odd_range
from tonnage.decide.kubernetes.api.warnings.pods import (
    claimed_bytes,
    deprecated_volumes,
    described_pod,
    host_name,
    node_terms,
    old_label,
    pod,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, items, mapping, mappings, number, text, texts
from tonnage.model.kubernetes.well_known import OLD_STORAGE_CLASS

_OPTIONS_ONCE: Final = "volume.beta.kubernetes.io/mount-options"
_CLASS_WORDS: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'
_RECYCLE: Final = (
    "The Recycle reclaim policy is deprecated. "
    "Instead, the recommended approach is to use dynamic provisioning."
)
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")
_POD_NAMES: Final = "Pod names and hostnames"
_MANY_COMPLETIONS: Final = 100_000
_MANY_AT_ONCE: Final = 10_000
_TOO_MANY: Final = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


def _custom(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """What is said of new finalizers of custom objects.

    Source: apiextensions-apiserver, pkg/registry/customresource/validator.go (v1.35).
    """
    added = set(texts(obj, "metadata", "finalizers")) - set(texts(old, "metadata", "finalizers"))
    for name in sorted(added):
        where = f"metadata.finalizers: {quoted(name)}: "
        yield from (where + words for words in qualified_name(name))
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            yield (
                f"{where}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
                "with other finalizer writers"
            )


def notices(
    resource: tuple[str, str],
    subresource: str,
    obj: JsonObject,
    old: JsonObject | None,
    *,
    custom: bool = False,
) -> Iterator[str]:
    """Texts of Warning headers for an object that is written."""
    rules = {"": _RULES, "status": _STATUS_RULES}.get(subresource, {})
    rule = _custom if custom and not subresource else rules.get(resource)
    if rule is not None:
        yield from rule(obj, old)


def _differs(obj: JsonObject, old: JsonObject | None) -> bool:
    """Whether an object is new or more than its metadata and status have changed."""
    return old is None or number(obj, "metadata", "generation") != number(old, "metadata", "generation")


def _workload(obj: JsonObject, old: JsonObject | None, *, names_pods: bool) -> Iterator[str]:
    if old is None and names_pods:
        yield from host_name(obj, _POD_NAMES)
    if _differs(obj, old):
        yield from described_pod(mapping(obj, "spec", "template"), "spec.template")


def _daemon_set(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    template = mapping(obj, "spec", "template")
    if old is None or template != mapping(old, "spec", "template"):
        yield from described_pod(template, "spec.template")


def _stateful_set(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _workload(obj, old, names_pods=False)
    for index, template in enumerate(mappings(obj, "spec", "volumeClaimTemplates")):
        path = f"spec.volumeClaimTemplates[{index}]" + ("" if old is None else ".Spec")
        yield from claimed_bytes(mapping(template, "spec"), path)
    if number(obj, "spec", "revisionHistoryLimit") < 0:
        words = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {words}"


def _pod_template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _differs(obj, old):
        yield from described_pod(mapping(obj, "template"), "template")


def _secret(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    """A pair of certificate and key, as Go's TLS reads it: without a line of PEM each."""
    if text(obj, "type") != "kubernetes.io/tls":
        return
    for key, subject in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(text(obj, "data", key)):
            yield f"tls: failed to find any PEM data in {subject} input"
            return


def _job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is None:
        yield from host_name(obj, _POD_NAMES)
    if _differs(obj, old):
        yield from _described_job(mapping(obj, "spec"), "spec")


def _described_job(spec: JsonObject, path: str) -> Iterator[str]:
    indexed = text(spec, "completionMode") == "Indexed"
    many = number(spec, "completions") > _MANY_COMPLETIONS and number(spec, "parallelism") > _MANY_AT_ONCE
    if indexed and many:
        yield f"{path}: {_TOO_MANY}"
    yield from described_pod(mapping(spec, "template"), f"{path}.template")


def _cron_job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is None:
        yield from host_name(obj, _POD_NAMES)
    if _differs(obj, old):
        yield from _described_job(mapping(obj, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec")
    if old is not None and "TZ" in text(obj, "spec", "schedule"):
        page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "
            f"see {page} for more details"
        )


def _volume(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    annotations = mapping(obj, "metadata", "annotations")
    for key, words in (
        (OLD_STORAGE_CLASS, _CLASS_WORDS),
        (_OPTIONS_ONCE, 'deprecated since v1.31; use "mountOptions" attribute instead'),
    ):
        if key in annotations:
            yield f"metadata.annotations[{key}]: {words}"
    if text(obj, "spec", "persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    terms = "spec.nodeAffinity.required.nodeSelectorTerms"
    yield from node_terms(mappings(obj, *terms.split(".")), terms)
    yield from deprecated_volumes(mapping(obj, "spec"), "spec")


def _claim(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    if at(obj, "metadata", "annotations", OLD_STORAGE_CLASS) is not None:
        yield f"metadata.annotations[{OLD_STORAGE_CLASS}]: {_CLASS_WORDS}"
    yield from claimed_bytes(mapping(obj, "spec"), "spec")


def _storage_class(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    for index, term in enumerate(mappings(obj, "allowedTopologies")):
        for place, expression in enumerate(mappings(term, "matchLabelExpressions")):
            path = f"allowedTopologies[{index}].matchLabelExpressions[{place}].key"
            yield from old_label(text(expression, "key"), path)


def _runtime_class(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    for key in mapping(obj, "scheduling", "nodeSelector"):
        yield from old_label(key, "scheduling.nodeSelector")


def _node(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    if at(obj, "spec", "configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if text(obj, "spec", "externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, shown in enumerate(texts(obj, "spec", "podCIDRs")):
        yield from odd_range(shown, f"spec.podCIDRs[{index}]")


def _slice(obj: JsonObject, _old: JsonObject | None) -> Iterator[str]:
    if (driver := text(obj, "spec", "driver")) != driver.lower():
        name = quoted(driver)
        yield f"spec.driver: driver names should be lowercase; {name} contains uppercase characters"


def _driver(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    token_requests, secret = (
        items(obj, "spec", "tokenRequests"),
        at(obj, "spec", "serviceAccountTokenInSecrets"),
    )
    if token_requests and secret is None and token_requests != items(old, "spec", "tokenRequests"):
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
            "prevent possible logging of tokens in volume attributes"
        )


_Rule = Callable[[JsonObject, JsonObject | None], Iterator[str]]
_RULES: Final[dict[tuple[str, str], _Rule]] = {
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume,
    ("", "pods"): pod,
    ("", "podtemplates"): _pod_template,
    ("", "replicationcontrollers"): partial(_workload, names_pods=True),
    ("", "secrets"): _secret,
    ("", "services"): network.service,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): partial(_workload, names_pods=True),
    ("apps", "replicasets"): partial(_workload, names_pods=True),
    ("apps", "statefulsets"): _stateful_set,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _job,
    ("networking.k8s.io", "ingresses"): network.ingress,
    ("networking.k8s.io", "networkpolicies"): network.network_policy,
    ("node.k8s.io", "runtimeclasses"): _runtime_class,
    ("resource.k8s.io", "resourceslices"): _slice,
    ("storage.k8s.io", "csidrivers"): _driver,
    ("storage.k8s.io", "storageclasses"): _storage_class,
}
_STATUS_RULES: Final[dict[tuple[str, str], _Rule]] = {
    ("", "pods"): network.pod_addresses,
    ("", "services"): network.load_balancer,
    ("networking.k8s.io", "ingresses"): network.load_balancer,
}
