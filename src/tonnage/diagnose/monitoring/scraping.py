"""How Prometheus finds what Tonnage serves: a list of targets, and the settings of a scrape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.scrape_target import JOBS, OF_NO_NODE, PART_OF, ScrapeTarget

_REFRESH_S = 30
_META = "__meta_kubernetes_pod_"


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """`targets_url`: where a list of targets is served; empty: Prometheus asks the API server itself.

    `ca_file`: pages are served over TLS. `user` logs in with the password in `password_file`.
    """

    targets_url: str = ""
    namespace: str = ""
    interval_s: int = 30
    ca_file: str = ""
    user: str = ""
    password_file: str = ""


def discovered(targets: Iterable[ScrapeTarget]) -> list[JsonValue]:
    """The answer of an HTTP service discovery.

    >>> discovered([ScrapeTarget("tonnage-exporter", "192.0.2.1:9400", "gpu-1")])
    [{'targets': ['192.0.2.1:9400'], 'labels': {'job': 'tonnage-exporter', 'node': 'gpu-1'}}]
    """
    return [
        {
            "targets": [target.address],
            "labels": {"job": target.job, **({"node": target.node} if target.node else {})},
        }
        for target in targets
    ]


def scrape_config(options: ScrapeOptions) -> JsonObject:
    """The section `scrape_configs` of Prometheus.

    `honor_labels`: the pod of a row is who holds the device, not who serves the page. Targets have no labels
    `pod` and `namespace`, since rows of devices that nobody holds would take those on.
    TLS and a password are of the exporters alone: nothing else is sent the password.
    """
    if not options.ca_file and not options.user:
        return {"scrape_configs": [_job("tonnage", options, [])]}
    only: JsonValue = {"source_labels": ["job"], "regex": JOBS["exporter"], "action": "keep"}
    others: JsonValue = {"source_labels": ["job"], "regex": JOBS["exporter"], "action": "drop"}
    exporters = _job(JOBS["exporter"], options, [only])
    if options.ca_file:
        exporters |= {"scheme": "https", "tls_config": {"ca_file": options.ca_file}}
    if options.user:
        exporters["basic_auth"] = {"username": options.user, "password_file": options.password_file}
    return {"scrape_configs": [exporters, _job("tonnage", options, [others])]}


def _job(name: str, options: ScrapeOptions, chosen: list[JsonValue]) -> JsonObject:
    """A job for the targets that `chosen` leaves."""
    job: JsonObject = {
        "job_name": name,
        "honor_labels": True,
        "scrape_interval": f"{options.interval_s}s",
    }
    if options.targets_url:
        often = f"{min(options.interval_s, _REFRESH_S)}s"
        job["http_sd_configs"] = [{"url": options.targets_url, "refresh_interval": often}]
        return {**job, "relabel_configs": chosen} if chosen else job
    pods: JsonObject = {"role": "pod"}
    if options.namespace:
        pods["namespaces"] = {"names": [options.namespace]}
    return {**job, "kubernetes_sd_configs": [pods], "relabel_configs": [*_relabelled(), *chosen]}


def _relabelled() -> list[JsonValue]:
    label, value = PART_OF
    chosen: list[JsonValue] = [
        {"source_labels": [f"{_META}label_{_plain(label)}"], "regex": value, "action": "keep"},
        {"source_labels": [f"{_META}container_port_name"], "regex": "|".join(JOBS), "action": "keep"},
        {"source_labels": [f"{_META}phase"], "regex": "Running", "action": "keep"},
        {"source_labels": [f"{_META}node_name"], "target_label": "node"},
    ]
    jobs: list[JsonValue] = [
        {
            "source_labels": [f"{_META}container_port_name"],
            "regex": port,
            "target_label": "job",
            "replacement": job,
        }
        for port, job in JOBS.items()
    ]
    cluster: JsonValue = {
        "source_labels": ["job"],
        "regex": "|".join(OF_NO_NODE),
        "target_label": "node",
        "replacement": "",
    }
    return [*chosen, *jobs, cluster]


def _plain(label: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in label)
