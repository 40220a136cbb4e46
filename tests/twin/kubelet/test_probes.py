"""Probes of containers: what they ask, when they count, what follows, in the kubelet's words."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.kubelet.containers.probes import Tally
from tonnage.wire import kinds

_UNHEALTHY = "Warning Unhealthy "
_REFUSED = "dial tcp 10.244.7.2:8080: connect: connection refused"


def pod(*, image: str = "ubuntu:24.04", command: list[str] | None = None, **container: Any) -> dict[str, Any]:
    return {
        "containers": [
            {"name": "main", "image": image, **({"command": command} if command else {}), **container}
        ]
    }


def main(bench: KubeletBench, name: str = "web") -> dict[str, Any]:
    found: dict[str, Any] = bench.api.pod(name)["status"]["containerStatuses"][0]
    return found


def condition(bench: KubeletBench, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in bench.api.pod("web")["status"]["conditions"] if one["type"] == kind
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
    bench: KubeletBench, spec: Any, probe: Any, event: str
) -> None:
    spec["containers"][0]["readinessProbe"] = probe
    bench.bind("web", **spec)
    await bench.phase("web", "Running")
    await bench.clock.settle()
    told = [one for one in bench.api.events("web") if one.startswith(_UNHEALTHY)]
    assert told == ([f"{_UNHEALTHY}{event} x1"] if event else [])
    assert main(bench)["ready"] == (not event)
    assert main(bench)["started"]
    assert condition(bench, "ContainersReady")["status"] == ("False" if event else "True")
    assert condition(bench, "Ready").get("message", "") == (
        "containers with unready status: [main]" if event else ""
    )


async def test_a_command_that_takes_too_long_has_failed(bench: KubeletBench) -> None:
    probe = {"exec": {"command": ["sleep", "5"]}, "timeoutSeconds": 2}
    bench.bind("web", **pod(command=SLEEP, readinessProbe=probe))
    await bench.phase("web", "Running")
    await bench.clock.advance(3)
    assert (
        'Warning Unhealthy Readiness probe failed: command timed out: "sleep 5" timed out after 2s x1'
        in bench.api.events("web")
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
    bench: KubeletBench, kind: str, policy: str, again: bool
) -> None:
    spec = pod(command=SLEEP)
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 5, "initialDelaySeconds": 7}
    spec["containers"][0][f"{kind}Probe"] = probe
    bench.bind("web", **spec, restartPolicy=policy)
    await bench.phase("web", "Running")
    assert main(bench)["started"] == (kind == "liveness")
    await bench.clock.advance(16)
    assert main(bench)["restartCount"] == 0
    await bench.clock.advance(1)
    suffix = ", will be restarted" if again else ""
    await bench.api.until(lambda: any("Killing" in event for event in bench.api.events("web")))
    events = bench.api.events("web")
    assert f"Normal Killing Container main failed {kind} probe{suffix} x1" in events
    assert f"Warning Unhealthy {kind.title()} probe failed:  x3" in events
    if again:
        await bench.api.until(lambda: main(bench)["restartCount"] == 1)
        assert main(bench)["lastState"]["terminated"]["exitCode"] == 143
    else:
        assert (await bench.phase("web", "Failed"))["containerStatuses"][0]["state"]["terminated"]


async def test_killed_ones_back_off_by_how_the_one_before_ended(bench: KubeletBench) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    bench.bind("web", **pod(command=SLEEP, livenessProbe=probe))
    # The first two restarts have nothing to wait for: what is just being killed is not looked at.
    await bench.phase("web", "Running")
    waits = "back-off 10s restarting failed container=main pod=web_default(uid-web)"
    await bench.api.until(lambda: main(bench)["state"].get("waiting", {}).get("message") == waits)
    assert main(bench)["restartCount"] == 2


async def test_nothing_else_is_probed_before_a_container_has_started(bench: KubeletBench) -> None:
    startup = {"exec": {"command": ["false"]}, "periodSeconds": 10, "failureThreshold": 100}
    bench.bind(
        "web",
        **pod(command=SLEEP, startupProbe=startup, livenessProbe={"exec": {"command": ["false"]}}),
    )
    await bench.phase("web", "Running")
    await bench.clock.advance(60)
    assert not any("Liveness" in event for event in bench.api.events("web"))
    assert not main(bench)["ready"]


async def test_a_sidecar_holds_up_the_pod_until_it_has_started(bench: KubeletBench) -> None:
    startup = {"exec": {"command": ["sh", "-c", 'test "$(date +%s)" -ge 1767225620']}, "failureThreshold": 9}
    side = {"name": "side", "image": "ubuntu:24.04", "command": SLEEP, "restartPolicy": "Always"}
    bench.bind("web", command=SLEEP, initContainers=[{**side, "startupProbe": startup}])
    await bench.api.until(lambda: "initContainerStatuses" in bench.api.pod("web")["status"])
    await bench.api.until(
        lambda: "running" in bench.api.pod("web")["status"]["initContainerStatuses"][0]["state"]
    )
    assert bench.api.pod("web")["status"]["phase"] == "Pending"
    assert condition(bench, "Initialized")["message"] == "containers with incomplete status: [side]"
    assert condition(bench, "Ready")["message"] == "containers with unready status: [side main]"
    await bench.clock.advance(21)
    await bench.phase("web", "Running")
    assert condition(bench, "Initialized")["status"] == "True"


async def test_readiness_gates_keep_a_pod_from_being_ready(bench: KubeletBench) -> None:
    gates = [{"conditionType": "example.com/open"}, {"conditionType": "example.com/lit"}]
    bench.bind("web", readinessGates=gates)
    await bench.phase("web", "Running")
    missing = 'corresponding condition of pod readiness gate "example.com/{}" does not exist.'
    assert condition(bench, "ContainersReady")["status"] == "True"
    assert condition(bench, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(bench, "Ready")["message"] == ", ".join(missing.format(one) for one in ("open", "lit"))
    for kind, status in (("open", "True"), ("lit", "False")):
        told = [{"type": f"example.com/{kind}", "status": status}]
        patch = {"status": {"conditions": told}}
        await bench.api.patch(
            kinds.POD, "web", patch, namespace="default", patch_type=PatchType.STRATEGIC, subresource="status"
        )
    expected = 'the status of pod readiness gate "example.com/lit" is not "True", but False'
    await bench.api.until(lambda: condition(bench, "Ready").get("message") == expected)


async def test_a_restarted_kubelet_keeps_what_was_ready_ready(bench: KubeletBench) -> None:
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 30}
    bench.bind("web", **pod(command=SLEEP, readinessProbe=probe))
    await bench.phase("web", "Running")
    await bench.clock.advance(30)
    await bench.api.until(lambda: main(bench)["ready"])
    await bench.kubelet.restart()
    await bench.clock.advance(1)
    assert main(bench)["ready"]


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
