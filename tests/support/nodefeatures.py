"""The definition of node feature discovery's NodeFeature, as far as an API server must know it."""

from __future__ import annotations

from tonnage.model.json import JsonObject


def node_feature_crd() -> JsonObject:
    """One that takes any content."""
    schema: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: JsonObject = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names: JsonObject = {
        "kind": "NodeFeature",
        "listKind": "NodeFeatureList",
        "plural": "nodefeatures",
        "singular": "nodefeature",
    }
    spec: JsonObject = {
        "group": "nfd.k8s-sigs.io",
        "names": names,
        "scope": "Namespaced",
        "versions": [version],
    }
    return {"metadata": {"name": "nodefeatures.nfd.k8s-sigs.io"}, "spec": spec}
