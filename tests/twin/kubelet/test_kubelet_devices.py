"""The kubelet and a device plugin over real sockets: allocation, loss, restart (KUB-2, KUB-4, KUB-5)."""

from __future__ import annotations

import json
from typing import Any

import grpc.aio
import pytest

from support.kubelet_bench import KubeletBench
from tonnage.decide.kubernetes.kubelet.topology_manager import TopologyPolicy, TopologyScope
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.wire import kinds
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as resources
from tonnage.wire.kubelet.methods import Method

GPU = "nvidia.com/gpu"


async def test_references_find_what_a_plugin_says_and_the_pods_own_win(bench: KubeletBench) -> None:
    """In arguments and in `subPathExpr`; what the pod sets itself is what the container has."""
    await bench.plugin(count=1)
    gpu = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(NVIDIA_VISIBLE_DEVICES)"}
    command = ["echo", "$(NVIDIA_VISIBLE_DEVICES)"]
    main = {"name": "main", "image": "ubuntu", "command": command, "resources": gpu, "volumeMounts": [mount]}
    for name, own in {"given": [], "own": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "mine"}]}.items():
        spec: Any = {"containers": [{**main, "env": own}], "volumes": [{"name": "v", "emptyDir": {}}]}
        bench.bind(name, restartPolicy="Never", **spec)
        await bench.phase(name, "Succeeded")
        [ran] = bench.runtime.containers(f"uid-{name}")
        wanted = "mine" if own else "GPU-0"
        assert [line.text for line in ran.log.since(0)] == [f"{wanted}\n".encode()]
        assert ran.config.env["NVIDIA_VISIBLE_DEVICES"] == wanted


async def test_a_registered_plugin_shows_on_the_node(bench: KubeletBench) -> None:
    await bench.plugin(count=4)
    assert (bench.capacity(), bench.allocatable()) == ("4", "4")


async def test_pods_may_use_what_somebody_gives_the_node_by_hand_until_it_is_taken(
    bench: KubeletBench,
) -> None:
    """As a cluster's administrator advertises dongles, which no plugin knows."""
    await bench.plugin(count=4)
    dongles = "example.com/dongle"

    async def given(amount: str | None) -> None:
        status = {"capacity": {dongles: amount}}
        await bench.api.patch(kinds.NODE, "a100-0", {"status": status}, subresource="status")
        await bench.clock.advance(11)

    await given("4")
    await bench.api.until(lambda: bench.allocatable(dongles) == "4")
    assert (bench.capacity(dongles), bench.allocatable()) == ("4", "4")
    await given(None)
    await bench.api.until(lambda: bench.allocatable(dongles) is None)
    assert bench.capacity(dongles) is None


async def test_an_unhealthy_device_lowers_allocatable_and_not_capacity(bench: KubeletBench) -> None:
    """KUB-2."""
    plugin = await bench.plugin(count=4)
    plugin.set_health("GPU-2", healthy=False)
    await bench.api.until(lambda: bench.allocatable() == "3")
    assert bench.capacity() == "4"
    plugin.set_health("GPU-2", healthy=True)
    await bench.api.until(lambda: bench.allocatable() == "4")


