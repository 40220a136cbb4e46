"""The chart's admission policies on a genuine API server: what an agent may write of a Node."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import NAMESPACE, Helm, Manifest

pytestmark = pytest.mark.kubernetes

PATIENCE_S = 60.0
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:tonnage-agent"
NODE_OF_THE_TOKEN = "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
STATUS = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}


class Server:
    """The API server as its administrator, who may speak for anybody, reaches it."""

    def __init__(self, kubeconfig: Path) -> None:
        document: Any = yaml.safe_load(kubeconfig.read_text())
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


def _path(found: Mapping[str, Any]) -> str:
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
        found["kind"], f"{found['kind'].lower()}s"
    )
    return f"/apis/{found['apiVersion']}/{plural}"


@pytest.fixture(scope="module")
def server(genuine_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With two nodes, the chart's cluster roles and its policies, once they count."""
    server = Server(genuine_kubeconfig)
    helm = Helm(4, tmp_path_factory.mktemp("helm"))
    kinds = (
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    )
    made = [(_path(found), found) for found in helm.rendered() if found["kind"] in kinds]
    for name in ("mine", "other"):
        node = {"metadata": {"name": name}, "status": STATUS}
        made.append(("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node}))
    for path, found in made:
        assert server.send("POST", path, found) == ""
    until = time.monotonic() + PATIENCE_S
    while not server.as_agent(
        "mine", conditions("GPUsHealthy"), of="other"
    ):  # a policy counts after a moment
        assert time.monotonic() < until
    yield server
    for path, found in made:
        server.send("DELETE", f"{path}/{found['metadata']['name']}")


def test_its_own_conditions_of_its_own_node(server: Server) -> None:
    assert server.as_agent("mine", conditions("GPUsHealthy", "GPUConfigApplied")) == ""
    assert server.as_agent("mine", conditions("GPUsHealthy")) == "", "again, with others beside"


def test_no_other_node_and_none_without_a_name(server: Server) -> None:
    assert "the agent on node mine may write conditions of that node alone" in server.as_agent(
        "mine", conditions("GPUsHealthy"), of="other"
    )
    assert "does not say on which node" in server.as_agent("", conditions("GPUsHealthy"))


@pytest.mark.parametrize(
    "patch",
    [
        conditions("Ready"),
        {"status": {"capacity": {"nvidia.com/gpu": "64"}}},
        {"status": {"allocatable": {"cpu": "400"}}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
        {"status": {"volumesInUse": ["a"]}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["a.b/c"]}},
    ],
    ids=lambda patch: str(patch)[:60],
)
def test_nothing_else_of_its_node(server: Server, patch: Manifest) -> None:
    assert "may write its own conditions of a node and nothing else" in server.as_agent("mine", patch)


def test_no_condition_of_others_is_taken_away(server: Server) -> None:
    only = conditions("GPUsHealthy")
    refusal = server.as_agent("mine", only, kind=MERGE)  # a merge replaces the list
    assert "may write its own conditions of a node and nothing else" in refusal
