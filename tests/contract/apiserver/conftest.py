"""What the suites of one folder share: an API server with the chart's policies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agent_policy_server import (
    CLUSTER_KINDS,
    PATIENCE_S,
    STATUS,
    Server,
    conditions,
    path_of,
)
from support.helm import Helm


@pytest.fixture(scope="module")
def server(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With two nodes, the chart's cluster roles and its policies, once they count."""
    server = Server(api_kubeconfig)
    helm = Helm(4, tmp_path_factory.mktemp("helm"))
    made = [(path_of(found), found) for found in helm.rendered() if found["kind"] in CLUSTER_KINDS]
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
