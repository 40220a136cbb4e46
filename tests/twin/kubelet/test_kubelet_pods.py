"""A pod's life on the node: phases, conditions, restarts, init containers, sidecars, refusals, ending."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.twin.kubelet.containers.images import image_bytes
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.wire import kinds


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in status["conditions"]}


def container(status: dict[str, Any], name: str = "main") -> dict[str, Any]:
    statuses = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    found: dict[str, Any] = next(one for one in statuses if one["name"] == name)
    return found


async def test_a_pod_runs_with_address_conditions_and_events(bench: KubeletBench) -> None:
    bench.bind("web")
    status = await bench.phase("web", "Running")
    assert (status["podIP"], status["hostIP"]) == ("10.244.7.2", "127.0.0.1")
    assert conditions(status) == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"], ("True", "")
    )
    assert container(status)["state"] == {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    await bench.api.until(lambda: len(bench.api.events("web")) == 4)
    pulled = 'Successfully pulled image "ubuntu:24.04" in 1ms (1ms including waiting). '
    pulled += f"Image size: {image_bytes('ubuntu:24.04')} bytes."
    assert bench.api.events("web") == [
        'Normal Pulling Pulling image "ubuntu:24.04" x1',
        f"Normal Pulled {pulled} x1",
        "Normal Created Container created x1",
        "Normal Started Container started x1",
    ]


async def test_an_image_that_is_there_is_not_pulled_again(bench: KubeletBench) -> None:
    bench.bind("first")
    await bench.phase("first", "Running")
    bench.bind("second")
    await bench.phase("second", "Running")
    await bench.api.until(lambda: bench.api.events("second"))
    assert bench.api.events("second")[0] == (
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
    bench: KubeletBench, command: list[str], policy: str, phase: str
) -> None:
    bench.bind("job", command=command, restartPolicy=policy)
    status = await bench.phase("job", phase)
    terminated = container(status)["state"]["terminated"]
    assert terminated["exitCode"] == {"true": 0, "false": 1, "bash": 7}[command[0]]
    assert terminated["reason"] == ("Completed" if phase == "Succeeded" else "Error")
    assert conditions(status)["Ready"] == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")


async def test_a_crashing_container_backs_off_longer_and_longer(bench: KubeletBench) -> None:
    bench.bind("crash", command=["false"])

    def waiting() -> str:
        status = bench.api.pod("crash").get("status", {})
        state = container(status)["state"] if "containerStatuses" in status else {}
        return str(state.get("waiting", {}).get("message", ""))

    for restarts, delay in enumerate(["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"], start=1):
        await bench.api.until(partial(lambda d: waiting().startswith(f"back-off {d} restarting"), delay))
        assert container(bench.api.pod("crash")["status"])["restartCount"] == restarts
        while waiting().startswith(f"back-off {delay} ") and delay != "5m0s":
            await bench.clock.advance(5)
    assert waiting() == "back-off 5m0s restarting failed container=main pod=crash_default(uid-crash)"
    back_off = [event for event in bench.api.events("crash") if "BackOff" in event]
    assert back_off[0].startswith(
        "Warning BackOff Back-off restarting failed container main in pod crash_default(uid-crash) x"
    )
    assert len(back_off) == 1


async def test_init_containers_run_one_after_the_other_before_the_rest(bench: KubeletBench) -> None:
    order: list[str] = []
    bench.bind(
        "staged",
        command=["sleep", "60"],
        initContainers=[
            {"name": "one", "image": "ubuntu:24.04", "command": ["sleep", "5"]},
            {"name": "two", "image": "ubuntu:24.04", "command": ["sleep", "5"]},
        ],
    )
    await bench.api.until(lambda: bench.api.pod("staged")["status"].get("initContainerStatuses"))
    status = bench.api.pod("staged")["status"]
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert container(status)["state"] == {"waiting": {"reason": "PodInitializing"}}
    for name in ("one", "two"):
        await bench.api.until(
            partial(lambda n: "running" in container(bench.api.pod("staged")["status"], n)["state"], name)
        )
        order.append(name)
        await bench.clock.advance(5)
    status = await bench.phase("staged", "Running")
    assert order == ["one", "two"]
    assert container(status, "one")["state"]["terminated"]["exitCode"] == 0
    assert conditions(status)["Initialized"] == ("True", "")


async def test_an_init_container_that_fails_for_good_fails_the_pod(bench: KubeletBench) -> None:
    bench.bind(
        "staged",
        restartPolicy="Never",
        initContainers=[{"name": "one", "image": "ubuntu:24.04", "command": ["false"]}],
    )
    status = await bench.phase("staged", "Failed")
    assert container(status)["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_an_init_container_that_is_pretended_is_not_waited_for(bench: KubeletBench) -> None:
    foreign = {"image": "quay.io/example/reloader:v1", "args": ["--once"]}
    inits = [{"name": "one", **foreign}, {"name": "side", **foreign, "restartPolicy": "Always"}]
    bench.bind("staged", initContainers=inits)
    await bench.clock.advance(1)
    status = await bench.phase("staged", "Running")
    assert container(status, "one")["state"]["terminated"]["exitCode"] == 0
    assert "running" in container(status, "side")["state"]


async def test_a_sidecar_stays_beside_the_containers_and_ends_after_them(bench: KubeletBench) -> None:
    side = {
        "name": "side",
        "image": "ubuntu:24.04",
        "command": ["sleep", "infinity"],
        "restartPolicy": "Always",
    }
    bench.bind("job", command=["sleep", "5"], restartPolicy="Never", initContainers=[side])
    await bench.clock.advance(1)
    status = await bench.phase("job", "Running")
    assert "running" in container(status, "side")["state"]
    await bench.clock.advance(5)
    await bench.phase("job", "Succeeded")


async def test_containers_wait_for_a_sidecar_that_keeps_running(bench: KubeletBench) -> None:
    """One that ends again and again has not begun, however often it is started."""
    side = {
        "name": "side",
        "image": "ubuntu:24.04",
        "command": ["sh", "-c", "exit 3"],
        "restartPolicy": "Always",
    }
    bench.bind("job", initContainers=[side])
    await bench.clock.advance(60)
    status = bench.api.pod("job")["status"]
    assert (status["phase"], container(status, "side")["restartCount"] > 1) == ("Pending", True)
    assert container(status, "main")["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_a_node_that_is_too_small_refuses_with_the_amounts(bench: KubeletBench) -> None:
    bench.bind(
        "big",
        containers=[
            {"name": "main", "image": "ubuntu:24.04", "resources": {"requests": {"cpu": "65"}}},
        ],
    )
    status = await bench.phase("big", "Failed")
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
    bench: KubeletBench, spec: Any, predicate: str, why: str
) -> None:
    bench.bind("first", containers=PORT)
    await bench.phase("first", "Running")
    if predicate == "TaintToleration":
        taints = [{"key": "maintenance", "effect": "NoExecute"}, {"key": "busy", "effect": "NoSchedule"}]
        await bench.api.patch(kinds.NODE, bench.kubelet.spec.name, {"spec": {"taints": taints}})
    bench.bind("late", **spec)
    status = await bench.phase("late", "Failed")
    assert status["reason"] == predicate
    assert status["message"] == f"Pod was rejected: Predicate {predicate} failed: node(s) {why}"


async def test_a_resource_whose_plugin_has_gone_for_good_is_out_of(bench: KubeletBench) -> None:
    plugin = await bench.plugin(count=1)
    await plugin.stop()
    await bench.api.until(lambda: bench.allocatable() == "0")
    await bench.clock.advance(301)
    await bench.api.until(lambda: bench.capacity() == "0")
    bench.bind("late", gpus=1)
    status = await bench.phase("late", "Failed")
    assert status["reason"] == "OutOfnvidia.com/gpu"


async def test_a_deleted_pod_ends_in_order_and_only_then_goes(bench: KubeletBench) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    await bench.api.delete(kinds.POD, "web", namespace="default")
    await bench.gone("web")
    await bench.clock.settle()
    assert not bench.runtime.containers("uid-web")
    assert "Normal Killing Stopping container main x1" in bench.api.events("web")


async def test_a_program_that_ignores_the_signal_is_killed_after_the_grace_period(start: Any) -> None:
    async def stubborn(context: ContainerContext) -> int:
        import asyncio

        while True:
            try:
                await context.clock.sleep(1e6)
            except asyncio.CancelledError:
                if context.clock.monotonic() > 29:
                    raise

    async with start(programs={"stubborn": stubborn}) as bench:
        bench.bind("hard", containers=[{"name": "main", "image": "stubborn"}])
        await bench.phase("hard", "Running")
        await bench.api.delete(kinds.POD, "hard", namespace="default")
        await bench.clock.advance(29)
        assert bench.api.pod("hard")
        await bench.clock.advance(1)
        await bench.gone("hard")


async def test_an_object_that_vanishes_takes_its_containers_along(bench: KubeletBench) -> None:
    await bench.plugin(count=1)
    bench.bind("web", gpus=1)
    await bench.phase("web", "Running")
    bench.api.remove(kinds.POD, "web")
    await bench.clock.settle()
    assert not bench.runtime.containers("uid-web")
    bench.bind("next", gpus=1)
    await bench.phase("next", "Running")


async def test_a_restarted_kubelet_takes_over_running_containers(bench: KubeletBench) -> None:
    bench.bind("web")
    before = await bench.phase("web", "Running")
    await bench.kubelet.restart()
    bench.bind("next")
    after = await bench.phase("next", "Running")
    assert bench.api.pod("web")["status"]["containerStatuses"] == before["containerStatuses"]
    assert after["podIP"] != before["podIP"]


async def test_pods_deleted_while_the_kubelet_was_down_are_cleaned_up(bench: KubeletBench) -> None:
    await bench.plugin(count=1)
    bench.bind("web", gpus=1)
    await bench.phase("web", "Running")
    bench.api.down = True
    restarting = bench.kubelet.restart()
    bench.api.objects["pods"].clear()
    await restarting
    bench.api.down = False
    await bench.clock.advance(10)
    await bench.plugins[0].stop()
    await bench.plugins[0].start()
    await bench.plugins[0].register()
    await bench.api.until(lambda: bench.allocatable() == "1")
    bench.bind("next", gpus=1)
    await bench.phase("next", "Running")
    assert not bench.runtime.containers("uid-web")


async def test_an_image_from_an_invalid_registry_waits_and_says_so(bench: KubeletBench) -> None:
    bench.bind("lost", containers=[{"name": "main", "image": "registry.invalid/team/app:1"}])

    def reason() -> str:
        status = bench.api.pod("lost")["status"]
        return (
            str(status["containerStatuses"][0]["state"]["waiting"]["reason"]) if "startTime" in status else ""
        )

    await bench.api.until(lambda: reason() == "ErrImagePull")
    await bench.clock.advance(2)
    await bench.api.until(lambda: reason() == "ImagePullBackOff")
    await bench.api.until(lambda: any("Failed to pull image" in e for e in bench.api.events("lost")))


async def test_environment_comes_from_the_pod_its_status_and_config_maps(bench: KubeletBench) -> None:
    await bench.api.create(
        kinds.CONFIG_MAP, {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}, namespace="default"
    )
    bench.bind(
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
    await bench.phase("web", "Succeeded")
    [ran] = bench.runtime.containers("uid-web")
    assert [line.text for line in ran.log.since(0)] == [b"a100-0 10.244.7.2 fast $(MISSING)\n"]


async def test_a_missing_config_map_keeps_the_container_from_starting(bench: KubeletBench) -> None:
    env = [{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]
    bench.bind("web", containers=[{"name": "main", "image": "ubuntu:24.04", "command": ["env"], "env": env}])
    await bench.api.until(
        lambda: "CreateContainerConfigError" in str(bench.api.pod("web")["status"].get("containerStatuses"))
    )
    waiting = bench.api.pod("web")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'configmap "settings" not found'


async def test_the_node_registers_with_labels_conditions_and_lease(start: Any) -> None:
    spec = KubeletNode(
        "t4-0", port=10250, labels={"pool": "small"}, reserved={"cpu": "500m", "memory": "1Gi"}
    )
    async with start(spec) as bench:
        await bench.api.until(lambda: bench.api.objects["leases"] and "status" in bench.api.node())
        node = bench.api.node()
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
        first = bench.api.objects["leases"]["kube-node-lease", "t4-0"]["spec"]["renewTime"]
        await bench.clock.advance(10)
        assert bench.api.objects["leases"]["kube-node-lease", "t4-0"]["spec"]["renewTime"] > first


async def test_events_say_that_a_kubelet_begins_and_that_its_node_is_well(bench: KubeletBench) -> None:
    name = bench.kubelet.spec.name
    began = [
        "Normal Starting Starting kubelet. x1",
        f"Normal NodeHasSufficientMemory Node {name} status is now: NodeHasSufficientMemory x1",
        f"Normal NodeHasNoDiskPressure Node {name} status is now: NodeHasNoDiskPressure x1",
        f"Normal NodeHasSufficientPID Node {name} status is now: NodeHasSufficientPID x1",
        "Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods x1",
        f"Normal NodeReady Node {name} status is now: NodeReady x1",
    ]
    await bench.clock.advance(1)
    assert bench.api.events(name) == began
    await bench.kubelet.restart()
    await bench.clock.advance(1)
    assert bench.api.events(name)[len(began) :] == [began[0], began[4]]


async def test_an_api_server_that_is_away_at_first_is_tried_again(start: Any) -> None:
    async with start() as bench:
        bench.api.down = True
        await bench.kubelet.restart()
        await bench.clock.advance(1)
        bench.api.down = False
        await bench.clock.advance(10)
        await bench.api.until(lambda: bench.api.node().get("status"))
