"""Writes docs/reference/exporter-metrics.md from the catalogue of fields and the exporter's own families.

`--check` only compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tonnage.adapters.clock import SystemClock
from tonnage.agent.metrics.claim_counters import ClaimMetrics
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.agent.metrics.families import agent_families
from tonnage.agent.metrics.probes import ProbeFacts
from tonnage.controller.cluster_metrics import read_failures
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.families import controller_families
from tonnage.controller.operator.node_status_metrics import node_status_families
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.exporter.facts import NodeKnowledge, PageCounts, exporter_facts, node_facts
from tonnage.decide.node.exporter.metric_text import shown_name
from tonnage.decide.node.exporter.pod_metrics import UsedShares, budget_metrics, pod_metrics
from tonnage.decide.node.exporter.usage_counters import UsageCounters
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.documents.exporter_counters import default_counters, window_counters
from tonnage.model.catalog.metrics import DeviceField, FieldOrigin, device_fields
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.metric_families import Metric, MetricFamily, MetricKind

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/reference/exporter-metrics.md"
_HEAD: Final = """\
# Every metric

Written by `scripts/generate_exporter_metrics.py` from the catalogue of fields and what the programs serve:
[fields of devices](#fields-of-devices), [counts within a window](#counts-within-a-window),
[Tonnage's own](#tonnages-own) on the same page; [of the cluster](#of-the-cluster),
[of the controller](#of-the-controller), [of the agent](#of-the-agent), [of claims](#of-claims). What the
page of devices is and how it is set up is in [Device metrics](exporter.md).

**What a metric costs.** One series for each GPU, and where the table says so for each MIG device; times the
rows of a shared device with `--kubernetes-virtual-gpus`. Nothing is read for a scrape. At each
`--collect-interval` a GPU is asked only for the counters of the CSV, and five fields for
`tonnage_pod_gpu_*`: once for each call in the table, once for all field values together, once for all
metrics of GPM together.

## Fields of devices

Labels: `gpu`, `UUID`, `pci_bus_id`, `device`, `modelName`, `GPU_I_PROFILE` and `GPU_I_ID` of a MIG device,
`Hostname`, then label counters, then `container`, `namespace`, `pod`. In bold what is served without
`--collectors`. The number is DCGM's, which orders the page; from 10000 on it is ours, of what DCGM lacks.

| counter | number | type | unit | is | series for each | read by | absent on |
|---|---|---|---|---|---|---|---|
"""
_WINDOWS: Final = """
## Counts within a window

The same labels, and `window_size_in_ms`. They cost nothing to read that is not read anyway, but for clock
events: a call.

| counter | number | type | further label | is |
|---|---|---|---|---|
"""
_OWN: Final = """
## Tonnage's own

On the page whatever the CSV says. They follow from what the agent knows, and cost no call to the driver.
Those of pods are described in
[Device metrics](exporter.md). A `flag` is 0 or 1; where the unit is `none`, the labels say it all.

| metric | type | unit | labels | is | from | series for each |
|---|---|---|---|---|---|---|
"""
_CLUSTER: Final = """
## Of the cluster

Served by `tonnage metrics cluster`, or by the controller with `--cluster-metrics-interval`, which watch the
API server and work them out at each interval.
They cost no node anything.

| metric | type | unit | labels | is | from | series for each |
|---|---|---|---|---|---|---|
"""
_CONTROLLER: Final = """
## Of the controller

On the controller's page, `--metrics-address`. Counts in memory; a scrape asks nobody. `gpu_operator_*` are
those of NVIDIA's node status exporter: with `nodeStatusExporter.enabled` of a ClusterPolicy the replica that
acts shows them. `process_*` stand beside them, as on every page of a program of ours.

| metric | type | unit | labels | is | from | series for each |
|---|---|---|---|---|---|---|
"""
_AGENT: Final = """
## Of the agent

On the agent's own page, `--metrics-address`; [how it is set up](agent-metrics.md). Counts in memory; a scrape
asks neither a driver nor the API server.

| metric | type | unit | labels | is | from | series for each |
|---|---|---|---|---|---|---|
"""
_CLAIMS: Final = """
## Of claims

On the same page where the agent serves claims, under the names of NVIDIA's DRA driver.

| metric | type | unit | labels | is | from | series for each |
|---|---|---|---|---|---|---|
"""
_BUILD: Final = {"version": "", "python": ""}
_COUNT: Final = "count"
_FLAG: Final = "flag"
_NO_UNIT: Final = "none"
_OF_FLAGS: Final = ("Whether ", "1 if ", "1; ")
"""How the help of a metric begins that is 0 or 1."""
_UNITS: Final = ("seconds", "bytes", "joules", "ratio")
_SOURCES: Final = {
    "tonnage_gpu_resource_capacity": ("the Node object", "resource"),
    "tonnage_gpu_resource_allocatable": ("the Node object", "resource"),
    "tonnage_gpu_resource_allocated": ("the node's pods, by the API server", "resource"),
    "tonnage_gpu_resource_held": ("kubelet's list, and what the agent gave out", "resource"),
    "tonnage_gpu_health": ("the agent's health checks (NVML, Xids)", "GPU, and MIG device"),
    "tonnage_gpu_info": ("NVML, and the node's configuration", "GPU"),
    "tonnage_gpu_sharing_replicas": ("the node's configuration", "GPU or MIG device"),
    "tonnage_gpu_mig_devices": ("NVML", "GPU and profile that it has"),
    "tonnage_gpu_mig_placements_free": ("NVML, and the catalogue of profiles", "divided GPU and profile"),
    "tonnage_gpu_holder_topology_ratio": ("NVML's links and topology", "container with several GPUs"),
    "tonnage_gpu_driver_stall_seconds": ("the agent's calls of NVML", "GPU"),
    "tonnage_exporter_reading_age_seconds": ("the agent's clock", "GPU"),
    "tonnage_exporter_series": ("the page itself", "page"),
    "tonnage_exporter_scrape_errors_total": ("the page itself", "page"),
    "tonnage_exporter_series_limit": ("`--series-limit`", "page"),
    "tonnage_exporter_users_left_out": ("the page itself", "page"),
    "tonnage_exporter_pod_counters_start_time_seconds": ("the agent's state folder", "page"),
    "tonnage_cluster_pending_pods": ("pods, and what `explain` says of them", "its labels' values"),
    "tonnage_cluster_queue_seconds": ("pods", "resource and namespace in which pods wait"),
    "tonnage_cluster_rejected_pods": ("pods", "its labels' values"),
    "tonnage_cluster_quota_used": ("ResourceQuotas", "quota and resource"),
    "tonnage_cluster_quota_hard": ("ResourceQuotas", "quota and resource"),
    "tonnage_cluster_resource_capacity": ("Nodes", "node and resource"),
    "tonnage_cluster_resource_allocatable": ("Nodes", "node and resource"),
    "tonnage_cluster_resource_requested": ("pods", "node and resource"),
    "tonnage_cluster_resource_info": ("Nodes and their labels", "node and resource"),
    "tonnage_cluster_read_failures_total": ("requests to the API server", "page"),
}
"""Whence a metric is known, and for each of what there is a series."""
_OF_PODS: Final = ("holders, and readings of their devices and processes", "container and device")
_COUNTED: Final = ("what the program counts", "combination of its labels")
_PREFIXES: Final = {
    "tonnage_pod_gpu_": _OF_PODS,
    "tonnage_controller_": _COUNTED,
    "tonnage_agent_": _COUNTED,
    "nvidia_dra_": _COUNTED,
    "gpu_operator_": ("the Node, and its agent's report", "GPU node"),
}
_WINDOW_TEXTS: Final = {
    "DCGM_EXP_XID_ERRORS_COUNT": ("xid", "Xids of that code within `--xid-count-window-size`"),
    "DCGM_EXP_CLOCK_EVENTS_COUNT": (
        "clock_event",
        "readings within `--clock-events-count-window-size` at which that reason held clocks down",
    ),
}


def page() -> str:
    """The whole page."""
    enabled = {counter.name for counter in default_counters()}
    lines = [_HEAD, *(_field_line(field, enabled) for field in _in_order()), _WINDOWS]
    for name, number in window_counters().items():
        label, text = _WINDOW_TEXTS[name]
        lines.append(f"| `{name}` | {number} | gauge | `{label}` | {text} |\n")
    sections = {
        _OWN: own_families(),
        _CLUSTER: families_of_cluster(),
        _CONTROLLER: families_of_controller(),
        _AGENT: families_of_agent(),
        _CLAIMS: families_of_claims(),
    }
    tables = ("".join((head, *map(_own_line, families))) for head, families in sections.items())
    return "".join((*lines, *tables))


def own_families() -> Iterator[Metric]:
    """Every family that the exporter has of its own, without samples."""
    yield from node_facts(NodeKnowledge(Inventory()))
    yield from exporter_facts(PageCounts())
    yield from pod_metrics(UsedShares(UsageCounters(0), {}, {}, {}), ())
    yield from budget_metrics(0, 0, 0)


def families_of_cluster() -> Iterator[MetricFamily]:
    """Every family of `tonnage metrics cluster`, without samples."""
    yield from cluster_families(Snapshot(server_version="v1.35.0"))
    yield read_failures(0)


def families_of_controller() -> Iterator[MetricFamily]:
    """Every family of the controller but those of the cluster."""
    yield from controller_families(ControllerCounters(), None, _BUILD)
    yield from node_status_families()


def families_of_agent() -> Iterator[MetricFamily]:
    """Every family of the agent but those of claims."""
    config = ConfigInForce(PluginConfig(), ConfigChoice("", "a", "b"))
    facts = ProbeFacts(ready=True, readable=True, driver_stuck_s=0.0, offer=None, config=config, streams={})
    yield from agent_families(AgentMetrics(SystemClock()), facts, _BUILD)


def families_of_claims() -> Iterator[MetricFamily]:
    """Every family of the driver for claims."""
    yield from ClaimMetrics("node", SystemClock(), tuple).families()


def name_of(family: MetricFamily) -> str:
    """The name on the page's line of its type."""
    return shown_name(family) if isinstance(family, Metric) else family.name


def kind_of(family: MetricFamily) -> str:
    """Prometheus' type of it."""
    if not isinstance(family, Metric):
        return "histogram"
    return "counter" if family.kind is MetricKind.COUNTER else "gauge"


def _own_line(family: MetricFamily) -> str:
    """Raises StopIteration for a metric of which no table says whence it is."""
    name = name_of(family)
    by_prefix = (source for prefix, source in _PREFIXES.items() if name.startswith(prefix))
    source, each = _SOURCES.get(name) or next(by_prefix)
    cells = (
        f"`{name}`",
        kind_of(family),
        _unit(name, family.help),
        _code(family.labels),
        family.help.rstrip("."),
        source,
        each,
    )
    return f"| {' | '.join(cells)} |\n"


def _unit(name: str, text: str) -> str:
    """By the ending of the name. An `_info` has none: its labels say it all, and its value is 1."""
    if name.endswith("_info"):
        return _NO_UNIT
    if text.startswith(_OF_FLAGS):
        return _FLAG
    last = name.removesuffix("_total").rpartition("_")[2]
    return last if last in _UNITS else _COUNT


def _in_order() -> list[DeviceField]:
    fields = [field for field in device_fields().values() if field.dcgm]
    return sorted(fields, key=lambda field: (field.dcgm_id or sys.maxsize, field.name))


def _field_line(field: DeviceField, enabled: set[str]) -> str:
    names = ", ".join(f"**`{name}`**" if name in enabled else f"`{name}`" for name in field.dcgm)
    whole = "NVLink that is up" if field.link else "GPU or MIG device" if field.mig else "GPU"
    each = "other GPU of each GPU" if field.peer else whole
    series = "none: it is a label" if field.is_text else each
    cells = (
        *(names, str(field.dcgm_id or ""), field.kind.value, field.unit),
        *(field.help.rstrip("."), series, _source(field), field.lacks),
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _source(field: DeviceField) -> str:
    if field.origin is FieldOrigin.EVENT:
        return "events of the driver"
    if field.origin is FieldOrigin.RATE:
        of_link = "" if field.name.startswith("nvlink_") else " of the link"
        numbers = ("sent", "138"), ("received", "139")
        one_way = [number for way, number in numbers if way in field.name]
        values = f"value {one_way[0]}" if one_way else "values 138 and 139"
        return f"field {values}{of_link}, between two readings"
    if field.gpm is not None:
        return f"GPM metric {field.gpm}"
    if field.field_id is not None:
        return f"field value {field.field_id}" + (" of the link" if field.link else "")
    arguments = ", ".join(map(str, field.arguments))
    return f"`{field.call}({arguments})`" + (f", {field.part}" if field.part else "")


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def main() -> int:
    """Write the page, or with `--check` say whether it is as it must be."""
    text = page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(
            f"{PAGE} is not up to date. Remedy: python -m scripts.generate_exporter_metrics", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
