"""The kubelet and a device plugin over real sockets: allocation, loss, restart (KUB-2, KUB-4, KUB-5)."""

from __future__ import annotations

import json
from typing import Any

import grpc.aio
import pytest

from tonnage.decide.kubernetes.kubelet.topology_manager import TopologyPolicy, TopologyScope
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.wire import kinds
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as resources
from tonnage.wire.kubelet.methods import Method

GPU = "nvidia.com/gpu"
World = Any


async def test_references_find_what_a_plugin_says_and_the_pods_own_win(world: World) -> None:
    """In arguments and in `subPathExpr`; what the pod sets itself is what the container has."""
    await world.plugin(count=1)
    gpu = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(NVIDIA_VISIBLE_DEVICES)"}
    command = ["echo", "$(NVIDIA_VISIBLE_DEVICES)"]
    main = {"name": "main", "image": "ubuntu", "command": command, "resources": gpu, "volumeMounts": [mount]}
    for name, own in {"given": [], "own": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "mine"}]}.items():
        spec = {"containers": [{**main, "env": own}], "volumes": [{"name": "v", "emptyDir": {}}]}
        world.bind(name, restartPolicy="Never", **spec)
        await world.phase(name, "Succeeded")
        [ran] = world.runtime.containers(f"uid-{name}")
        wanted = "mine" if own else "GPU-0"
        assert [line.text for line in ran.log.since(0)] == [f"{wanted}\n".encode()]
        assert ran.config.env["NVIDIA_VISIBLE_DEVICES"] == wanted


async def test_a_registered_plugin_shows_on_the_node(world: World) -> None:
    await world.plugin(count=4)
    assert (world.capacity(), world.allocatable()) == ("4", "4")


async def test_pods_may_use_what_somebody_gives_the_node_by_hand_until_it_is_taken(world: World) -> None:
    """As a cluster's administrator advertises dongles, which no plugin knows."""
    await world.plugin(count=4)
    dongles = "example.com/dongle"

    async def given(amount: str | None) -> None:
        status = {"capacity": {dongles: amount}}
        await world.api.patch(kinds.NODE, "a100-0", {"status": status}, subresource="status")
        await world.clock.advance(11)

    await given("4")
    await world.api.until(lambda: world.allocatable(dongles) == "4")
    assert (world.capacity(dongles), world.allocatable()) == ("4", "4")
    await given(None)
    await world.api.until(lambda: world.allocatable(dongles) is None)
    assert world.capacity(dongles) is None


async def test_an_unhealthy_device_lowers_allocatable_and_not_capacity(world: World) -> None:
    """KUB-2."""
    plugin = await world.plugin(count=4)
    plugin.set_health("GPU-2", healthy=False)
    await world.api.until(lambda: world.allocatable() == "3")
    assert world.capacity() == "4"
    plugin.set_health("GPU-2", healthy=True)
    await world.api.until(lambda: world.allocatable() == "4")


async def test_a_plugin_that_dies_takes_allocatable_at_once_and_capacity_after_five_minutes(
    world: World,
) -> None:
    plugin = await world.plugin(count=4)
    await plugin.stop()
    await world.api.until(lambda: world.allocatable() == "0")
    assert world.capacity() == "4"
    await world.clock.advance(301)
    await world.api.until(lambda: world.capacity() == "0")


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
    world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    monkeypatch.setattr("tonnage.twin.kubelet.devices.plugins._DIAL_S", 0.05)
    plugin = await world.plugin(count=1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await plugin.register(**changes)
    assert words in (refused.value.details() or "")


async def test_a_pod_gets_the_devices_that_the_plugin_prefers(world: World) -> None:
    plugin = await world.plugin(count=4)
    world.bind("train", gpus=2)
    await world.phase("train", "Running")
    assert plugin.preferences == [(["GPU-0", "GPU-1", "GPU-2", "GPU-3"], [], 2)]
    assert plugin.allocations == [["GPU-2", "GPU-3"]]
    assert world.held("train") == ["GPU-2", "GPU-3"]


async def test_a_plugin_without_preferences_is_not_asked_for_them(world: World) -> None:
    plugin = await world.plugin(count=4, prefers=False)
    world.bind("train", gpus=2)
    await world.phase("train", "Running")
    assert plugin.preferences == []
    assert len(plugin.allocations[0]) == 2


async def test_too_many_devices_are_refused_in_the_kubelets_words(world: World) -> None:
    await world.plugin(count=1)
    world.bind("greedy", gpus=2)
    status = await world.phase("greedy", "Failed")
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
        "nvidia.com/gpu. Requested: 2, Available: 1, which is unexpected"
    )
    await world.api.until(lambda: world.api.events("greedy"))
    assert world.api.events("greedy")[0].startswith("Warning UnexpectedAdmissionError Allocate failed due to")


async def test_a_plugins_refusal_stands_in_the_pods_status(world: World) -> None:
    """KUB-4."""
    plugin = await world.plugin(count=2)
    plugin.refusal = "invalid request: maximum request size for shared resources is 1; found 2"
    world.bind("two", gpus=2)
    status = await world.phase("two", "Failed")
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum "
        "request size for shared resources is 1; found 2, which is unexpected"
    )
    assert world.held("two") == []


