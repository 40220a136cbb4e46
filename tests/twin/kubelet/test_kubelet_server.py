"""The kubelet's HTTPS server as an API server dials it: certificates, logs, exec over WebSocket and SPDY."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from support.kubelet_bench import KubeletBench
from support.kubelet_dialer import Dialer
from tonnage.adapters.certificates import Authority
from tonnage.model.errors import ConfigError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.twin.kubelet.server import KubeletServer


async def test_only_clients_of_the_clusters_ca_are_answered(bench: KubeletBench, dial: Dialer) -> None:
    assert await dial.get("/healthz") == (200, "ok")
    assert (await dial.get("/healthz", anonymous=True))[0] == 401
    stranger = Authority.generate(datetime.now(UTC)).issue("kube-apiserver", client=True)
    with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
        await dial.get("/healthz", pair=stranger)


async def test_the_node_names_the_port(bench: KubeletBench, dial: Dialer) -> None:
    await bench.api.until(
        lambda: (
            bench.api.node().get("status", {}).get("daemonEndpoints")
            == {"kubeletEndpoint": {"Port": dial.port}}
        )
    )


async def test_a_port_in_use_is_said_with_its_address(bench: KubeletBench, dial: Dialer, root: Path) -> None:
    api = cast(KubernetesApi, bench.api)
    second = Kubelet(KubeletNode("other", port=dial.port), api, bench.clock, root / "other", bench.runtime)
    server = KubeletServer(
        dial.ca.certificate_pem, dial.ca.issue("kubelet", hosts=["127.0.0.1"], server=True)
    )
    with pytest.raises(ConfigError, match=f"127.0.0.1:{dial.port}: kubelet other cannot listen"):
        await server.listen(second)


async def test_pods_are_listed(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    status, body = await dial.get("/pods")
    assert status == 200
    assert [pod["metadata"]["name"] for pod in json.loads(body)["items"]] == ["web"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", "1\n2\n3\n", id="all"),
        pytest.param("?tailLines=2", "2\n3\n", id="the last two"),
        pytest.param("?tailLines=0", "", id="none"),
        pytest.param("?limitBytes=3", "1\n2", id="three bytes"),
        pytest.param("?timestamps=true&tailLines=1", "2026-01-01T00:00:00.000000000Z 3\n", id="with times"),
        pytest.param("?sinceTime=2026-01-01T00:00:01Z", "", id="since later"),
        pytest.param("?sinceSeconds=5", "1\n2\n3\n", id="since five seconds"),
        pytest.param("?follow=true", "1\n2\n3\n", id="followed to the end"),
    ],
)
async def test_logs_are_cut_as_asked(bench: KubeletBench, dial: Dialer, query: str, expected: str) -> None:
    bench.bind("job", command=["seq", "3"], restartPolicy="Never")
    await bench.phase("job", "Succeeded")
    assert await dial.get(f"/containerLogs/default/job/main{query}") == (200, expected)


async def test_a_log_outlasts_the_kubelet_that_wrote_it(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("job", command=["seq", "3"], restartPolicy="Never")
    await bench.phase("job", "Succeeded")
    await bench.kubelet.restart()
    bench.bind("web")
    await bench.phase("web", "Running")
    assert await dial.get("/containerLogs/default/job/main") == (200, "1\n2\n3\n")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        pytest.param("default/web/main?tailLines=-1", 422, "tailLines: Invalid value", id="negative tail"),
        pytest.param("default/none/main", 404, 'pod "none" not found', id="no such pod"),
        pytest.param("default/web/other", 400, "container other is not valid for pod web", id="no container"),
        pytest.param(
            "default/web/main?previous=true",
            400,
            'previous terminated container "main" in pod "web" not found',
            id="no previous one",
        ),
    ],
)
async def test_logs_that_are_not_there_are_refused(
    bench: KubeletBench, dial: Dialer, path: str, status: int, words: str
) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    code, body = await dial.get(f"/containerLogs/{path}")
    assert code == status
    assert words in body


async def test_the_previous_containers_log_stays_after_a_crash(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("crash", command=["bash", "-c", "echo oops; exit 1"])
    await bench.api.until(lambda: "CrashLoopBackOff" in str(bench.api.pod("crash")["status"]))
    assert await dial.get("/containerLogs/default/crash/main?previous=true") == (200, "oops\n")


async def test_following_shows_what_comes_and_ends_with_the_container(
    bench: KubeletBench, dial: Dialer
) -> None:
    bench.bind("web", command=["bash", "-c", "echo one; sleep 5; echo two; sleep 5"], restartPolicy="Never")
    await bench.phase("web", "Running")
    reading = asyncio.ensure_future(dial.get("/containerLogs/default/web/main?follow=true"))
    await bench.clock.advance(5)
    await bench.clock.advance(5)
    assert await reading == (200, "one\ntwo\n")
