"""The kubeconfig that lets kubectl, and every other client, in."""

from __future__ import annotations

import base64
import json

from tonnage.twin.apiserver.server import Endpoint


def kubeconfig_text(endpoint: Endpoint, *, name: str = "tonnage", namespace: str = "default") -> str:
    """A kubeconfig with one context, as YAML (JSON is YAML). It holds the token: write it with mode 0600."""
    authority = base64.b64encode(endpoint.ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": endpoint.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": name, "user": {"token": endpoint.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"
