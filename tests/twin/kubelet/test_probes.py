"""Probes of containers: what they ask, when they count, what follows, in the kubelet's words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.ports.kubernetes import PatchType
from tonnage.twin.kubelet.containers.probes import Tally
from tonnage.wire import kinds

World = Any
_UNHEALTHY = "Warning Unhealthy "
_REFUSED = "dial tcp 10.244.7.2:8080: connect: connection refused"


def pod(*, image: str = "ubuntu:24.04", command: list[str] | None = None, **container: Any) -> dict[str, Any]:
    return {
        "containers": [
            {"name": "main", "image": image, **({"command": command} if command else {}), **container}
        ]
    }


def main(world: World, name: str = "web") -> dict[str, Any]:
    found: dict[str, Any] = world.api.pod(name)["status"]["containerStatuses"][0]
    return found


def condition(world: World, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in world.api.pod("web")["status"]["conditions"] if one["type"] == kind
    )
    return found


SLEEP = ["sleep", "infinity"]
NGINX = "nginx:1.29"


@pytest.mark.parametrize(
    ("spec", "probe", "event"),
    [
        pytest.param(pod(image=NGINX), {"httpGet": {"port": 8080}}, "", id="a pretended server answers"),
        pytest.param(pod(image=NGINX), {"grpc": {"port": 9000}}, "", id="in every protocol"),
        pytest.param(pod(image=NGINX), {"exec": {"command": ["pg_isready"]}}, "", id="with its own commands"),
        pytest.param(
            pod(image=NGINX),
            {"exec": {"command": ["sh", "-c", "pg_isready && echo yes"]}},
            "",
            id="in scripts, too",
        ),
        pytest.param(
            pod(image=NGINX),
            {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}},
            "Readiness probe failed: no\n",
            id="what is known is run",
        ),
        pytest.param(pod(command=SLEEP), {"exec": {"command": ["true"]}}, "", id="exit code 0"),
        pytest.param(
            pod(command=SLEEP),
            {"httpGet": {"port": 8080, "path": "/healthz", "scheme": "HTTP"}},
            f'Readiness probe failed: Get "http://10.244.7.2:8080/healthz": {_REFUSED}',
            id="a program that listens nowhere: HTTP",
        ),
        pytest.param(
            pod(command=SLEEP, ports=[{"name": "web", "containerPort": 8080}]),
            {"tcpSocket": {"port": "web"}},
            f"Readiness probe failed: {_REFUSED}",
            id="TCP, by the port's name",
        ),
        pytest.param(
            pod(command=SLEEP),
            {"grpc": {"port": 8080}, "timeoutSeconds": 3},
            'Readiness probe failed: timeout: failed to connect service "10.244.7.2:8080" within 3s: '
            "context deadline exceeded",
            id="gRPC",
        ),
        pytest.param(
            pod(command=SLEEP),
            {"httpGet": {"port": "web"}},
            "Readiness probe errored and resulted in unknown state: "
            'strconv.Atoi: parsing "web": invalid syntax',
            id="a name that no port has",
        ),
    ],
)
async def test_a_readiness_probe_makes_ready_or_says_why_not(
    world: World, spec: Any, probe: Any, event: str
) -> None:
    spec["containers"][0]["readinessProbe"] = probe
    world.bind("web", **spec)
    await world.phase("web", "Running")
    await world.clock.settle()
    told = [one for one in world.api.events("web") if one.startswith(_UNHEALTHY)]
    assert told == ([f"{_UNHEALTHY}{event} x1"] if event else [])
    assert main(world)["ready"] == (not event)
    assert main(world)["started"]
    assert condition(world, "ContainersReady")["status"] == ("False" if event else "True")
    assert condition(world, "Ready").get("message", "") == (
        "containers with unready status: [main]" if event else ""
    )


async def test_a_command_that_takes_too_long_has_failed(world: World) -> None:
    probe = {"exec": {"command": ["sleep", "5"]}, "timeoutSeconds": 2}
    world.bind("web", **pod(command=SLEEP, readinessProbe=probe))
    await world.phase("web", "Running")
    await world.clock.advance(3)
    assert (
        'Warning Unhealthy Readiness probe failed: command timed out: "sleep 5" timed out after 2s x1'
        in world.api.events("web")
    )


@pytest.mark.parametrize(
    ("kind", "policy", "again"),
    [
        pytest.param("liveness", "Always", True, id="liveness"),
        pytest.param("startup", "OnFailure", True, id="startup"),
        pytest.param("liveness", "Never", False, id="never again"),
    ],
)
async def test_a_container_that_fails_too_often_is_killed(
    world: World, kind: str, policy: str, again: bool
) -> None:
    spec = pod(command=SLEEP)
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 5, "initialDelaySeconds": 7}
    spec["containers"][0][f"{kind}Probe"] = probe
    world.bind("web", **spec, restartPolicy=policy)
    await world.phase("web", "Running")
    assert main(world)["started"] == (kind == "liveness")
    await world.clock.advance(16)
    assert main(world)["restartCount"] == 0
    await world.clock.advance(1)
    suffix = ", will be restarted" if again else ""
    await world.api.until(lambda: any("Killing" in event for event in world.api.events("web")))
    events = world.api.events("web")
    assert f"Normal Killing Container main failed {kind} probe{suffix} x1" in events
    assert f"Warning Unhealthy {kind.title()} probe failed:  x3" in events
    if again:
        await world.api.until(lambda: main(world)["restartCount"] == 1)
        assert main(world)["lastState"]["terminated"]["exitCode"] == 143
    else:
        assert (await world.phase("web", "Failed"))["containerStatuses"][0]["state"]["terminated"]


async def test_killed_ones_back_off_by_how_the_one_before_ended(world: World) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    world.bind("web", **pod(command=SLEEP, livenessProbe=probe))
    # The first two restarts have nothing to wait for: what is just being killed is not looked at.
    await world.phase("web", "Running")
    waits = "back-off 10s restarting failed container=main pod=web_default(uid-web)"
    await world.api.until(lambda: main(world)["state"].get("waiting", {}).get("message") == waits)
    assert main(world)["restartCount"] == 2


async def test_nothing_else_is_probed_before_a_container_has_started(world: World) -> None:
    startup = {"exec": {"command": ["false"]}, "periodSeconds": 10, "failureThreshold": 100}
    world.bind(
        "web",
        **pod(command=SLEEP, startupProbe=startup, livenessProbe={"exec": {"command": ["false"]}}),
    )
    await world.phase("web", "Running")
    await world.clock.advance(60)
    assert not any("Liveness" in event for event in world.api.events("web"))
    assert not main(world)["ready"]


async def test_a_sidecar_holds_up_the_pod_until_it_has_started(world: World) -> None:
    startup = {"exec": {"command": ["sh", "-c", 'test "$(date +%s)" -ge 1767225620']}, "failureThreshold": 9}
    side = {"name": "side", "image": "ubuntu:24.04", "command": SLEEP, "restartPolicy": "Always"}
    world.bind("web", command=SLEEP, initContainers=[{**side, "startupProbe": startup}])
    await world.api.until(lambda: "initContainerStatuses" in world.api.pod("web")["status"])
    await world.api.until(
        lambda: "running" in world.api.pod("web")["status"]["initContainerStatuses"][0]["state"]
    )
    assert world.api.pod("web")["status"]["phase"] == "Pending"
    assert condition(world, "Initialized")["message"] == "containers with incomplete status: [side]"
    assert condition(world, "Ready")["message"] == "containers with unready status: [side main]"
    await world.clock.advance(21)
    await world.phase("web", "Running")
    assert condition(world, "Initialized")["status"] == "True"


async def test_readiness_gates_keep_a_pod_from_being_ready(world: World) -> None:
    gates = [{"conditionType": "example.com/open"}, {"conditionType": "example.com/lit"}]
    world.bind("web", readinessGates=gates)
    await world.phase("web", "Running")
    missing = 'corresponding condition of pod readiness gate "example.com/{}" does not exist.'
    assert condition(world, "ContainersReady")["status"] == "True"
    assert condition(world, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(world, "Ready")["message"] == ", ".join(missing.format(one) for one in ("open", "lit"))
    for kind, status in (("open", "True"), ("lit", "False")):
        told = [{"type": f"example.com/{kind}", "status": status}]
        patch = {"status": {"conditions": told}}
        await world.api.patch(
            kinds.POD, "web", patch, namespace="default", patch_type=PatchType.STRATEGIC, subresource="status"
        )
    expected = 'the status of pod readiness gate "example.com/lit" is not "True", but False'
    await world.api.until(lambda: condition(world, "Ready").get("message") == expected)


async def test_a_restarted_kubelet_keeps_what_was_ready_ready(world: World) -> None:
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
    world.bind("web", **pod(command=SLEEP, readinessProbe=probe))
    await world.phase("web", "Running")
    await world.clock.advance(30)
    await world.api.until(lambda: main(world)["ready"])
    await world.kubelet.restart()
    await world.clock.advance(1)
    assert main(world)["ready"]


@pytest.mark.parametrize(
    ("results", "verdicts"),
    [
        pytest.param("110", [None, True, None], id="a failure below the threshold changes nothing"),
        pytest.param("00010", [None, None, False, None, None], id="three failures in a row"),
        pytest.param("1011", [None, None, None, True], id="two successes in a row"),
    ],
)
def test_a_probe_counts_what_it_hears_in_a_row(results: str, verdicts: list[bool | None]) -> None:
    tally = Tally(success_threshold=2, failure_threshold=3)
    assert [tally.verdict(one == "1") for one in results] == verdicts
