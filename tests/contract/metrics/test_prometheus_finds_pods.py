"""What a genuine Prometheus makes of pods by our relabelling rules.

Debian's build asks no API server. So pods are given to it by a file, with the labels that its discovery of
pods would give them (Prometheus, kubernetes_sd_config, role pod: a target for each port of a container).
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from support.prometheus import PATIENCE_S, Series, running_prometheus
from tonnage.adapters.certificates import Authority
from tonnage.diagnose.monitoring.scraping import ScrapeOptions, scrape_config

pytestmark = pytest.mark.long

_META: Final = "__meta_kubernetes_pod_"


def port_of(name: str, number: int, **more: str) -> dict[str, Any]:
    """A port of a running pod of the agents, as the discovery lists it; `more` replaces labels."""
    labels = {
        "__meta_kubernetes_namespace": "tonnage-system",
        f"{_META}name": f"agent-{number}",
        f"{_META}node_name": "gpu-1",
        f"{_META}phase": "Running",
        f"{_META}ready": "true",
        f"{_META}container_name": "agent",
        f"{_META}container_port_name": name,
        f"{_META}container_port_number": str(number),
        f"{_META}label_app_kubernetes_io_part_of": "tonnage",
        **{f"{_META}{key}": value for key, value in more.items()},
    }
    return {"targets": [f"127.0.0.1:{number}"], "labels": labels}


PODS: Final = (
    port_of("exporter", 1),
    port_of("metrics", 2),
    port_of("cluster", 3),
    port_of("webhook", 4),
    port_of("exporter", 5, label_app_kubernetes_io_part_of="another"),
    port_of("exporter", 6, phase="Succeeded"),
)


def test_pods_of_tonnage_become_targets_with_jobs_and_nodes_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps(PODS))
    config: Any = scrape_config(ScrapeOptions())
    for job in config["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["file_sd_configs"] = [{"files": [str(tmp_path / "pods.json")]}]
    with running_prometheus(tmp_path, config) as prometheus:
        deadline = time.monotonic() + PATIENCE_S
        while not (targets := prometheus.targets()):
            assert time.monotonic() < deadline, "no target was found"
            time.sleep(0.1)
    assert sorted(map(shown, targets)) == [
        ("127.0.0.1:1", {"job": "tonnage-exporter", "node": "gpu-1"}),
        ("127.0.0.1:2", {"job": "tonnage-agent", "node": "gpu-1"}),
        ("127.0.0.1:3", {"job": "tonnage-cluster"}),
    ]


def test_tls_and_a_password_are_sent_to_the_exporters_alone(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps(PODS))
    (tmp_path / "ca.crt").write_bytes(Authority.generate(datetime.now(UTC)).certificate_pem)
    (tmp_path / "password").write_text("secret")
    options = ScrapeOptions(
        ca_file=str(tmp_path / "ca.crt"), user="prometheus", password_file=str(tmp_path / "password")
    )
    config: Any = scrape_config(options)
    for job in config["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        job["file_sd_configs"] = [{"files": [str(tmp_path / "pods.json")]}]
    with running_prometheus(tmp_path, config) as prometheus:
        deadline = time.monotonic() + PATIENCE_S
        while len(targets := prometheus.targets()) < 3:
            assert time.monotonic() < deadline, "too few targets were found"
            time.sleep(0.1)
    schemes = {target["labels"]["job"]: target["scrapeUrl"].partition(":")[0] for target in targets}
    assert schemes == {"tonnage-exporter": "https", "tonnage-agent": "http", "tonnage-cluster": "http"}


def shown(target: Series) -> tuple[str, dict[str, str]]:
    labels = dict(target["labels"])
    return labels.pop("instance"), labels
