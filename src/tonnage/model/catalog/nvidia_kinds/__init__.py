"""NVIDIA's own kinds, so that the API server takes what users write for its operator.

Source: NVIDIA/gpu-operator v26.7, the definitions in its chart, without descriptions.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Final

from tonnage.model.json import JsonObject

DEFINITIONS: Final = ("clusterpolicies", "gpuclusters", "nvidiadrivers")
SERIAL: Final = 1
"""Of the definitions as they are here; one more with each change, so that an older one is known as such."""
SERIAL_NOTE: Final = "tonnage.dev/definition"
"""Annotation of a definition that Tonnage has installed: its serial."""


def nvidia_definition(plural: str) -> JsonObject:
    """The CustomResourceDefinition of a kind, such as `clusterpolicies`; a new one at each call."""
    spec: JsonObject = json.loads(resources.files(__package__).joinpath(f"{plural}.json").read_bytes())
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{spec['group']}"},
        "spec": spec,
    }


def labelled_definition(plural: str) -> JsonObject:
    """The definition as the chart installs it: it says whose it is, and which."""
    definition = nvidia_definition(plural)
    metadata: JsonObject = {
        "name": f"{plural}.nvidia.com",
        "labels": {"app.kubernetes.io/part-of": "tonnage"},
        "annotations": {SERIAL_NOTE: str(SERIAL)},
    }
    return {**definition, "metadata": metadata}