async def test_a_finished_pods_devices_are_given_to_the_next(world: World) -> None:
    await world.plugin(count=1)
    world.bind("first", gpus=1, command=["true"], restartPolicy="Never")
    await world.phase("first", "Succeeded")
    world.bind("second", gpus=1)
    await world.phase("second", "Running")


async def test_after_a_restart_plugins_register_again_and_no_pod_loses_its_device(world: World) -> None:
    """KUB-5."""
    plugin = await world.plugin(count=2)
    world.bind("train", gpus=1)
    await world.phase("train", "Running")
    before = world.held("train")
    socket = plugin.socket
    await world.kubelet.restart()
    assert not socket.exists()  # a starting kubelet clears the folder; that is how a plugin notices
    await world.api.until(lambda: world.allocatable() == "0")
    await plugin.stop()
    await plugin.start()
    await plugin.register()
    await world.api.until(lambda: world.allocatable() == "2")
    assert world.held("train") == before
    world.bind("next", gpus=1)
    await world.phase("next", "Running")
    assert set(world.held("next")).isdisjoint(before)
    assert world.api.pod("train")["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_before_the_plugin_is_back_a_new_pod_is_refused(world: World) -> None:
    await world.plugin(count=2)
    await world.kubelet.restart()
    world.bind("early", gpus=1)
    status = await world.phase("early", "Failed")
    assert "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu" in status["message"]


async def test_a_second_registration_replaces_the_first(world: World) -> None:
    plugin = await world.plugin(count=2)
    await plugin.register()
    await plugin.asked.until(lambda: plugin.streams == 2)
    plugin.set_health("GPU-0", healthy=False)
    await world.api.until(lambda: world.allocatable() == "1")
    world.bind("train", gpus=1)
    await world.phase("train", "Running")


async def test_a_full_disk_refuses_the_pod_and_gives_nothing_away(world: World) -> None:
    await world.plugin(count=1)
    world.disk.full = True
    world.bind("unlucky", gpus=1)
    status = await world.phase("unlucky", "Failed")
    assert status["message"].endswith(
        'failed to write checkpoint file "kubelet_internal_checkpoint": No space left on device, '
        "which is unexpected"
    )
    world.disk.full = False
    world.bind("lucky", gpus=1)
    await world.phase("lucky", "Running")


async def test_a_slow_disk_delays_the_start_and_the_container_waits_for_the_checkpoint(world: World) -> None:
    plugin = await world.plugin(count=1)
    world.disk.delay_s = 5.0
    world.bind("patient", gpus=1)
    await plugin.asked.until(lambda: plugin.allocations)
    await world.clock.settle()
    assert not world.runtime.containers("uid-patient")
    while not world.runtime.containers("uid-patient"):
        await world.clock.advance(1)
    data = json.loads(world.kubelet.paths.checkpoint.read_bytes())["Data"]
    assert [entry["PodUID"] for entry in data["PodDeviceEntries"]] == ["uid-patient"]


async def test_a_corrupt_checkpoint_is_left_out(world: World) -> None:
    world.kubelet.paths.checkpoint.write_bytes(b'{"Data":{},"Checksum":1}')
    await world.kubelet.restart()
    await world.plugin(count=1)
    world.bind("train", gpus=1)
    await world.phase("train", "Running")


async def test_a_policy_that_cannot_align_the_devices_refuses_the_pod(start: Any) -> None:
    """KUB-3."""
    spec = KubeletNode("a100-0", numa_nodes=2, topology_policy=TopologyPolicy.SINGLE_NUMA_NODE)
    async with start(spec) as world:
        await world.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        world.bind("wide", gpus=4)
        status = await world.phase("wide", "Failed")
        assert (status["reason"], status["message"]) == (
            "TopologyAffinityError",
            "Pod was rejected: Resources cannot be allocated with Topology locality",
        )
        world.bind("narrow", gpus=2)
        await world.phase("narrow", "Running")
        assert world.held("narrow") in (["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"])


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
    async with start(spec) as world:
        await world.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        two = {"image": "ubuntu:24.04", "command": ["sleep", "3600"], "resources": {"limits": {GPU: "2"}}}
        world.bind("pair", containers=[{"name": "one", **two}, {"name": "other", **two}])
        status = await world.phase("pair", phase)
        assert status.get("reason", "") == ("TopologyAffinityError" if phase == "Failed" else "")
        held = world.held("pair")
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

    async with start(spec) as world:
        await world.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        world.bind("first", containers=asking("8", "2"))
        await world.phase("first", "Running")
        assert world.held("first") == ["GPU-2", "GPU-3"]  # the reserved CPUs are on the other node
        await world.kubelet.restart()
        state = json.loads(world.kubelet.paths.cpu_state.read_text())
        assert (state["policyName"], state["defaultCpuSet"]) == ("static", "0-7")
        assert state["entries"]["uid-first"] == {"c": "8-15"}
        await world.plugin(count=4, numa={"GPU-0": 0, "GPU-1": 0, "GPU-2": 1, "GPU-3": 1})
        world.bind("second", containers=asking("4", "2"))
        await world.phase("second", "Running")
        world.bind("third", containers=asking("3", "0"))
        status = await world.phase("third", "Failed")
        assert status["reason"] == "TopologyAffinityError"


async def test_a_container_that_asks_for_none_gets_none_and_no_plugin_is_asked(world: World) -> None:
    plugin = await world.plugin(count=1)
    none = {"name": "c", "image": "ubuntu", "command": ["sleep", "9"], "resources": {"limits": {GPU: "0"}}}
    world.bind("none", containers=[none])
    await world.phase("none", "Running")
    assert (world.held("none"), plugin.allocations) == ([], [])


async def test_a_plugin_that_asks_for_it_hears_before_every_start(world: World) -> None:
    plugin = await world.plugin(count=1, pre_start=True)
    world.bind("train", gpus=1)
    await world.phase("train", "Running")
    assert plugin.started == [["GPU-0"]]


async def test_a_plugin_that_objects_at_the_start_keeps_the_container_waiting(world: World) -> None:
    plugin = await world.plugin(count=1, pre_start=True)
    plugin.start_refusal = "busy"
    world.bind("train", gpus=1)
    await world.api.until(lambda: "CreateContainerError" in str(world.api.pod("train")["status"]))
    waiting = world.api.pod("train")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = busy"
    )
    plugin.start_refusal = ""
    await world.clock.advance(10)
    await world.phase("train", "Running")


