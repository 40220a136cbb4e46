"""By the twin's audit log: the agent, as its own account, uses every right of the chart and needs no other.

The same is asked of a genuine cluster in `tests/kubernetes/deploy/test_chart.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.audit import AuditLog
from support.helm import IMAGE, NAMESPACE, Helm, Rendered
from support.rights import granted, needed
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubernetes.client import connect
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.node.condition_report import CONFIGURED, HEALTHY
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.audit import AuditLog as TwinAuditLog
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.twin.platform import CONFIG_MAP_NAME, platform_objects
from tonnage.wire.kinds import CONFIG_MAP, DAEMON_SET, EVENT, NODE, NODE_GPU_STATUS, POD, Kind
from tonnage.wire.objects import Object
from twin.apiserver.conftest import Client

NODE_NAME = "gpu-0"
AGENT_POD = "tonnage-agent-x"
PATIENCE_S = 60.0
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
KINDS = {
    "ServiceAccount": Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Object),
    "Role": Kind(RBAC, "v1", "Role", "roles", True, Object),
    "RoleBinding": Kind(RBAC, "v1", "RoleBinding", "rolebindings", True, Object),
    "ClusterRole": Kind(RBAC, "v1", "ClusterRole", "clusterroles", False, Object),
    "ClusterRoleBinding": Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, Object),
    "ValidatingAdmissionPolicy": Kind(
        ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, Object
    ),
    "ValidatingAdmissionPolicyBinding": Kind(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        False,
        Object,
    ),
}


class Installed:
    """A twin's API server with the chart's roles and policies, and a token of the agent's pod."""

    def __init__(self, folder: Path, rendered: Rendered) -> None:
        self.folder = folder
        self.rendered = rendered
        self.kubeconfig = folder / "kubeconfig"
        self.server = ApiServer(SystemClock(), audit=TwinAuditLog(folder / "audit.log"))
        self.api: KubernetesApi = self.server.local()

    async def start(self) -> None:
        endpoint = await self.server.start(Authority.generate(datetime.now(UTC)))
        for kind, namespace, body in platform_objects({"default": "version: v1"}, Path("/none")):
            if kind is not DAEMON_SET and kind.kind not in KINDS:
                await self.api.create(kind, body, namespace=namespace)
        for manifest in self.rendered:
            if manifest["kind"] in KINDS:
                namespace = manifest["metadata"].get("namespace")
                await self.api.create(KINDS[manifest["kind"]], manifest, namespace=namespace)
        await self.api.create(NODE, {"metadata": {"name": NODE_NAME}})
        account = self.rendered.pod["serviceAccountName"]
        spec: JsonObject = {
            "nodeName": NODE_NAME,
            "serviceAccountName": account,
            "containers": [{"name": "agent", "image": IMAGE}],
        }
        await self.api.create(POD, {"metadata": {"name": AGENT_POD}, "spec": spec}, namespace=NAMESPACE)
        bound: JsonObject = {"kind": "Pod", "apiVersion": "v1", "name": AGENT_POD}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        answer = await Client(endpoint)("POST", path, {"spec": {"boundObjectRef": bound}})
        own = Endpoint(endpoint.url, endpoint.ca_pem, answer.json["status"]["token"])
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(kubeconfig_text(own))


@asynccontextmanager
async def installed(rendered: Rendered) -> AsyncIterator[Installed]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    found = Installed(folder, rendered)
    try:
        await found.start()
        yield found
    finally:
        await found.server.stop()
        shutil.rmtree(folder)


@asynccontextmanager
async def agent(cluster: Installed) -> AsyncIterator[asyncio.Task[None]]:
    """The real agent, over HTTPS, as its account."""
    hardware = cluster.folder / "hardware.yaml"
    hardware.write_text("devices:\n- {uuid: GPU-0, model: T4}\n")
    options = AgentOptions(NODE_NAME, f"scenario:{hardware}", cluster.folder)
    async with connect(cluster.kubeconfig, program="tonnage-agent") as api:
        running = asyncio.create_task(run_agent(options, api=api, clock=SystemClock()))
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until(running: asyncio.Task[None], holds: Callable[[], Awaitable[bool]]) -> None:
    """Return once `holds`; raises what ended the agent."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.wait((running,), timeout=0.02)
            if running.done():
                running.result()


async def everything(cluster: Installed, running: asyncio.Task[None]) -> None:
    """What makes an agent call: a first report, configurations good and bad, and a report that is gone."""
    api = cluster.api

    async def config_error() -> str | None:
        reports = (await api.list(NODE_GPU_STATUS)).items
        found: Any = reports[0].status if reports else {}
        return str(found.get("config", {}).get("error") or "") if found else None

    async def conditioned() -> bool:
        conditions = (await api.get(NODE, NODE_NAME)).status.conditions
        return {HEALTHY, CONFIGURED} <= {condition.type for condition in conditions}

    async def reported() -> bool:
        return await conditioned() and await config_error() == ""

    async def repeated() -> bool:
        return any(event.count > 1 for event in (await api.list(EVENT)).items)

    await until(running, reported)
    await api.delete(NODE_GPU_STATUS, NODE_NAME)
    for text, refused in (("a: 1", True), ("version: v1", False)) * 2:
        patch: JsonObject = {"data": {"default": text}}
        await api.patch(CONFIG_MAP, CONFIG_MAP_NAME, patch, namespace=NAMESPACE)

        async def said(refused: bool = refused) -> bool:
            error = await config_error()
            return error is not None and bool(error) == refused

        await until(running, said)
    await until(running, repeated)


async def test_what_is_granted_is_what_is_used(helm4: Helm) -> None:
    async with installed(helm4.rendered()) as cluster, agent(cluster) as running:
        await everything(cluster, running)
        requests = list(AuditLog(cluster.folder).of_pod(AGENT_POD))
    rights = granted(helm4.rendered())
    assert [request for request, code in requests if code == 403] == []
    assert needed((request for request, _ in requests), rights) == rights


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        (CONFIG_MAP, NAMESPACE, CONFIG_MAP_NAME),
        (POD, "default", "train"),
        (KINDS["ServiceAccount"], NAMESPACE, "tonnage-agent"),
    ],
    ids=["to read its config map by name", "to read a pod", "to read its account"],
)
async def test_more_is_refused(helm4: Helm, kind: Kind[Any], namespace: str, name: str) -> None:
    async with installed(helm4.rendered()) as cluster, connect(cluster.kubeconfig) as api:
        with pytest.raises(ApiError) as refused:
            await api.get(kind, name, namespace)
    who = f'User "system:serviceaccount:{NAMESPACE}:tonnage-agent" cannot get resource "{kind.plural}"'
    assert (refused.value.code, who in refused.value.message) == (403, True)
