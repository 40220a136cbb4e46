"""A genuine Prometheus reads the exporter of a genuine node, by TLS and with a password."""

from __future__ import annotations

import os
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import bcrypt
import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from support.installed_agent import InstalledAgent, gpu_pod, installed_agent
from support.prometheus import Prometheus, running_prometheus, serving_tonnage
from tonnage.adapters.certificates import Authority
from tonnage.diagnose.monitoring.scraping import ScrapeOptions, scrape_config

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

AUTHORITY: Final = Authority.generate(datetime.now(UTC))
HOST: Final = "exporter"
STATE: Final = "/var/lib/tonnage"
"""Of the agent, which it has from the host: where its web config lies here."""
VALUES: Final = {
    "exporter": {"enabled": True},
    "extraEnv": [{"name": "DCGM_EXPORTER_WEB_CONFIG_FILE", "value": f"{STATE}/web.yml"}],
}


@dataclass(frozen=True, slots=True)
class Watched:
    """The agent, and what reads it."""

    agent: InstalledAgent
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(cluster: GenuineCluster, agent_version: str) -> Iterator[Watched]:
    state = cluster.node.root.at(STATE)
    state.mkdir(parents=True, exist_ok=True)
    pair = AUTHORITY.issue(HOST, hosts=[HOST], server=True)
    (state / "tls.crt").write_bytes(pair.certificate_pem)
    (state / "tls.key").write_bytes(pair.key_pem)
    password = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
    tls = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}"
    (state / "web.yml").write_text(f"{tls}\nbasic_auth_users: {{prometheus: {password}}}\n")
    with (
        installed_agent(cluster, agent_version, values=VALUES) as agent,
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name,
    ):
        folder = Path(name)
        (folder / "ca.crt").write_bytes(AUTHORITY.certificate_pem)
        (folder / "password").write_text("hunter2")
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
        with (
            serving_tonnage(("metrics", "targets", *kubeconfig), folder, os.environ) as address,
            running_prometheus(folder, settings(folder, f"http://{address}/")) as prometheus,
        ):
            yield Watched(agent, prometheus)


def settings(folder: Path, url: str) -> Any:
    """As `tonnage metrics scrape-config` prints them, but for the name in the certificate."""
    secret = {"ca_file": str(folder / "ca.crt"), "password_file": str(folder / "password")}
    config: Any = scrape_config(ScrapeOptions(url, interval_s=1, user="prometheus", **secret))
    config["scrape_configs"][0]["tls_config"]["server_name"] = HOST
    return config


def test_both_pages_of_the_node_are_read(watched: Watched) -> None:
    for job in ("tonnage-exporter", "tonnage-agent"):
        (up,) = watched.prometheus.until(f'up{{job="{job}"}} == 1')
        assert up["metric"]["node"] == NODE_NAME
    rows = watched.prometheus.until("DCGM_FI_DEV_FB_USED")
    assert {row["metric"]["UUID"] for row in rows} == set(watched.agent.uuids)
    assert {row["metric"].get("pod", "") for row in rows} == {""}


def test_a_row_has_the_pod_that_kubelet_gave_the_gpu_to(cluster: GenuineCluster, watched: Watched) -> None:
    cluster.apply(gpu_pod("training"))
    cluster.kubectl("wait", "pod/training", "--for=condition=Ready", "--timeout=180s")
    try:
        (row,) = watched.prometheus.until('DCGM_FI_DEV_FB_USED{pod="training"}')
        labels = row["metric"]
        assert (labels["namespace"], labels["container"]) == ("default", "main")
        held = watched.agent.holders()["default", "training"]
        assert {labels["UUID"]} == held
    finally:
        cluster.kubectl("delete", "pod", "training", "--now")


def test_nobody_reads_it_without_the_password_or_without_tls(watched: Watched) -> None:
    address = f"{watched.agent.pod()['status']['podIP']}:9400"
    trusting = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    trusting.check_hostname = False
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"https://{address}/metrics", context=trusting, timeout=30)
    with pytest.raises(OSError, match=r".+"):
        urllib.request.urlopen(f"http://{address}/metrics", timeout=30)
