"""An API server that judges what an agent may write, and requests in the agent's name."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from support.helm import NAMESPACE, Manifest

PATIENCE_S = 60.0


ACCOUNT = f"system:serviceaccount:{NAMESPACE}:tonnage-agent"


NODE_OF_THE_TOKEN = "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"


MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


CLUSTER_KINDS = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ClusterRole",
    "ClusterRoleBinding",
)


STATUS = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}


class Server:
    """The API server as its administrator, who may speak for anybody, reaches it."""

    def __init__(self, kubeconfig: Path) -> None:
        document: Any = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
        cluster = document["clusters"][0]["cluster"]
        self._url = cluster["server"]
        self._token = document["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def send(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        kind: str = "application/json",
        **more: str,
    ) -> str:
        """What the request is refused with; empty when it is not."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, **more}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30):
                return ""
        except urllib.error.HTTPError as error:
            return str(json.loads(error.read())["message"])

    def as_agent(self, node: str, patch: Manifest, *, of: str = "mine", kind: str = STRATEGIC) -> str:
        """What an agent's patch of a node's status is refused with; `node` is the one in its token."""
        who = {"Impersonate-User": ACCOUNT} | ({NODE_OF_THE_TOKEN: node} if node else {})
        return self.send("PATCH", f"/api/v1/nodes/{of}/status", patch, kind, **who)


def conditions(*kinds: str) -> Manifest:
    return {
        "status": {"conditions": [{"type": kind, "status": "True", "reason": "Because"} for kind in kinds]}
    }


def path_of(found: Mapping[str, Any]) -> str:
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
        found["kind"], f"{found['kind'].lower()}s"
    )
    return f"/apis/{found['apiVersion']}/{plural}"