async def test_a_plugin_that_dies_takes_allocatable_at_once_and_capacity_after_five_minutes(
    bench: KubeletBench,
) -> None:
    plugin = await bench.plugin(count=4)
    await plugin.stop()
    await bench.api.until(lambda: bench.allocatable() == "0")
    assert bench.capacity() == "4"
    await bench.clock.advance(301)
    await bench.api.until(lambda: bench.capacity() == "0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"version": "v1alpha"}, 'API version "v1alpha" is not supported', id="another version"),
        pytest.param(
            {"resource_name": "gpu"}, 'the ResourceName "gpu" is invalid', id="no extended resource"
        ),
        pytest.param({"endpoint": "nobody.sock"}, "failed to dial device plugin", id="nobody listens"),
        pytest.param(
            {"endpoint": "../x.sock"}, "is not a name in the plugin folder", id="outside the folder"
        ),
    ],
)
async def test_a_bad_registration_is_refused(
    bench: KubeletBench, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    monkeypatch.setattr("tonnage.twin.kubelet.devices.plugins._DIAL_S", 0.05)
    plugin = await bench.plugin(count=1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await plugin.register(**changes)
    assert words in (refused.value.details() or "")


async def test_a_pod_gets_the_devices_that_the_plugin_prefers(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=4)
    bench.bind("train", gpus=2)
    await bench.phase("train", "Running")
    assert plugin.preferences == [(["GPU-0", "GPU-1", "GPU-2", "GPU-3"], [], 2)]
    assert plugin.allocations == [["GPU-2", "GPU-3"]]
    assert bench.held("train") == ["GPU-2", "GPU-3"]


async def test_a_plugin_without_preferences_is_not_asked_for_them(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=4, prefers=False)
    bench.bind("train", gpus=2)
    await bench.phase("train", "Running")
    assert plugin.preferences == []
    assert len(plugin.allocations[0]) == 2


async def test_too_many_devices_are_refused_in_the_kubelets_words(bench: KubeletBench) -> None:
    await bench.plugin(count=1)
    bench.bind("greedy", gpus=2)
    status = await bench.phase("greedy", "Failed")
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
        "nvidia.com/gpu. Requested: 2, Available: 1, which is unexpected"
    )
    await bench.api.until(lambda: bench.api.events("greedy"))
    assert bench.api.events("greedy")[0].startswith("Warning UnexpectedAdmissionError Allocate failed due to")


async def test_a_plugins_refusal_stands_in_the_pods_status(bench: KubeletBench) -> None:
    """KUB-4."""
    plugin = await bench.plugin(count=2)
    plugin.refusal = "invalid request: maximum request size for shared resources is 1; found 2"
    bench.bind("two", gpus=2)
    status = await bench.phase("two", "Failed")
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum "
        "request size for shared resources is 1; found 2, which is unexpected"
    )
    assert bench.held("two") == []


async def test_a_finished_pods_devices_are_given_to_the_next(bench: KubeletBench) -> None:
    await bench.plugin(count=1)
    bench.bind("first", gpus=1, command=["true"], restartPolicy="Never")
    await bench.phase("first", "Succeeded")
    bench.bind("second", gpus=1)
    await bench.phase("second", "Running")


