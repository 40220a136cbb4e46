"""The kubeconfig of the embedded cluster."""

from __future__ import annotations

import base64

import yaml

NAME = "tonnage"


def kubeconfig_text(server: str, ca_pem: bytes, token: str) -> str:
    """A kubeconfig with one cluster, one user and one context, all named tonnage. It holds a secret."""
    authority = base64.b64encode(ca_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    return yaml.safe_dump(content, sort_keys=False)