async def test_a_cdi_name_that_no_spec_defines_keeps_the_container_waiting(world: World) -> None:
    """RUN-1."""
    kind = "k8s.device-plugin.nvidia.com/gpu"
    folder = world.root / "var/run/cdi"
    folder.mkdir(parents=True)
    spec = folder / "nvidia.json"
    spec.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": "other"}]}))
    await world.plugin(count=1, cdi=kind)
    world.bind("train", gpus=1)
    await world.api.until(lambda: "CreateContainerError" in str(world.api.pod("train")["status"]))
    waiting = world.api.pod("train")["status"]["containerStatuses"][0]["state"]["waiting"]
    text = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices"
    assert waiting["message"] == f"{text} {kind}=GPU-0"  # as containerd 2.2 on a genuine node
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}], "env": ["SEEN=yes"]}
    devices = [{"name": "GPU-0", "containerEdits": edits}]
    spec.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}))
    await world.clock.advance(10)
    await world.phase("train", "Running")
    [container] = world.runtime.containers("uid-train")
    assert container.config.injection.device_nodes == ("/dev/nvidia0",)
    assert container.config.env["SEEN"] == "yes"


async def test_without_the_toolkit_the_variable_is_set_and_nothing_is_injected(start: Any) -> None:
    """RUN-2."""
    async with start(KubeletNode("a100-0", nvidia_runtime=False)) as world:
        await world.plugin(count=1)
        world.bind("train", gpus=1)
        await world.phase("train", "Running")
        [container] = world.runtime.containers("uid-train")
        assert container.config.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        assert container.config.injection.env == {}


async def ask(world: World, method: Method[Any, Any], request: Any) -> Any:
    """Call the pod resources API."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    target = f"unix:{world.kubelet.paths.pod_resources_socket}"
    async with grpc.aio.insecure_channel(target, options) as channel:
        stub = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await stub(request)


async def test_the_pod_resources_api_names_holders_and_healthy_devices(world: World) -> None:
    plugin = await world.plugin(count=2, numa={"GPU-1": 1})
    world.bind("train", gpus=1)
    world.bind("plain")
    await world.phase("train", "Running")
    await world.phase("plain", "Running")
    listed = await ask(world, methods.POD_RESOURCES_LIST, resources.ListPodResourcesRequest())
    found = {
        pod.name: [(d.resource_name, list(d.device_ids)) for c in pod.containers for d in c.devices]
        for pod in listed.pod_resources
    }
    assert found == {"train": [(GPU, world.held("train"))], "plain": []}
    wanted = resources.GetPodResourcesRequest(pod_name="train", pod_namespace="default")
    one = await ask(world, methods.POD_RESOURCES_GET, wanted)
    assert one.pod_resources.containers[0].devices[0].topology.nodes[0].ID == 1
    plugin.set_health("GPU-0", healthy=False)
    await world.api.until(lambda: world.allocatable() == "1")
    free = await ask(world, methods.POD_RESOURCES_ALLOCATABLE, resources.AllocatableResourcesRequest())
    assert [list(device.device_ids) for device in free.devices] == [["GPU-1"]]


async def test_the_pod_resources_api_says_which_pod_it_does_not_know(world: World) -> None:
    wanted = resources.GetPodResourcesRequest(pod_name="none", pod_namespace="default")
    with pytest.raises(grpc.aio.AioRpcError, match="pod none in namespace default not found"):
        await ask(world, methods.POD_RESOURCES_GET, wanted)