async def test_after_a_restart_plugins_register_again_and_no_pod_loses_its_device(
    bench: KubeletBench,
) -> None:
    """KUB-5."""
    plugin = await bench.plugin(count=2)
    bench.bind("train", gpus=1)
    await bench.phase("train", "Running")
    before = bench.held("train")
    socket = plugin.socket
    await bench.kubelet.restart()
    assert not socket.exists()  # a starting kubelet clears the folder; that is how a plugin notices
    await bench.api.until(lambda: bench.allocatable() == "0")
    await plugin.stop()
    await plugin.start()
    await plugin.register()
    await bench.api.until(lambda: bench.allocatable() == "2")
    assert bench.held("train") == before
    bench.bind("next", gpus=1)
    await bench.phase("next", "Running")
    assert set(bench.held("next")).isdisjoint(before)
    assert bench.api.pod("train")["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_before_the_plugin_is_back_a_new_pod_is_refused(bench: KubeletBench) -> None:
    await bench.plugin(count=2)
    await bench.kubelet.restart()
    bench.bind("early", gpus=1)
    status = await bench.phase("early", "Failed")
    assert "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu" in status["message"]


async def test_a_second_registration_replaces_the_first(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=2)
    await plugin.register()
    await plugin.asked.until(lambda: plugin.streams == 2)
    plugin.set_health("GPU-0", healthy=False)
    await bench.api.until(lambda: bench.allocatable() == "1")
    bench.bind("train", gpus=1)
    await bench.phase("train", "Running")


async def test_a_full_disk_refuses_the_pod_and_gives_nothing_away(bench: KubeletBench) -> None:
    await bench.plugin(count=1)
    bench.disk.full = True
    bench.bind("unlucky", gpus=1)
    status = await bench.phase("unlucky", "Failed")
    assert status["message"].endswith(
        'failed to write checkpoint file "kubelet_internal_checkpoint": No space left on device, '
        "which is unexpected"
    )
    bench.disk.full = False
    bench.bind("lucky", gpus=1)
    await bench.phase("lucky", "Running")


async def test_a_slow_disk_delays_the_start_and_the_container_waits_for_the_checkpoint(
    bench: KubeletBench,
) -> None:
    plugin = await bench.plugin(count=1)
    bench.disk.delay_s = 5.0
    bench.bind("patient", gpus=1)
    await plugin.asked.until(lambda: plugin.allocations)
    await bench.clock.settle()
    assert not bench.runtime.containers("uid-patient")
    while not bench.runtime.containers("uid-patient"):
        await bench.clock.advance(1)
    data = json.loads(bench.kubelet.paths.checkpoint.read_bytes())["Data"]
    assert [entry["PodUID"] for entry in data["PodDeviceEntries"]] == ["uid-patient"]


async def test_a_corrupt_checkpoint_is_left_out(bench: KubeletBench) -> None:
    bench.kubelet.paths.checkpoint.write_bytes(b'{"Data":{},"Checksum":1}')
    await bench.kubelet.restart()
    await bench.plugin(count=1)
    bench.bind("train", gpus=1)
    await bench.phase("train", "Running")


async def test_a_policy_that_cannot_align_the_devices_refuses_the_pod(start: Any) -> None:
    """KUB-3."""
    spec = KubeletNode("a100-0", numa_nodes=2, topology_policy=TopologyPolicy.SINGLE_NUMA_NODE)
    async with start(spec) as bench:
        await bench.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        bench.bind("wide", gpus=4)
        status = await bench.phase("wide", "Failed")
        assert (status["reason"], status["message"]) == (
            "TopologyAffinityError",
            "Pod was rejected: Resources cannot be allocated with Topology locality",
        )
        bench.bind("narrow", gpus=2)
        await bench.phase("narrow", "Running")
        assert bench.held("narrow") in (["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"])


@pytest.mark.parametrize(
    ("scope", "phase"), [(TopologyScope.CONTAINER, "Running"), (TopologyScope.POD, "Failed")]
)
async def test_a_scope_of_the_pod_aligns_its_containers_together(
    start: Any, scope: TopologyScope, phase: str
) -> None:
    """KUB-3: two containers with two GPUs each: either has a NUMA node of two, both together have none."""
    spec = KubeletNode(
        "a100-0", numa_nodes=2, topology_policy=TopologyPolicy.SINGLE_NUMA_NODE, topology_scope=scope
    )
    async with start(spec) as bench:
        await bench.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        two = {"image": "ubuntu:24.04", "command": ["sleep", "3600"], "resources": {"limits": {GPU: "2"}}}
        bench.bind("pair", containers=[{"name": "one", **two}, {"name": "other", **two}])
        status = await bench.phase("pair", phase)
        assert status.get("reason", "") == ("TopologyAffinityError" if phase == "Failed" else "")
        held = bench.held("pair")
        assert held == (["GPU-0", "GPU-1", "GPU-2", "GPU-3"] if phase == "Running" else [])


async def test_gpus_and_cpus_of_ones_own_must_be_on_one_numa_node(start: Any) -> None:
    """KUB-3: each fits a NUMA node, and both do, until another pod has CPUs there; restarts forget none."""
    spec = KubeletNode(
        "a100-0",
        capacity={"cpu": "16", "memory": "64Gi", "ephemeral-storage": "1Ti", "pods": "110"},
        reserved={"cpu": "2"},
        numa_nodes=2,
        topology_policy=TopologyPolicy.SINGLE_NUMA_NODE,
        cpu_policy="static",
        reserved_cpus=2,
    )

    def asking(cpus: str, gpus: str) -> list[dict[str, object]]:
        limits = {"cpu": cpus, "memory": "1Gi", GPU: gpus}
        resources = {"limits": {key: value for key, value in limits.items() if value != "0"}}
        return [{"name": "c", "image": "ubuntu", "command": ["sleep", "9"], "resources": resources}]

    async with start(spec) as bench:
        await bench.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        bench.bind("first", containers=asking("8", "2"))
        await bench.phase("first", "Running")
        assert bench.held("first") == ["GPU-2", "GPU-3"]  # the reserved CPUs are on the other node
        await bench.kubelet.restart()
        state = json.loads(bench.kubelet.paths.cpu_state.read_text())
        assert (state["policyName"], state["defaultCpuSet"]) == ("static", "0-7")
        assert state["entries"]["uid-first"] == {"c": "8-15"}
        await bench.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        bench.bind("second", containers=asking("4", "2"))
        await bench.phase("second", "Running")
        bench.bind("third", containers=asking("3", "0"))
        status = await bench.phase("third", "Failed")
        assert status["reason"] == "TopologyAffinityError"


async def test_a_container_that_asks_for_none_gets_none_and_no_plugin_is_asked(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=1)
    none = {"name": "c", "image": "ubuntu", "command": ["sleep", "9"], "resources": {"limits": {GPU: "0"}}}
    bench.bind("none", containers=[none])
    await bench.phase("none", "Running")
    assert (bench.held("none"), plugin.allocations) == ([], [])


async def test_a_plugin_that_asks_for_it_hears_before_every_start(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=1, pre_start=True)
    bench.bind("train", gpus=1)
    await bench.phase("train", "Running")
    assert plugin.started == [["GPU-0"]]


async def test_a_plugin_that_objects_at_the_start_keeps_the_container_waiting(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=1, pre_start=True)
    plugin.start_refusal = "busy"
    bench.bind("train", gpus=1)
    await bench.api.until(lambda: "CreateContainerError" in str(bench.api.pod("train")["status"]))
    waiting = bench.api.pod("train")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = busy"
    )
    plugin.start_refusal = ""
    await bench.clock.advance(10)
    await bench.phase("train", "Running")


