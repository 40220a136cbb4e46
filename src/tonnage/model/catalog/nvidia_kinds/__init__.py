"""NVIDIA's own kinds, so that the API server takes what users write for its operator.

Source: NVIDIA/gpu-operator v26.7, the definitions in its chart, without descriptions.
"""

from __future__ import annotations

import json
from importlib import resources

from tonnage.model.json import JsonObject


def nvidia_definition(plural: str) -> JsonObject:
    """The CustomResourceDefinition of a kind, such as `clusterpolicies`; a new one at each call."""
    spec: JsonObject = json.loads(resources.files(__package__).joinpath(f"{plural}.json").read_bytes())
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{spec['group']}"},
        "spec": spec,
    }
