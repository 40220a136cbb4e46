"""A pod's life on the node: phases, conditions, restarts, init containers, sidecars, refusals, ending."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.kubelet.containers.images import image_bytes
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.wire import kinds

World = Any


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in status["conditions"]}


def container(status: dict[str, Any], name: str = "main") -> dict[str, Any]:
    statuses = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    found: dict[str, Any] = next(one for one in statuses if one["name"] == name)
    return found


async def test_a_pod_runs_with_address_conditions_and_events(world: World) -> None:
    world.bind("web")
    status = await world.phase("web", "Running")
    assert (status["podIP"], status["hostIP"]) == ("10.244.7.2", "127.0.0.1")
    assert conditions(status) == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"], ("True", "")
    )
    assert container(status)["state"] == {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    await world.api.until(lambda: len(world.api.events("web")) == 4)
    pulled = 'Successfully pulled image "ubuntu:24.04" in 1ms (1ms including waiting). '
    pulled += f"Image size: {image_bytes('ubuntu:24.04')} bytes."
    assert world.api.events("web") == [
        'Normal Pulling Pulling image "ubuntu:24.04" x1',
        f"Normal Pulled {pulled} x1",
        "Normal Created Container created x1",
        "Normal Started Container started x1",
    ]


async def test_an_image_that_is_there_is_not_pulled_again(world: World) -> None:
    world.bind("first")
    await world.phase("first", "Running")
    world.bind("second")
    await world.phase("second", "Running")
    await world.api.until(lambda: world.api.events("second"))
    assert world.api.events("second")[0] == (
        'Normal Pulled Container image "ubuntu:24.04" already present on machine and can be accessed by the '
        "pod x1"
    )


@pytest.mark.parametrize(
    ("command", "policy", "phase"),
    [
        pytest.param(["true"], "Never", "Succeeded", id="never, exit 0"),
        pytest.param(["false"], "Never", "Failed", id="never, exit 1"),
        pytest.param(["true"], "OnFailure", "Succeeded", id="on failure, exit 0"),
        pytest.param(["bash", "-c", "exit 7"], "Never", "Failed", id="a shell's own exit code"),
    ],
)
async def test_a_container_that_ends_ends_its_pod(
    world: World, command: list[str], policy: str, phase: str
) -> None:
    world.bind("job", command=command, restartPolicy=policy)
    status = await world.phase("job", phase)
    terminated = container(status)["state"]["terminated"]
    assert terminated["exitCode"] == {"true": 0, "false": 1, "bash": 7}[command[0]]
    assert terminated["reason"] == ("Completed" if phase == "Succeeded" else "Error")
    assert conditions(status)["Ready"] == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")


async def test_a_crashing_container_backs_off_longer_and_longer(world: World) -> None:
    world.bind("crash", command=["false"])

    def waiting() -> str:
        status = world.api.pod("crash").get("status", {})
        state = container(status)["state"] if "containerStatuses" in status else {}
        return str(state.get("waiting", {}).get("message", ""))

    for restarts, delay in enumerate(["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"], start=1):
        await world.api.until(lambda d=delay: waiting().startswith(f"back-off {d} restarting"))
        assert container(world.api.pod("crash")["status"])["restartCount"] == restarts
        while waiting().startswith(f"back-off {delay} ") and delay != "5m0s":
            await world.clock.advance(5)
    assert waiting() == "back-off 5m0s restarting failed container=main pod=crash_default(uid-crash)"
    back_off = [event for event in world.api.events("crash") if "BackOff" in event]
    assert back_off[0].startswith(
        "Warning BackOff Back-off restarting failed container main in pod crash_default(uid-crash) x"
    )
    assert len(back_off) == 1


async def test_init_containers_run_one_after_the_other_before_the_rest(world: World) -> None:
    order: list[str] = []
    world.bind(
        "staged",
        command=["sleep", "60"],
        initContainers=[
            {"name": "one", "image": "ubuntu:24.04", "command": ["sleep", "5"]},
            {"name": "two", "image": "ubuntu:24.04", "command": ["sleep", "5"]},
        ],
    )
    await world.api.until(lambda: world.api.pod("staged")["status"].get("initContainerStatuses"))
    status = world.api.pod("staged")["status"]
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert container(status)["state"] == {"waiting": {"reason": "PodInitializing"}}
    for name in ("one", "two"):
        await world.api.until(
            lambda n=name: "running" in container(world.api.pod("staged")["status"], n)["state"]
        )
        order.append(name)
        await world.clock.advance(5)
    status = await world.phase("staged", "Running")
    assert order == ["one", "two"]
    assert container(status, "one")["state"]["terminated"]["exitCode"] == 0
    assert conditions(status)["Initialized"] == ("True", "")


async def test_an_init_container_that_fails_for_good_fails_the_pod(world: World) -> None:
    world.bind(
        "staged",
        restartPolicy="Never",
        initContainers=[{"name": "one", "image": "ubuntu:24.04", "command": ["false"]}],
    )
    status = await world.phase("staged", "Failed")
    assert container(status)["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_an_init_container_that_is_pretended_is_not_waited_for(world: World) -> None:
    foreign = {"image": "quay.io/example/reloader:v1", "args": ["--once"]}
    inits = [{"name": "one", **foreign}, {"name": "side", **foreign, "restartPolicy": "Always"}]
    world.bind("staged", initContainers=inits)
    await world.clock.advance(1)
    status = await world.phase("staged", "Running")
    assert container(status, "one")["state"]["terminated"]["exitCode"] == 0
    assert "running" in container(status, "side")["state"]


async def test_a_sidecar_stays_beside_the_containers_and_ends_after_them(world: World) -> None:
    side = {
        "name": "side",
        "image": "ubuntu:24.04",
        "command": ["sleep", "infinity"],
        "restartPolicy": "Always",
    }
    world.bind("job", command=["sleep", "5"], restartPolicy="Never", initContainers=[side])
    await world.clock.advance(1)
    status = await world.phase("job", "Running")
    assert "running" in container(status, "side")["state"]
    await world.clock.advance(5)
    await world.phase("job", "Succeeded")


async def test_containers_wait_for_a_sidecar_that_keeps_running(world: World) -> None:
    """One that ends again and again has not begun, however often it is started."""
    side = {
        "name": "side",
        "image": "ubuntu:24.04",
        "command": ["sh", "-c", "exit 3"],
        "restartPolicy": "Always",
    }
    world.bind("job", initContainers=[side])
    await world.clock.advance(60)
    status = world.api.pod("job")["status"]
    assert (status["phase"], container(status, "side")["restartCount"] > 1) == ("Pending", True)
    assert container(status, "main")["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_a_node_that_is_too_small_refuses_with_the_amounts(world: World) -> None:
    world.bind(
        "big",
        containers=[
            {"name": "main", "image": "ubuntu:24.04", "resources": {"requests": {"cpu": "65"}}},
        ],
    )
    status = await world.phase("big", "Failed")
    assert (status["reason"], status["message"]) == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 65000, used: 0, capacity: 64000",
    )


PORT = [
    {"name": "main", "image": "ubuntu:24.04", "ports": [{"containerPort": 80, "hostPort": 80}]},
]


@pytest.mark.parametrize(
    ("spec", "predicate", "why"),
    [
        pytest.param(
            {"nodeSelector": {"zone": "elsewhere"}},
            "NodeAffinity",
            "didn't match Pod's node affinity/selector",
            id="another node's label",
        ),
        pytest.param(
            {"containers": PORT},
            "NodePorts",
            "didn't have free ports for the requested pod ports",
            id="a port of the node that is taken",
        ),
        pytest.param({}, "TaintToleration", "had untolerated taint(s)", id="a taint that evicts"),
    ],
)
async def test_the_kubelet_checks_again_what_the_scheduler_did(
    world: World, spec: Any, predicate: str, why: str
) -> None:
    world.bind("first", containers=PORT)
    await world.phase("first", "Running")
    if predicate == "TaintToleration":
        taints = [{"key": "maintenance", "effect": "NoExecute"}, {"key": "busy", "effect": "NoSchedule"}]
        await world.api.patch(kinds.NODE, world.kubelet.spec.name, {"spec": {"taints": taints}})
    world.bind("late", **spec)
    status = await world.phase("late", "Failed")
    assert status["reason"] == predicate
    assert status["message"] == f"Pod was rejected: Predicate {predicate} failed: node(s) {why}"


async def test_a_resource_whose_plugin_has_gone_for_good_is_out_of(world: World) -> None:
    plugin = await world.plugin(count=1)
    await plugin.stop()
    await world.api.until(lambda: world.allocatable() == "0")
    await world.clock.advance(301)
    await world.api.until(lambda: world.capacity() == "0")
    world.bind("late", gpus=1)
    status = await world.phase("late", "Failed")
    assert status["reason"] == "OutOfnvidia.com/gpu"


async def test_a_deleted_pod_ends_in_order_and_only_then_goes(world: World) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    await world.api.delete(kinds.POD, "web", namespace="default")
    await world.gone("web")
    await world.clock.settle()
    assert not world.runtime.containers("uid-web")
    assert "Normal Killing Stopping container main x1" in world.api.events("web")


async def test_a_program_that_ignores_the_signal_is_killed_after_the_grace_period(start: Any) -> None:
    async def stubborn(context: ContainerContext) -> int:
        import asyncio

        while True:
            try:
                await context.clock.sleep(1e6)
            except asyncio.CancelledError:
                if context.clock.monotonic() > 29:
                    raise

    async with start(programs={"stubborn": stubborn}) as world:
        world.bind("hard", containers=[{"name": "main", "image": "stubborn"}])
        await world.phase("hard", "Running")
        await world.api.delete(kinds.POD, "hard", namespace="default")
        await world.clock.advance(29)
        assert world.api.pod("hard")
        await world.clock.advance(1)
        await world.gone("hard")


async def test_an_object_that_vanishes_takes_its_containers_along(world: World) -> None:
    await world.plugin(count=1)
    world.bind("web", gpus=1)
    await world.phase("web", "Running")
    world.api.remove(kinds.POD, "web")
    await world.clock.settle()
    assert not world.runtime.containers("uid-web")
    world.bind("next", gpus=1)
    await world.phase("next", "Running")


async def test_a_restarted_kubelet_takes_over_running_containers(world: World) -> None:
    world.bind("web")
    before = await world.phase("web", "Running")
    await world.kubelet.restart()
    world.bind("next")
    after = await world.phase("next", "Running")
    assert world.api.pod("web")["status"]["containerStatuses"] == before["containerStatuses"]
    assert after["podIP"] != before["podIP"]


async def test_pods_deleted_while_the_kubelet_was_down_are_cleaned_up(world: World) -> None:
    await world.plugin(count=1)
    world.bind("web", gpus=1)
    await world.phase("web", "Running")
    world.api.down = True
    restarting = world.kubelet.restart()
    world.api.objects["pods"].clear()
    await restarting
    world.api.down = False
    await world.clock.advance(10)
    await world.plugins[0].stop()
    await world.plugins[0].start()
    await world.plugins[0].register()
    await world.api.until(lambda: world.allocatable() == "1")
    world.bind("next", gpus=1)
    await world.phase("next", "Running")
    assert not world.runtime.containers("uid-web")


async def test_an_image_from_an_invalid_registry_waits_and_says_so(world: World) -> None:
    world.bind("lost", containers=[{"name": "main", "image": "registry.invalid/team/app:1"}])

    def reason() -> str:
        status = world.api.pod("lost")["status"]
        return (
            str(status["containerStatuses"][0]["state"]["waiting"]["reason"]) if "startTime" in status else ""
        )

    await world.api.until(lambda: reason() == "ErrImagePull")
    await world.clock.advance(2)
    await world.api.until(lambda: reason() == "ImagePullBackOff")
    await world.api.until(lambda: any("Failed to pull image" in e for e in world.api.events("lost")))


async def test_environment_comes_from_the_pod_its_status_and_config_maps(world: World) -> None:
    await world.api.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}, namespace="default"
    )
    world.bind(
        "web",
        restartPolicy="Never",
        containers=[
            {
                "name": "main",
                "image": "ubuntu:24.04",
                "command": ["echo", "$(NODE)", "$(IP)", "$(MODE)", "$(MISSING)"],
                "env": [
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
                ],
            }
        ],
    )
    await world.phase("web", "Succeeded")
    [ran] = world.runtime.containers("uid-web")
    assert [line.text for line in ran.log.since(0)] == [b"a100-0 10.244.7.2 fast $(MISSING)\n"]


async def test_a_missing_config_map_keeps_the_container_from_starting(world: World) -> None:
    env = [{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]
    world.bind("web", containers=[{"name": "main", "image": "ubuntu:24.04", "command": ["env"], "env": env}])
    await world.api.until(
        lambda: "CreateContainerConfigError" in str(world.api.pod("web")["status"].get("containerStatuses"))
    )
    waiting = world.api.pod("web")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'configmap "settings" not found'


async def test_the_node_registers_with_labels_conditions_and_lease(start: Any) -> None:
    spec = KubeletNode(
        "t4-0", port=10250, labels={"pool": "small"}, reserved={"cpu": "500m", "memory": "1Gi"}
    )
    async with start(spec) as world:
        await world.api.until(lambda: world.api.objects["leases"] and "status" in world.api.node())
        node = world.api.node()
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "t4-0"
        assert node["metadata"]["labels"]["pool"] == "small"
        status = node["status"]
        assert {c["type"]: c["status"] for c in status["conditions"]} == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }
        assert status["allocatable"]["cpu"] == "63500m"
        assert status["allocatable"]["memory"] == str(511 << 30)
        assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
        assert status["nodeInfo"]["kubeletVersion"].startswith("v1.35.")
        first = world.api.objects["leases"]["kube-node-lease", "t4-0"]["spec"]["renewTime"]
        await world.clock.advance(10)
        assert world.api.objects["leases"]["kube-node-lease", "t4-0"]["spec"]["renewTime"] > first


async def test_events_say_that_a_kubelet_begins_and_that_its_node_is_well(world: World) -> None:
    name = world.kubelet.spec.name
    began = [
        "Normal Starting Starting kubelet. x1",
        f"Normal NodeHasSufficientMemory Node {name} status is now: NodeHasSufficientMemory x1",
        f"Normal NodeHasNoDiskPressure Node {name} status is now: NodeHasNoDiskPressure x1",
        f"Normal NodeHasSufficientPID Node {name} status is now: NodeHasSufficientPID x1",
        "Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods x1",
        f"Normal NodeReady Node {name} status is now: NodeReady x1",
    ]
    await world.clock.advance(1)
    assert world.api.events(name) == began
    await world.kubelet.restart()
    await world.clock.advance(1)
    assert world.api.events(name)[len(began) :] == [began[0], began[4]]


async def test_an_api_server_that_is_away_at_first_is_tried_again(start: Any) -> None:
    async with start() as world:
        world.api.down = True
        await world.kubelet.restart()
        await world.clock.advance(1)
        world.api.down = False
        await world.clock.advance(10)
        await world.api.until(lambda: world.api.node().get("status"))