async def test_a_cdi_name_that_no_spec_defines_keeps_the_container_waiting(bench: KubeletBench) -> None:
    """RUN-1."""
    kind = "k8s.device-plugin.nvidia.com/gpu"
    folder = bench.root / "var/run/cdi"
    folder.mkdir(parents=True)
    spec = folder / "nvidia.json"
    spec.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": "other"}]}))
    await bench.plugin(count=1, cdi=kind)
    bench.bind("train", gpus=1)
    await bench.api.until(lambda: "CreateContainerError" in str(bench.api.pod("train")["status"]))
    waiting = bench.api.pod("train")["status"]["containerStatuses"][0]["state"]["waiting"]
    text = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices"
    assert waiting["message"] == f"{text} {kind}=GPU-0"  # as containerd 2.2 on a genuine node
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}], "env": ["SEEN=yes"]}
    devices = [{"name": "GPU-0", "containerEdits": edits}]
    spec.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}))
    await bench.clock.advance(10)
    await bench.phase("train", "Running")
    [container] = bench.runtime.containers("uid-train")
    assert container.config.injection.device_nodes == ("/dev/nvidia0",)
    assert container.config.env["SEEN"] == "yes"


async def test_without_the_toolkit_the_variable_is_set_and_nothing_is_injected(start: Any) -> None:
    """RUN-2."""
    async with start(KubeletNode("a100-0", nvidia_runtime=False)) as bench:
        await bench.plugin(count=1)
        bench.bind("train", gpus=1)
        await bench.phase("train", "Running")
        [container] = bench.runtime.containers("uid-train")
        assert container.config.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        assert container.config.injection.env == {}


async def ask(bench: KubeletBench, method: Method[Any, Any], request: Any) -> Any:
    """Call the pod resources API."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    target = f"unix:{bench.kubelet.paths.pod_resources_socket}"
    async with grpc.aio.insecure_channel(target, options) as channel:
        stub = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await stub(request)


async def test_the_pod_resources_api_names_holders_and_healthy_devices(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=2, numa={"GPU-1": 1})
    bench.bind("train", gpus=1)
    bench.bind("plain")
    await bench.phase("train", "Running")
    await bench.phase("plain", "Running")
    listed = await ask(bench, methods.POD_RESOURCES_LIST, resources.ListPodResourcesRequest())
    found = {
        pod.name: [(d.resource_name, list(d.device_ids)) for c in pod.containers for d in c.devices]
        for pod in listed.pod_resources
    }
    assert found == {"train": [(GPU, bench.held("train"))], "plain": []}
    wanted = resources.GetPodResourcesRequest(pod_name="train", pod_namespace="default")
    one = await ask(bench, methods.POD_RESOURCES_GET, wanted)
    assert one.pod_resources.containers[0].devices[0].topology.nodes[0].ID == 1
    plugin.set_health("GPU-0", healthy=False)
    await bench.api.until(lambda: bench.allocatable() == "1")
    free = await ask(bench, methods.POD_RESOURCES_ALLOCATABLE, resources.AllocatableResourcesRequest())
    assert [list(device.device_ids) for device in free.devices] == [["GPU-1"]]


async def test_the_pod_resources_api_says_which_pod_it_does_not_know(bench: KubeletBench) -> None:
    wanted = resources.GetPodResourcesRequest(pod_name="none", pod_namespace="default")
    with pytest.raises(grpc.aio.AioRpcError, match="pod none in namespace default not found"):
        await ask(bench, methods.POD_RESOURCES_GET, wanted)
