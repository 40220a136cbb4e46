"""A fleet of nodes that nobody knows: some are probed at one time, the next as soon as there is a place."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.test_operator import OPTIONS, Bench, bench
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.operator.node_pods import MOST_PODS, PodPlaces, seen_pod
from tonnage.decide.cluster.operate.node_pod import USERS
from tonnage.model.validation import FAILED, INJECTED
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS, POD, PRIORITY_CLASS
from tonnage.wire.objects import Pod

__all__ = ["bench"]

NODES = MOST_PODS + 20
OPERANDS = replace(OPTIONS, operand_image="registry.example.com/tonnage:1")
PRESENT = "nvidia.com/gpu.present"


async def _fleet(bench: Bench) -> None:
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    for number in range(NODES):
        await bench.node(f"n{number}", gpus=0)
        boot: Any = {"status": {"nodeInfo": {"bootID": "boot 1"}}}
        await bench.api.patch(NODE, f"n{number}", boot, subresource="status")
    await bench.policy()


async def _pods(bench: Bench) -> list[Pod]:
    return (await bench.api.list(POD, namespace="gpu-operator")).items


async def _end(bench: Bench, pod: Pod) -> None:
    state = {"state": {"terminated": {"exitCode": 0}}}
    ended: Any = {"status": {"phase": "Succeeded", "containerStatuses": [state]}}
    await bench.api.patch(POD, pod.metadata.name, ended, namespace="gpu-operator", subresource="status")


async def test_a_place_that_is_free_is_the_next_node_s_at_once(bench: Bench) -> None:
    await _fleet(bench)
    bench.start(OPERANDS)
    await bench.clock.advance(1)
    first = await _pods(bench)
    assert len(first) == MOST_PODS
    await _end(bench, first[0])
    await bench.clock.advance(0.5)
    names = {pod.metadata.name for pod in await _pods(bench)}
    assert len(names) == len(first)
    assert len(names - {pod.metadata.name for pod in first}) == 1


def test_a_place_is_taken_while_the_pod_is_being_made() -> None:
    pods: Any = SimpleNamespace(subscribe=lambda _: None)
    context: Any = None
    looked_at: list[str] = []
    places = PodPlaces(context, pods, "probe", looked_at.append)
    nodes = [f"n{number}" for number in range(MOST_PODS + 1)]
    with ExitStack() as turns:
        for node in nodes:
            turns.enter_context(places.turn(node))
        assert [node for node in nodes if not places.has_place(node)] == nodes[-1:]
    assert looked_at == nodes[-1:]


async def test_nodes_that_wait_are_not_looked_at_again_and_again(bench: Bench) -> None:
    await _fleet(bench)
    counters = ControllerCounters()
    bench.start(OPERANDS, counters=counters)
    await bench.clock.advance(1)
    before = counters.turns["probes"]
    await bench.clock.advance(60)
    looks_at_pods = 12 * len(await _pods(bench))
    assert counters.turns["probes"] - before <= looks_at_pods


async def test_all_nodes_are_probed_in_the_end(bench: Bench) -> None:
    await _fleet(bench)
    bench.start(OPERANDS)
    for _ in range(6):
        await bench.clock.advance(3)
        for pod in await _pods(bench):
            await _end(bench, pod)
    labelled = [
        node for node in (await bench.api.list(NODE)).items if node.metadata.labels.get(PRESENT) == "true"
    ]
    assert len(labelled) == NODES


async def test_a_place_that_was_offered_to_a_node_without_need_goes_on_to_the_next(bench: Bench) -> None:
    await _fleet(bench)
    bench.start(OPERANDS)
    await bench.clock.advance(1)
    waiting = {f"n{number}" for number in range(NODES)}
    waiting -= {pod.metadata.annotations["tonnage.dev/node"] for pod in await _pods(bench)}
    for name in waiting - {max(waiting)}:  # somebody else has looked at them meanwhile
        labels: Any = {"metadata": {"labels": {"feature.node.kubernetes.io/pci-10de.present": "true"}}}
        await bench.api.patch(NODE, name, labels, patch_type=PatchType.MERGE)
    first = await _pods(bench)
    await _end(bench, first[0])
    await bench.clock.advance(1)
    made = {pod.metadata.annotations["tonnage.dev/node"] for pod in await _pods(bench)}
    assert max(waiting) in made


class Counting:
    """An API that counts the changes of Nodes."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.patches: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def patch(self, kind: Any, name: str, patch: Any, **options: Any) -> Any:
        if kind.kind == "Node":
            self.patches.append(patch)
        return await self._api.patch(kind, name, patch, **options)


async def test_what_a_probe_says_and_the_labels_that_follow_are_one_write(bench: Bench) -> None:
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    await bench.node("a", gpus=0)
    boot: Any = {"status": {"nodeInfo": {"bootID": "boot 1"}}}
    await bench.api.patch(NODE, "a", boot, subresource="status")
    await bench.policy()
    counting: Any = Counting(bench.api)
    api, bench.api = bench.api, counting
    bench.start(OPERANDS)
    bench.api = api
    await bench.clock.advance(1)
    [pod] = await _pods(bench)
    await _end(bench, pod)
    await bench.clock.advance(3)
    [patch] = counting.patches
    assert patch["metadata"]["labels"][PRESENT] == "true"
    assert patch["metadata"]["annotations"]["tonnage.dev/probed-boot"] == "boot 1"


async def test_a_node_that_has_passed_is_left_alone_until_its_agent_falls_silent(bench: Bench) -> None:
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    resources = [{**gpu, "allocated": 0}]
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    await bench.node("a")
    await bench.report("a", resources=resources)
    await bench.policy()
    counters = ControllerCounters()
    bench.start(OPERANDS, counters=counters)
    await bench.clock.advance(1)
    [pod] = await _pods(bench)
    await _end(bench, pod)
    await bench.clock.advance(120)
    before = counters.turns["validations"]
    for _ in range(10):
        await bench.report("a", resources=resources)
        await bench.clock.advance(60)
    assert counters.turns["validations"] == before
    await bench.clock.advance(300)
    driver = await _stage(bench, "driver")
    assert (driver["outcome"], "silent" in driver["message"]) == ("failed", True)
    await bench.report("a", resources=resources)
    await bench.clock.advance(2)
    assert (await _stage(bench, "driver"))["outcome"] == "passed"


async def _stage(bench: Bench, name: str) -> dict[str, Any]:
    status: Any = (await bench.api.get(NODE_GPU_STATUS, "a")).status
    return next(stage for stage in status["validation"]["stages"] if stage["stage"] == name)


@pytest.mark.parametrize(
    ("container", "code"),
    [
        pytest.param("workload", INJECTED, id="of ours it says: injection only"),
        pytest.param(USERS, FAILED, id="of a user's it says that it failed"),
    ],
)
def test_what_a_number_says_depends_on_whose_program_it_is(container: str, code: int) -> None:
    terminated = {"name": container, "state": {"terminated": {"exitCode": INJECTED}}}
    status = {"phase": "Failed", "containerStatuses": [terminated]}
    pod = seen_pod(msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod))
    assert pod is not None
    assert pod.code == code
