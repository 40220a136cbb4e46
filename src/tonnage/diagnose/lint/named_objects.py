"""The objects that manifests name, so that a cluster can be asked for them and for no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, mapping, pods_of
from tonnage.diagnose.lint.rules.names import references
from tonnage.model.catalog.cluster_policy import policy_fields


def named_objects(items: Iterable[ManifestObject]) -> Iterator[tuple[str, str, str]]:
    """(kind, namespace or empty, name) of each."""
    for manifest in items:
        for site in pods_of(manifest):
            yield from (
                (reference.kind, reference.namespace, reference.name) for reference in references(site)
            )
        if manifest.kind == "ClusterPolicy":
            for dotted in policy_fields().config_maps:
                name = at_path(mapping(manifest.value.get("spec")), tuple(dotted.split(".")))
                if isinstance(name, str) and name:
                    yield "ConfigMap", "", name
