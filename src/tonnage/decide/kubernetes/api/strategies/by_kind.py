"""What the server writes into new objects, kind by kind.

Source: PrepareForCreate of pkg/registry/*/*/strategy.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.strategies.volumes import pair_sources
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, drop, flag, items, mapping, mappings, put, text
from tonnage.model.whole_numbers import whole_number

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _namespace(namespace: JsonObject, _: object) -> None:
    finalizers = items(namespace, "spec", "finalizers")
    if "kubernetes" not in finalizers:
        put(namespace, [*finalizers, "kubernetes"], "spec", "finalizers")


def _volume(volume: JsonObject, _: object) -> None:
    put(volume, text(volume, "metadata", "creationTimestamp"), "status", "lastPhaseTransitionTime")


def _claim(claim: JsonObject, _: object) -> None:
    pair_sources(claim, {})


def name_stored_versions(definition: JsonObject, _: object) -> None:
    """Say in what versions objects may be stored: the storage version beside those of old."""
    stored = items(definition, "status", "storedVersions")
    storing = [
        at(version, "name")
        for version in mappings(definition, "spec", "versions")
        if flag(version, "storage")
    ]
    fresh = [version for version in storing[:1] if version not in stored]
    put(definition, [*stored, *fresh], "status", "storedVersions")


def name_secrets(account: JsonObject, _: object) -> None:
    """Keep of the secrets that an account lists their names alone."""
    if listed := mappings(account, "secrets"):
        account["secrets"] = [
            {"name": text(secret, "name")} if text(secret, "name") else {} for secret in listed
        ]


def _daemon_set(daemon_set: JsonObject, _: object) -> None:
    generation = text(daemon_set, "metadata", "annotations", TEMPLATE_GENERATION)
    if not whole_number(generation):
        put(daemon_set, "1", "metadata", "annotations", TEMPLATE_GENERATION)


def _job(job: JsonObject, _: object) -> None:
    """Label a job's pods with its uid and select them by that, unless its writer selects himself."""
    if flag(job, "spec", "manualSelector"):
        return
    uid, name = text(job, "metadata", "uid"), text(job, "metadata", "name")
    own: JsonObject = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = mapping(job, "spec", "template", "metadata", "labels")
    # A job without labels has got its pods'; what is added to the one is added to the other.
    shared = mapping(job, "metadata", "labels") is labels
    put(job, {**own, **labels}, "spec", "template", "metadata", "labels")
    if shared:
        put(job, {**own, **labels}, "metadata", "labels")
    selected: JsonObject = {
        "batch.kubernetes.io/controller-uid": uid,
        **mapping(job, "spec", "selector", "matchLabels"),
    }
    put(job, dict(sorted(selected.items())), "spec", "selector", "matchLabels")


def drop_election(lease: JsonObject, _: object) -> None:
    """Drop what leaders are elected by together, which a server of this version takes only with a gate."""
    for key in ("preferredHolder", "strategy"):
        drop(lease, "spec", key)


def drop_topology(endpoint_slice: JsonObject, _: object) -> None:
    """Drop where endpoints lie in the words of an older version, which nobody writes any more."""
    for endpoint in mappings(endpoint_slice, "endpoints"):
        drop(endpoint, "deprecatedTopology")


ON_CREATE: Final[dict[tuple[str, str], Callable[[JsonObject, object], None]]] = {
    ("", "namespaces"): _namespace,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume,
    ("", "serviceaccounts"): name_secrets,
    ("apiextensions.k8s.io", "customresourcedefinitions"): name_stored_versions,
    ("apps", "daemonsets"): _daemon_set,
    ("batch", "jobs"): _job,
    ("coordination.k8s.io", "leases"): drop_election,
    ("discovery.k8s.io", "endpointslices"): drop_topology,
}
"""By group and plural. Some serve changes, too, which hand them the old object."""
