"""The end of a release: what its programs left in the cluster is taken away, whatever policy stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench
from controller.test_rights import Recorder
from support.helm import Helm
from support.rights import Right, granted, needed
from tonnage.cli.main import run
from tonnage.controller.main import run_controller
from tonnage.loop.performer import ActionRecord
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS, nvidia_definition
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.names import AGENTS_LABELS
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RUNTIME_CLASS,
)

WITH_PODS = replace(OPTIONS, operand_image="registry.example.com/tonnage:1")
WITHDRAW = replace(WITH_PODS, withdraw=True, agents_divide=True, drivers=True)
HOOKS = "controller: {enabled: true, operatorNamespace: gpu-operator, drivers: {enabled: true}}"


def hooks(folder: Path, when: str, values: str = HOOKS, **release: str) -> list[Any]:
    """The objects of the chart's hook."""
    return [
        found
        for found in Helm(4, folder).rendered(values, **release)
        if found["metadata"].get("annotations", {}).get("helm.sh/hook") == when
    ]


@pytest.fixture
async def left() -> Bench:
    """A cluster whose controller and agents are gone without a farewell, and whose policy is there."""
    bench = Bench()
    await bench.install()
    await bench.api.create(CUSTOM_RESOURCE, nvidia_definition("nvidiadrivers"))
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    own: Any = {"nvidia.com/gpu.deploy.dcgm": "false", "nvidia.com/gpu.count": "1"}
    await bench.node("a", **own)
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    await bench.node("bare", gpus=0)
    boot: Any = {"status": {"nodeInfo": {"bootID": "boot 1"}}}
    await bench.api.patch(NODE, "bare", boot, subresource="status")
    await bench.configs("sharing", any="version: v1")
    counters: Any = {"dcgm-metrics.csv": "DCGM_FI_DEV_GPU_TEMP, gauge, temperature"}
    await bench.configs("counters", **counters)
    await bench.policy(
        devicePlugin={"config": {"name": "sharing", "default": "any"}},
        dcgmExporter={"config": {"name": "counters"}},
    )
    running = asyncio.create_task(run_controller(WITH_PODS, api=bench.api, clock=bench.clock))
    await bench.clock.advance(8)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    requests: Any = [{"name": "device", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    template: Any = {
        "metadata": {"name": "nvidia-cuda-validator", "labels": {"tonnage.dev/operand": "workload"}},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    await bench.api.create(RESOURCE_CLAIM_TEMPLATE, template, namespace="gpu-operator")
    published: Any = {
        "labels": {"nvidia.com/gpu.product": "T4", "nvidia.com/mig.config.state": "success"},
        "annotations": {AGENTS_LABELS: "nvidia.com/gpu.product,kubernetes.io/hostname"},
    }
    await bench.api.patch(NODE, "a", {"metadata": published})
    conditions: Any = [
        {"type": kind, "status": "True"} for kind in ("Ready", "GPUsHealthy", "GPUConfigApplied", "MPSReady")
    ]
    status: Any = {"status": {"conditions": conditions}}
    await bench.api.patch(NODE, "a", status, subresource="status")
    return bench


async def ended(bench: Bench, api: Any = None, **more: Any) -> None:
    """Run until it ends by itself."""
    options = more.pop("options", WITHDRAW)
    running = asyncio.create_task(run_controller(options, api=api or bench.api, clock=bench.clock, **more))
    for _ in range(400):
        if running.done():
            break
        await bench.clock.advance(1)
    assert running.done()
    await running


async def test_nothing_of_ours_stays_and_all_of_the_users_does(left: Bench) -> None:
    before = await left.labels("a")
    assert before["nvidia.com/gpu.present"] == "true"
    await ended(left)
    node = await left.api.get(NODE, "a")
    assert node.metadata.labels == {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "nvidia.com/gpu.deploy.dcgm": "false",
        "nvidia.com/gpu.count": "1",
    }
    assert [condition.type for condition in node.status.conditions] == ["Ready"], "the agents' are gone"
    bare = await left.api.get(NODE, "bare")
    for metadata in (node.metadata, bare.metadata):
        assert not [key for key in (*metadata.labels, *metadata.annotations) if "tonnage" in key]
        assert not metadata.finalizers
    assert not (await left.api.list(DAEMON_SET)).items
    assert not (await left.api.list(RUNTIME_CLASS)).items
    assert not (await left.api.list(POD, namespace="gpu-operator")).items
    assert not (await left.api.list(RESOURCE_CLAIM_TEMPLATE)).items
    assert not await left.agents_configs()
    counters = await left.api.get(CONFIG_MAP, "device-metrics-counters", "tonnage-system")
    assert not counters.data
    assert (await left.api.get(CLUSTER_POLICY, "cluster-policy")).spec["devicePlugin"]


async def test_once_more_changes_nothing(left: Bench) -> None:
    await ended(left)
    told: list[ActionRecord] = []
    await ended(left, options=replace(WITHDRAW, dry_run=True), withheld=told.append)
    assert not told


async def test_a_dry_run_tells_what_would_go(left: Bench) -> None:
    before = (await left.api.get(NODE, "a")).metadata.resource_version
    told: list[ActionRecord] = []
    await ended(left, options=replace(WITHDRAW, dry_run=True), withheld=told.append)
    assert {type(record.action).__name__ for record in told} >= {
        "PatchNode",
        "PatchNodeStatus",
        "DeleteObject",
    }
    assert (await left.api.get(NODE, "a")).metadata.resource_version == before


class Conflicts:
    """An API server in which somebody else is quicker at some of the writes to Nodes, by their numbers."""

    def __init__(self, api: KubernetesApi, numbers: set[int]) -> None:
        self._api = api
        self._numbers = numbers
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def patch(self, kind: Any, *rest: Any, **options: Any) -> Any:
        self._writes += kind.plural == "nodes"
        if kind.plural == "nodes" and self._writes in self._numbers:
            raise ApiError(409, "Conflict", "the object has been modified")
        return await self._api.patch(kind, *rest, **options)


@pytest.mark.parametrize("numbers", [{1}, {2}, {3}, {2, 3, 4}], ids=lambda numbers: f"writes {numbers}")
async def test_a_node_that_was_changed_meanwhile_is_looked_at_again(left: Bench, numbers: set[int]) -> None:
    await ended(left, api=Conflicts(left.api, numbers))
    for node in (await left.api.list(NODE)).items:
        keys = (*node.metadata.labels, *node.metadata.annotations)
        assert not [key for key in keys if "tonnage" in key or key == "nvidia.com/gpu.present"]


async def test_it_works_where_the_definitions_are_gone(left: Bench) -> None:
    for plural in DEFINITIONS:
        await left.api.delete(CUSTOM_RESOURCE, f"{plural}.nvidia.com")
    await left.clock.advance(2)
    await ended(left)
    assert "nvidia.com/gpu.present" not in await left.labels("a")


class Forbidden:
    """An API server that forbids these requests: a verb, a kind, and whether of all namespaces alone."""

    def __init__(self, api: KubernetesApi, verb: str, plural: str, *, everywhere: bool = False) -> None:
        self._api = api
        self._forbidden = verb, plural
        self._everywhere = everywhere

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name != self._forbidden[0]:
            return method

        async def call(kind: Any, *rest: Any, **options: Any) -> Any:
            if kind.plural == self._forbidden[1] and not (self._everywhere and options.get("namespace")):
                raise ApiError(403, "Forbidden", f"{kind.plural} is forbidden")
            return await method(kind, *rest, **options)

        return call


@pytest.mark.parametrize(("verb", "plural"), [("patch", "nodes"), ("delete", "runtimeclasses")])
async def test_a_refusal_says_what_to_do(left: Bench, verb: str, plural: str) -> None:
    with pytest.raises(ClusterError) as refused:
        await ended(left, api=Forbidden(left.api, verb, plural))
    [problem] = refused.value.problems
    assert (problem.what, problem.why) == ("not all of it is taken away", f"{plural} is forbidden")
    assert problem.remedy.startswith("run tonnage controller --withdraw again")


async def test_without_the_right_to_see_other_namespaces_it_says_so_and_goes_on(
    left: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await ended(left, api=Forbidden(left.api, "list", "pods", everywhere=True))
    assert "agents of other namespaces are not waited for" in caplog.text
    assert "nvidia.com/gpu.present" not in await left.labels("a")


async def test_an_exporter_of_another_release_holds_up_nothing(left: Bench) -> None:
    await _agent(left, "gpu-operator", "tonnage-exporter")
    await ended(left)
    assert "nvidia.com/gpu.present" not in await left.labels("a")


@pytest.mark.parametrize("namespace", ["tonnage-system", "gpu-operator"])
async def test_it_waits_for_agents_and_says_which_stay(left: Bench, namespace: str) -> None:
    await _agent(left, namespace, "tonnage-agent")
    with pytest.raises(ClusterError, match=f"{namespace}/tonnage-agent-x"):
        await ended(left)
    assert "nvidia.com/gpu.present" in await left.labels("a"), "they would write it again"


async def _agent(left: Bench, namespace: str, name: str) -> None:
    labels = {"app.kubernetes.io/name": name}
    pod: Any = {
        "metadata": {"name": f"{name}-x", "labels": labels},
        "spec": {"containers": [{"name": "agent", "image": "a:1"}]},
    }
    await left.api.create(POD, pod, namespace=namespace)


async def test_an_adopted_node_keeps_its_way_back(left: Bench) -> None:
    note: Any = {"metadata": {"annotations": {"tonnage.dev/adoption": "{}"}}}
    await left.api.patch(NODE, "a", note)
    await ended(left)
    assert (await left.api.get(NODE, "a")).metadata.annotations["tonnage.dev/adoption"] == "{}"


async def test_what_a_layout_paused_is_given_back(left: Bench) -> None:
    paused = '{"cordoned": true, "labels": {"nvidia.com/gpu.deploy.nvsm": "true"}}'
    patch: Any = {
        "metadata": {
            "annotations": {"tonnage.dev/mig-paused": paused},
            "labels": {"nvidia.com/gpu.deploy.nvsm": "paused-for-mig-change"},
        },
        "spec": {"unschedulable": True},
    }
    await left.api.patch(NODE, "a", patch)
    await ended(left)
    node = await left.api.get(NODE, "a")
    assert node.metadata.labels["nvidia.com/gpu.deploy.nvsm"] == "true"
    assert not node.spec.unschedulable


async def test_the_hooks_roles_grant_what_it_asks(left: Bench, tmp_path: Path) -> None:
    roles = hooks(tmp_path, "post-delete")
    recorder: Any = Recorder(left.api)
    await ended(left, api=recorder)
    rights = granted(roles)
    assert needed(recorder.rights, rights) - rights == set()


@pytest.mark.parametrize(
    ("operator", "namespace"), [("default", "tonnage-system"), ("gpu-operator", "default"), ("", "default")]
)
def test_in_the_namespace_default_the_hook_may_write_events_too(
    operator: str, namespace: str, tmp_path: Path
) -> None:
    values = f"controller: {{enabled: true, operatorNamespace: {operator!r}}}"
    rights = granted(hooks(tmp_path, "post-delete", values, namespace=namespace))
    for verb, group, resource in (("create", "", "events"), ("delete", "apps", "daemonsets")):
        assert Right(verb, group, resource, "default") in rights


@pytest.mark.parametrize("serial", ["9" * 5000, "one", ""], ids=["5000 digits", "a word", "empty"])
async def test_a_definition_whose_serial_is_no_versions_is_left_alone(left: Bench, serial: str) -> None:
    name = "clusterpolicies.nvidia.com"
    noted: Any = {
        "labels": {"app.kubernetes.io/part-of": "tonnage"},
        "annotations": {"tonnage.dev/definition": serial},
    }
    before = await left.api.patch(CUSTOM_RESOURCE, name, {"metadata": noted})
    await ended(left, options=replace(OPTIONS, definitions=True))
    after = await left.api.get(CUSTOM_RESOURCE, name)
    assert after.metadata.annotations == before.metadata.annotations


async def test_definitions_of_ours_are_raised_and_no_others_touched(left: Bench, tmp_path: Path) -> None:
    roles = hooks(tmp_path, "pre-upgrade")
    ours: Any = {"labels": {"app.kubernetes.io/part-of": "tonnage"}}
    await left.api.patch(CUSTOM_RESOURCE, "clusterpolicies.nvidia.com", {"metadata": ours})
    await left.api.delete(CUSTOM_RESOURCE, "gpuclusters.nvidia.com")
    await left.clock.advance(2)
    recorder: Any = Recorder(left.api)
    await ended(left, options=replace(OPTIONS, definitions=True), api=recorder)
    serials = {
        found.metadata.name: found.metadata.annotations.get("tonnage.dev/definition", "")
        for found in (await left.api.list(CUSTOM_RESOURCE)).items
    }
    assert serials["clusterpolicies.nvidia.com"] == "1"
    assert serials["gpuclusters.nvidia.com"] == "1"
    assert serials["nvidiadrivers.nvidia.com"] == "", "NVIDIA's chart has installed that one"
    rights = granted(roles)
    assert needed(recorder.rights, rights) - rights == set()


def test_whose_labels_the_state_of_layouts_is_matters_to_a_withdrawal_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["controller", "--agents-divide"], "tonnage") == 2
    reason = "--agents-divide needs --withdraw: it says whose labels are taken away then."
    assert f"error: {reason}\n" in capsys.readouterr().err
