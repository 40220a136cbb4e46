"""Scrape settings, which the genuine promtool reads, and lists of targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.promtool import promtool
from tonnage.diagnose.monitoring.scraping import ScrapeOptions, discovered, scrape_config
from tonnage.model.kubernetes.scrape_target import ScrapeTarget

URL = "http://127.0.0.1:9412/"
SECURE = ScrapeOptions(ca_file="ca.crt", user="jane", password_file="password")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(ScrapeOptions(), id="pods of the cluster"),
        pytest.param(ScrapeOptions(namespace="tonnage-system", interval_s=15), id="of a namespace"),
        pytest.param(ScrapeOptions(URL), id="a list of targets"),
        pytest.param(ScrapeOptions(URL, ca_file="ca.crt"), id="over TLS"),
        pytest.param(SECURE, id="with a password"),
    ],
)
def test_promtool_takes_the_settings(options: ScrapeOptions, tmp_path: Path) -> None:
    for name in ("ca.crt", "password"):
        (tmp_path / name).touch()
    written: Any = scrape_config(options)
    for job in written["scrape_configs"]:
        # Debian's Prometheus is built without the discovery of Kubernetes.
        assert job.pop("kubernetes_sd_configs", [{"role": "pod"}])[0]["role"] == "pod"
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(written))
    assert "SUCCESS" in promtool("check", "config", "prometheus.yaml", folder=tmp_path)


def test_the_password_is_sent_to_exporters_alone() -> None:
    written: Any = scrape_config(SECURE)
    jobs = {job["job_name"]: job for job in written["scrape_configs"]}
    assert {name: "basic_auth" in job for name, job in jobs.items()} == {
        "tonnage-exporter": True,
        "tonnage": False,
    }
    assert [jobs[name]["relabel_configs"][-1]["action"] for name in jobs] == ["keep", "drop"]


def test_a_target_without_a_node_has_no_label_of_one() -> None:
    assert discovered([ScrapeTarget("tonnage-cluster", "192.0.2.1:9411")]) == [
        {"targets": ["192.0.2.1:9411"], "labels": {"job": "tonnage-cluster"}}
    ]
