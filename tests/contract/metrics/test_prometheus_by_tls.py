"""A genuine Prometheus reads device metrics of the twin by TLS and with a password, and nobody without."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any, Final

import bcrypt
import pytest

from support.monitored_fleet import environment_of, root_of, run_program, twin_of
from support.prometheus import running_prometheus, serving_tonnage
from tonnage.adapters.certificates import Authority
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.diagnose.monitoring.scraping import ScrapeOptions, scrape_config

pytestmark = pytest.mark.long

SCENARIO: Final = "{name: guarded, groups: [{name: t4, nodes: 1, gpu: {model: T4, count: 2}}]}"
NODE: Final = "t4-0"
HOST: Final = "exporter"
AGENTS: Final = ("-n", "tonnage-system", "daemonset/tonnage-agent")
PLACE: Final = "/spec/template/spec/containers/0/args/-"


def test_device_metrics_are_read_by_tls_with_a_password_and_not_without() -> None:
    authority = Authority.generate(datetime.now(UTC))
    with twin_of(SCENARIO) as folder:
        environment = environment_of(folder)
        kubectl = str(kubectl_binary("1.35"))
        place = root_of(folder, NODE) / "etc/tonnage"
        place.mkdir(parents=True, exist_ok=True)
        pair = authority.issue(HOST, hosts=[HOST], server=True)
        (place / "tls.crt").write_bytes(pair.certificate_pem)
        (place / "tls.key").write_bytes(pair.key_pem)
        password = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
        tls = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}"
        (place / "web.yml").write_text(f"{tls}\nbasic_auth_users: {{prometheus: {password}}}\n")
        patch = [{"op": "add", "path": PLACE, "value": "--web-config-file=/etc/tonnage/web.yml"}]
        run_program([kubectl, "patch", *AGENTS, "--type=json", "-p", json.dumps(patch)], environment)
        run_program([kubectl, "rollout", "status", *AGENTS, "--timeout=60s"], environment)
        (folder / "ca.crt").write_bytes(authority.certificate_pem)
        (folder / "password").write_text("hunter2")
        secret = {"ca_file": str(folder / "ca.crt"), "password_file": str(folder / "password")}
        with serving_tonnage(["metrics", "targets"], folder, environment) as address:
            config: Any = scrape_config(
                ScrapeOptions(f"http://{address}/", interval_s=1, user="prometheus", **secret)
            )
            config["scrape_configs"][0]["tls_config"]["server_name"] = HOST
            with running_prometheus(folder, config) as prometheus:
                rows = prometheus.until("DCGM_FI_DEV_GPU_TEMP")
                assert {row["metric"]["node"] for row in rows} == {NODE}
                (url,) = (
                    target["scrapeUrl"]
                    for target in prometheus.targets()
                    if target["labels"]["job"] == "tonnage-exporter"
                )
                trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
                trusting.check_hostname = False  # of a loopback address
                with pytest.raises(urllib.error.HTTPError, match="401"):
                    urllib.request.urlopen(url, context=trusting, timeout=30)
                with pytest.raises(OSError, match=r".+"):
                    urllib.request.urlopen(url.replace("https://", "http://"), timeout=30)
