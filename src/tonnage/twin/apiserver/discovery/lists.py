"""Groups, versions and resources, as discovery lists them.

Source: apidiscovery.k8s.io/v2 and meta/v1 discovery types (v1.35).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.definitions.establishment import version_priority
from tonnage.twin.apiserver.discovery.group_order import group_order
from tonnage.twin.apiserver.resources import Registry, ServedResource
from tonnage.wire.schema import KindRow, Subresource


def ordered_groups(registry: Registry) -> dict[str, dict[str, list[ServedResource]]]:
    """Resources by group and version, the groups in the order in which they are told."""
    groups = registry.group_versions()
    return {name: groups[name] for name in sorted(groups, key=group_order)}


def aggregated(registry: Registry, *, core: bool) -> JsonObject:
    """Every group with its versions and resources, or the core group alone."""
    groups = ordered_groups(registry)
    selected = (
        {"": groups[""]}
        if core
        else {name: versions_of_group for name, versions_of_group in groups.items() if name}
    )
    listed: list[JsonValue] = []
    for name, versions in selected.items():
        ordered = sorted(versions, key=version_priority, reverse=True)
        described: list[JsonValue] = [
            {
                "version": version,
                "resources": [_discovered(served) for served in versions[version]],
                "freshness": "Current",
            }
            for version in ordered
        ]
        metadata: JsonObject = {"name": name} if name else {}
        listed.append({"metadata": metadata, "versions": described})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": listed,
    }


def _discovered(served: ServedResource) -> JsonObject:
    row = served.row
    entry: JsonObject = {
        "resource": row.plural,
        "responseKind": _response_kind(served, row),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _response_kind(served, sub), "verbs": list(sub.verbs)}
            for sub in row.subresources
        ]
    return entry


def _response_kind(served: ServedResource, answered: KindRow | Subresource) -> JsonObject:
    """The kind of answers; of built-in kinds it has a group and a version only where those are others."""
    group, version = answered.group, answered.version
    if served.custom is None and (group, version) == (served.row.group, served.row.version):
        group = version = ""
    return {"group": group, "version": version, "kind": answered.kind}


def core_versions(host: str) -> JsonObject:
    """The versions of the core group, and where it is reached."""
    reached: list[JsonValue] = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": reached}


def group_list(groups: dict[str, dict[str, list[ServedResource]]]) -> JsonObject:
    """Every named group with its versions."""
    listed: list[JsonValue] = [_group(name, list(versions)) for name, versions in groups.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group_alone(name: str, versions: Iterable[str]) -> JsonObject:
    """One group with its versions."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: Iterable[str]) -> JsonObject:
    ordered = sorted(versions, key=version_priority, reverse=True)
    listed: list[JsonValue] = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in ordered
    ]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(group_version: str, resources: list[ServedResource]) -> JsonObject:
    """The resources of a group version, and their parts."""
    listed: list[JsonValue] = []
    for served in resources:
        row = served.row
        entry: JsonObject = {
            "name": row.plural,
            "singularName": row.singular,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(row.verbs),
        }
        if row.short_names:
            entry["shortNames"] = list(row.short_names)
        if row.categories:
            entry["categories"] = list(row.categories)
        if "watch" in row.verbs:
            entry["storageVersionHash"] = _storage_hash(served)
        listed.append(entry)
        listed += [_listed_part(served, sub) for sub in row.subresources]
    # The core's list is older than the versions of such lists.
    version: JsonObject = {"apiVersion": "v1"} if "/" in group_version else {}
    return {"kind": "APIResourceList", **version, "groupVersion": group_version, "resources": listed}


def _storage_hash(served: ServedResource) -> str:
    """Tells as what a kind is stored, whatever its versions."""
    group, _, version = served.stored_version.rpartition("/")
    digest = hashlib.sha256(f"{group}/{version}/{served.row.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _listed_part(served: ServedResource, sub: Subresource) -> JsonObject:
    return {
        "name": f"{served.row.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.row.namespaced,
        **({"group": sub.group, "version": sub.version} if sub.group != served.row.group else {}),
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
