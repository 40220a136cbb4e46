"""Which ports of pods Prometheus may read."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.kubernetes.scrape_target import ScrapeTarget
from tonnage.reading.scrape_targets import scrape_targets
from tonnage.wire.objects import Container, ContainerPort, ObjectMeta, Pod, PodSpec, PodStatus

PORTS = {"exporter": 9400, "metrics": 9410}
OWN = {"app.kubernetes.io/part-of": "tonnage"}


def pod(
    *,
    ip: str = "192.0.2.1",
    phase: str = "Running",
    labels: dict[str, str] = OWN,
    annotations: dict[str, str] | None = None,
    ports: dict[str, int] = PORTS,
) -> Pod:
    open_ports = [ContainerPort(container_port=number, name=name) for name, number in ports.items()]
    return Pod(
        metadata=ObjectMeta(name="agent", labels=labels, annotations=annotations or {}),
        spec=PodSpec(containers=[Container(name="agent", ports=open_ports)], node_name="n1"),
        status=PodStatus(phase=phase, pod_ip=ip),
    )


AGENT = ScrapeTarget("tonnage-agent", "192.0.2.1:9410", "n1")
EXPORTER = ScrapeTarget("tonnage-exporter", "192.0.2.1:9400", "n1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, [AGENT, EXPORTER], id="an agent with its exporter"),
        pytest.param({"phase": "Pending"}, [], id="a pod that does not run"),
        pytest.param({"ip": ""}, [], id="a pod without an address"),
        pytest.param({"labels": {}}, [], id="somebody else's pod, whatever its ports are called"),
        pytest.param({"ports": {"http": 80}}, [], id="a port that serves no metrics"),
        pytest.param(
            {"ip": "2001:db8::1", "ports": {"exporter": 9400}},
            [ScrapeTarget("tonnage-exporter", "[2001:db8::1]:9400", "n1")],
            id="an IPv6 address",
        ),
        pytest.param(
            {"ports": {"cluster": 9411}},
            [ScrapeTarget("tonnage-cluster", "192.0.2.1:9411")],
            id="the metrics of a cluster are of no node",
        ),
        pytest.param(
            {"annotations": {"tonnage.dev/loopback-9400": "127.0.0.1:40123"}},
            [ScrapeTarget("tonnage-exporter", "127.0.0.1:40123", "n1")],
            id="on the twin what is served on loopback, and nothing else",
        ),
        pytest.param(
            {"annotations": {"tonnage.dev/loopback-9400": "192.0.2.9:80"}},
            [],
            id="an annotation that leads elsewhere",
        ),
    ],
)
def test_targets_of_a_pod(given: dict[str, Any], expected: list[ScrapeTarget]) -> None:
    assert scrape_targets([pod(**given)]) == expected
