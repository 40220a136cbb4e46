"""The objects that manifests name, so that a cluster can be asked for them and for no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tonnage.diagnose.lint.items import Item, at_path, mapping, pods_of
from tonnage.diagnose.lint.rules.names import references
from tonnage.model.catalog.cluster_policy import policy_fields


def named_objects(items: Iterable[Item]) -> Iterator[tuple[str, str, str]]:
    """(kind, namespace or empty, name) of each."""
    for item in items:
        for site in pods_of(item):
            yield from ((one.kind, one.namespace, one.name) for one in references(site))
        if item.kind == "ClusterPolicy":
            for dotted in policy_fields().config_maps:
                name = at_path(mapping(item.value.get("spec")), tuple(dotted.split(".")))
                if isinstance(name, str) and name:
                    yield "ConfigMap", "", name
