"""The controller's roles grant what its loops ask, and of what is theirs alone no more."""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench
from controller.test_rejected_pods import rejected
from support.audit import requests_of
from support.rights import Right, granted, needed
from tonnage.controller.main import ControllerHost, run_controller
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    GPU_CLUSTER,
    NODE,
    POD,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
)

OBJECTS: list[Any] = json.loads(files("tonnage.twin").joinpath("controller.json").read_text(encoding="utf-8"))
ROLES = granted(OBJECTS)
_VERBS = {"replace": "update"}
_ASKED = frozenset(("create", "get", "list", "watch", "patch", "replace", "delete"))
_WRITES = ("patch", "update", "delete")
"""The log has what is applied, and made, as a patch; programs in the server's process read beside it."""
_OPERATORS_OWN = frozenset(
    {
        *("clusterpolicies", "clusterpolicies/status", "runtimeclasses", "leases"),
        *("gpuclusters", "gpuclusters/status"),
        *("nodegpustatuses", "nodegpustatuses/status"),
    }
)
"""What nothing but the loops that run here asks for; drivers have loops and rights of their own."""


class Recorder:
    """Notes every request as the right that it needs."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.rights: set[Right] = set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in _ASKED:
            return method

        def call(*args: Any, **options: Any) -> Any:
            given = inspect.signature(method).bind(*args, **options).arguments
            kind, sub = given["kind"], given.get("subresource", "")
            resource = f"{kind.plural}/{sub}" if sub else kind.plural
            namespace, target = given.get("namespace") or "", given.get("name", "")
            right = Right(_VERBS.get(name, name), kind.group, resource, namespace, target)
            if name == "replace":
                right = right._replace(name=given["body"]["metadata"]["name"])
            self.rights.add(right)
            if given.get("patch_type") is PatchType.APPLY and not sub:
                return self._applied(method(*args, **options), right)
            return method(*args, **options)

        return call

    async def _applied(self, answer: Any, right: Right) -> Any:
        """What is applied and not there is made, which takes that right, too."""
        self.rights.add(right._replace(verb="create", name=""))
        return await answer


async def _end_pods(bench: Bench, code: int) -> None:
    for pod in (await bench.api.list(POD, namespace="gpu-operator")).items:
        state = {"state": {"terminated": {"exitCode": code}}}
        ended: Any = {"status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": [state]}}
        with suppress(ApiError):  # it is gone since
            await bench.api.patch(
                POD, pod.metadata.name, ended, namespace="gpu-operator", subresource="status"
            )


async def _version() -> str:
    return "v1.35.0"


async def _do_everything(bench: Bench, api: Any) -> None:
    """Have a controller do all that it does, but for drivers."""
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    await bench.node("a")
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    await bench.node("claimed", gpus=0)
    claims = {
        "driver": "gpu.nvidia.com",
        "reason": "",
        "devices": [{"name": "gpu-0", "uuid": "GPU-1", "reason": ""}],
    }
    await bench.report("claimed", claims=claims)
    await bench.node("bare", gpus=0)
    boot: Any = {"status": {"nodeInfo": {"bootID": "boot 1"}}}
    await bench.api.patch(NODE, "bare", boot, subresource="status")
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    await bench.configs("sharing", any="version: v1")
    await bench.configs("layouts", **{"config.yaml": "version: v1"})
    await bench.policy(
        devicePlugin={"config": {"name": "sharing", "default": "any"}},
        migManager={"config": {"name": "layouts"}},
        nodeStatusExporter={"enabled": True},
    )
    await bench.api.create(GPU_CLUSTER, {"metadata": {"name": "gpu-cluster"}, "spec": {"draDriver": {}}})
    await rejected(bench, "replaced", owner="ReplicaSet")
    options = replace(
        OPTIONS,
        operand_image="registry.example.com/tonnage:1",
        rejected_pods=True,
        cluster_metrics_s=5,
    )
    host = ControllerHost(None, _version, cluster_families)
    running = asyncio.create_task(run_controller(options, api=api, clock=bench.clock, host=host))
    await bench.clock.advance(3)
    await _end_pods(bench, 0)
    await bench.clock.advance(8)
    off = {"enabled": False}
    sections = ("toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager", "nodeStatusExporter")
    spec: Any = {"spec": dict.fromkeys(sections, off)}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", spec)
    await bench.clock.advance(8)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def recorded() -> set[Right]:
    """The rights that a controller needs which does everything that it does."""
    bench = Bench()
    await bench.install()
    recorder: Any = Recorder(bench.api)
    await _do_everything(bench, recorder)
    rights: set[Right] = recorder.rights
    return rights


async def test_the_roles_grant_what_is_asked_and_no_more(recorded: set[Right]) -> None:
    used = needed(recorded, ROLES)
    assert used - ROLES == set()
    unused = {right for right in ROLES - used if right.resource in _OPERATORS_OWN}
    assert unused == set()


class AuditedBench(Bench):
    """Its API server tells an audit log who asked what, and which role allowed it."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.log = AuditLog(log)
        self.server = ApiServer(self.clock, random=Random(7), audit=self.log)
        self.api = self.server.local()

    async def install(self) -> None:
        await super().install()
        kinds = {kind.kind: kind for kind in (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)}
        for obj in OBJECTS:
            if obj["kind"] in kinds:
                namespace = obj["metadata"].get("namespace")
                await self.api.create(kinds[obj["kind"]], obj, namespace=namespace)


async def test_by_the_audit_log_the_chart_s_roles_allow_every_write_and_each_is_used(tmp_path: Path) -> None:
    bench = AuditedBench(tmp_path / "audit.log")
    await bench.install()
    account = account_user("tonnage-system", "tonnage-controller")
    await _do_everything(bench, bench.server.local("tonnage-controller", account))
    bench.log.close()
    asked = list(requests_of(tmp_path / "audit.log", account.name))
    assert [right for right, reason in asked if not reason.startswith("RBAC: allowed by")] == []
    used = needed((right for right, _ in asked), ROLES)
    unused = {right for right in ROLES - used if right.resource in _OPERATORS_OWN}
    assert {right for right in unused if right.verb in _WRITES} == set(), "each right to write is used"
