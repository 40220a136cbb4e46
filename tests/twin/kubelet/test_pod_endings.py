"""How containers and pods end and come again: rules, hooks, deadlines, other images, restarts of the node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.twin.kubelet.containers.restarts import starts_again
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.wire import kinds
from tonnage.wire.objects import Container, Pod, PodSpec

SLEEP = ["sleep", "infinity"]


def main(bench: KubeletBench, name: str = "web") -> dict[str, Any]:
    found: dict[str, Any] = bench.api.pod(name)["status"]["containerStatuses"][0]
    return found


def container(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "ubuntu:24.04", "command": SLEEP, **fields}]


def rule(operator: str, *codes: int) -> list[dict[str, Any]]:
    return [{"action": "Restart", "exitCodes": {"operator": operator, "values": list(codes)}}]


@pytest.mark.parametrize(
    ("pod_policy", "policy", "rules", "codes"),
    [
        pytest.param("Always", "", [], {0, 1, 42}, id="always"),
        pytest.param("OnFailure", "", [], {1, 42}, id="on failure"),
        pytest.param("Never", "", [], set(), id="never"),
        pytest.param("Never", "OnFailure", [], {1, 42}, id="the container's own policy"),
        pytest.param("Always", "Never", [], set(), id="never, of a container"),
        pytest.param("Never", "Never", rule("In", 42), {42}, id="a rule for one code"),
        pytest.param("Never", "Never", rule("NotIn", 0, 42), {1}, id="a rule for all others"),
    ],
)
def test_rules_come_before_policies(pod_policy: str, policy: str, rules: Any, codes: set[int]) -> None:
    pod = Pod(spec=PodSpec(restart_policy=pod_policy))
    one = Container(name="main", restart_policy=policy, restart_policy_rules=rules)
    assert {code for code in (0, 1, 42) if starts_again(pod, one, code)} == codes


async def test_a_pod_that_is_active_for_too_long_fails(bench: KubeletBench) -> None:
    bench.bind("web", activeDeadlineSeconds=30)
    await bench.phase("web", "Running")
    await bench.clock.advance(30)
    status = await bench.phase("web", "Failed")
    why = "Pod was active on the node longer than the specified deadline"
    assert (status["reason"], status["message"]) == ("DeadlineExceeded", why)
    assert main(bench)["state"]["terminated"]["exitCode"] == 143
    assert f"Normal DeadlineExceeded {why} x1" in bench.api.events("web")


@pytest.mark.parametrize("first", [None, 3600], ids=["none before", "a shorter one"])
async def test_a_deadline_that_comes_later_counts_from_the_start(
    bench: KubeletBench, first: int | None
) -> None:
    bench.bind("web", activeDeadlineSeconds=first)
    await bench.phase("web", "Running")
    await bench.clock.advance(20)
    spec = {**bench.api.pod("web")["spec"], "activeDeadlineSeconds": 30}
    await bench.api.patch(kinds.POD, "web", {"spec": spec}, namespace="default")
    await bench.clock.settle()
    await bench.clock.advance(9)
    assert bench.api.pod("web")["status"]["phase"] == "Running"
    await bench.clock.advance(1)
    assert (await bench.phase("web", "Failed"))["reason"] == "DeadlineExceeded"


async def test_a_container_with_another_image_is_started_again(bench: KubeletBench) -> None:
    bench.bind("web", containers=container(), restartPolicy="Never")
    await bench.phase("web", "Running")
    spec = bench.api.pod("web")["spec"]
    await bench.api.patch(
        kinds.POD,
        "web",
        {"spec": {**spec, "containers": container(image="ubuntu:25.04")}},
        namespace="default",
    )
    await bench.api.until(lambda: main(bench)["restartCount"] == 1)
    assert main(bench)["image"] == "docker.io/library/ubuntu:25.04"
    text = "Container main definition changed, will be restarted"
    assert f"Normal Killing {text} x1" in bench.api.events("web")


async def test_what_failed_says_why_by_its_log(bench: KubeletBench) -> None:
    command = ["sh", "-c", "echo one; echo two; exit 3"]
    fields = {"command": command, "terminationMessagePolicy": "FallbackToLogsOnError"}
    bench.bind("web", containers=container(**fields), restartPolicy="Never")
    await bench.phase("web", "Failed")
    assert main(bench)["state"]["terminated"]["message"] == "one\ntwo\n"


@pytest.mark.parametrize(
    ("hook", "waits_s", "event"),
    [
        pytest.param({"sleep": {"seconds": 5}}, 5, "", id="sleep"),
        pytest.param({"exec": {"command": ["sleep", "7"]}}, 7, "", id="exec"),
        pytest.param({"exec": {"command": ["false"]}}, 0, "PreStopHook failed", id="a command that fails"),
        pytest.param({"httpGet": {"port": 80}}, 0, "PreStopHook failed", id="nobody answers"),
        pytest.param({"sleep": {"seconds": 60}}, 20, "", id="longer than the grace"),
    ],
)
async def test_a_hook_runs_before_the_container_ends(
    bench: KubeletBench, hook: Any, waits_s: int, event: str
) -> None:
    bench.bind("web", containers=container(lifecycle={"preStop": hook}))
    await bench.phase("web", "Running")
    await bench.api.delete(kinds.POD, "web", namespace="default", grace_period_s=20)
    if waits_s:
        await bench.clock.advance(waits_s - 1)
        assert bench.api.pod("web")
        await bench.clock.advance(1)
    await bench.gone("web")
    failed = [one for one in bench.api.events("web") if "FailedPreStopHook" in one]
    assert failed == ([f"Warning FailedPreStopHook {event} x1"] if event else [])


async def test_a_container_whose_first_hook_fails_is_killed(bench: KubeletBench) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    bench.bind("web", containers=container(lifecycle=hook), restartPolicy="Never")
    await bench.phase("web", "Failed")
    events = bench.api.events("web")
    assert "Warning FailedPostStartHook PostStartHook failed x1" in events
    assert "Normal Killing FailedPostStartHook x1" in events


async def test_restarts_are_counted_on_when_the_node_itself_restarts(bench: KubeletBench) -> None:
    before = {
        "name": "main",
        "image": "docker.io/library/ubuntu:24.04",
        "imageID": "",
        "ready": True,
        "restartCount": 4,
        "containerID": "containerd://abc",
        "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}},
        "lastState": {},
    }
    bench.bind("web", containers=container(), status={"phase": "Running", "containerStatuses": [before]})
    await bench.api.until(lambda: main(bench)["restartCount"] == 5)
    assert main(bench)["lastState"]["terminated"] == {
        "exitCode": 255,
        "reason": "Unknown",
        "startedAt": "2025-12-31T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:00Z",
        "containerID": "containerd://abc",
    }
    await bench.api.until(lambda: "running" in main(bench)["state"])


@pytest.mark.parametrize(
    ("policy", "ended", "phase"),
    [
        pytest.param("Never", {}, "Failed", id="never"),
        pytest.param("OnFailure", {"exitCode": 0, "reason": "Completed"}, "Succeeded", id="on failure"),
    ],
)
async def test_what_its_policy_ends_stays_so_when_the_node_itself_restarts(
    bench: KubeletBench, policy: str, ended: dict[str, Any], phase: str
) -> None:
    state = {"terminated": ended} if ended else {"running": {"startedAt": "2025-12-31T00:00:00Z"}}
    before = {"name": "main", "restartCount": 1, "containerID": "containerd://abc", "state": state}
    first = {**before, "name": "first", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    told = {"phase": "Running", "containerStatuses": [before], "initContainerStatuses": [first]}
    init = [{"name": "first", "image": "busybox", "command": ["true"]}]
    bench.bind("web", containers=container(), status=told, restartPolicy=policy, initContainers=init)
    status = await bench.phase("web", phase)
    assert status["initContainerStatuses"][0]["state"] == first["state"]
    assert (main(bench)["restartCount"], main(bench)["lastState"]) == (1, {})
    assert main(bench)["state"]["terminated"]["reason"] == ended.get("reason", "Unknown")
    assert bench.api.events("web") == []


async def test_ephemeral_containers_do_not_outlive_the_node_they_ran_on(bench: KubeletBench) -> None:
    running = {"containerID": "containerd://abc", "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}}}
    told = {"ephemeralContainerStatuses": [{"name": "debugger", "restartCount": 0, **running}]}
    debugger = {"name": "debugger", "image": "busybox", "command": SLEEP}
    bench.bind("web", containers=container(), ephemeralContainers=[debugger], status=told)
    status = await bench.phase("web", "Running")
    found = status["ephemeralContainerStatuses"][0]
    assert (found["restartCount"], found["state"]["terminated"]["exitCode"]) == (0, 255)


async def ends_well(context: ContainerContext) -> int:
    """A server that heeds SIGTERM."""
    with suppress(asyncio.CancelledError):
        await context.clock.sleep(3600)
    return 0


async def test_a_pod_that_is_killed_has_failed_and_one_that_ended_well_has_not(start: Any) -> None:
    seen: dict[str, Any] = {}
    async with start(None, {"server": ends_well}) as bench:
        for name, fields in (("sleeps", {}), ("ends", {"image": "server", "command": []})):
            bench.bind(name, containers=container(**fields))
            await bench.phase(name, "Running")
            await bench.api.delete(kinds.POD, name, namespace="default")
            await bench.gone(name)
            seen[name] = bench.api.history("pods", name)[-1]["status"]["phase"]
    assert seen == {"sleeps": "Failed", "ends": "Succeeded"}


async def test_ephemeral_containers_run_beside_the_others_and_never_again(bench: KubeletBench) -> None:
    bench.bind("web", containers=container())
    await bench.phase("web", "Running")
    debugger = {
        "name": "debugger",
        "image": "busybox",
        "command": ["sleep", "9"],
        "targetContainerName": "main",
    }
    spec = {**bench.api.pod("web")["spec"], "ephemeralContainers": [debugger]}
    await bench.api.patch(kinds.POD, "web", {"spec": spec}, namespace="default")

    def told() -> dict[str, Any]:
        found = bench.api.pod("web")["status"].get("ephemeralContainerStatuses", [{}])
        state: dict[str, Any] = found[0].get("state", {})
        return state

    await bench.api.until(lambda: "running" in told())
    await bench.clock.advance(9)
    await bench.api.until(lambda: "terminated" in told())
    await bench.clock.advance(600)
    assert told()["terminated"]["reason"] == "Completed"
    status = bench.api.pod("web")["status"]
    assert status["phase"] == "Running"
    assert status["ephemeralContainerStatuses"][0]["restartCount"] == 0
    assert [one["name"] for one in status["containerStatuses"]] == ["main"]
