"""A genuine Prometheus reads the twin: what the documents, a known dashboard and ours ask is answered."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scripts.generate_exporter_metrics import (
    families_of_agent,
    families_of_cluster,
    kind_of,
    name_of,
    own_families,
)
from support.helm import Helm
from support.monitored_fleet import MonitoredFleet, monitored_fleet, pod
from support.prometheus import PATIENCE_S
from support.promtool import promtool
from tonnage.documents.exporter_counters import counter_numbers, default_counters
from tonnage.model.catalog.alerts import rule_table
from tonnage.model.catalog.dashboards import dashboards
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.reading.scrape_targets import LOOPBACK
from tonnage.twin.platform import AGENT_IMAGE

pytestmark = pytest.mark.long

REBUILT: Final[Any] = yaml.load(
    (Path(__file__).parents[2] / "data/dashboard-12239.yaml").read_text(), yaml.CSafeLoader
)
PANELS: Final = [
    pytest.param(query.expr, id=f"{board.name}: {panel.title}: {query.legend}")
    for board in dashboards()
    for panel in board.panels
    for query in panel.queries
]
DOCUMENTED: Final = (
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"),
    *("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS"),
    *("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
)
"""The ten metrics that introductions to GPU monitoring list."""
NOT_HERE: Final = frozenset({"kube_node_status_capacity", "kube_node_status_allocatable"})
"""Series of kube-state-metrics, which is never needed."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[MonitoredFleet]:
    with monitored_fleet() as made:
        made.prometheus.until('count(up{job="tonnage-exporter"} == 1) == 4')
        made.prometheus.until('DCGM_FI_DEV_FB_USED{pod="training-b"}')
        made.prometheus.until("tonnage_cluster_pending_pods")
        for amount in ("seconds", "compute_seconds", "energy_joules"):  # counted from a second reading on
            made.prometheus.until(f"tonnage_pod_gpu_{amount}_total")
        yield made


def as_grafana_asks(expr: str) -> str:
    """The query with everything chosen."""
    for name in ("node", "gpu", "namespace", "instance"):
        expr = expr.replace(f"${name}", ".*")
    return expr.replace("$__rate_interval", "15s")


@pytest.mark.parametrize("panel", [pytest.param(name, id=f"TEL-7: {name}") for name in REBUILT["panels"]])
def test_a_dashboard_made_for_dcgm_exporter_shows_the_fleet(fleet: MonitoredFleet, panel: str) -> None:
    assert fleet.prometheus.until(as_grafana_asks(REBUILT["panels"][panel]))


@pytest.mark.parametrize("expr", PANELS)
def test_every_query_of_our_dashboards_has_data(fleet: MonitoredFleet, expr: str) -> None:
    assert fleet.prometheus.until(as_grafana_asks(expr))


def test_the_reference_has_just_the_metrics_that_running_programs_serve(fleet: MonitoredFleet) -> None:
    families = (*own_families(), *families_of_cluster(), *families_of_agent())
    documented = {name_of(family): kind_of(family) for family in families}
    served = {name: kind for name, kind in fleet.prometheus.types().items() if name.startswith("tonnage_")}
    assert served == documented


def test_names_and_units_are_as_prometheus_wants_them(fleet: MonitoredFleet, tmp_path: Path) -> None:
    pages = [page_of(target["scrapeUrl"]) for target in fleet.prometheus.targets()]
    families = {
        text.partition(" ")[0]: f"# HELP {text}"
        for page in pages
        for text in page.split("# HELP ")
        if text.startswith("tonnage_")
    }
    assert len(families) > 40
    assert promtool("check", "metrics", folder=tmp_path, given="".join(families.values())) == ""


def test_every_counter_that_is_served_is_in_the_reference(fleet: MonitoredFleet) -> None:
    served = {name for name in fleet.prometheus.types() if name.startswith("DCGM_")}
    assert {counter.name for counter in default_counters() if counter.type != "label"} <= served
    assert served <= counter_numbers().keys()


def test_tel_2_utilisation_by_pod(fleet: MonitoredFleet) -> None:
    found = fleet.prometheus.values('avg(DCGM_FI_DEV_GPU_UTIL{pod=~"training-.*"}) by (pod)', "pod")
    assert found.keys() == {"training-a", "training-b"}


def test_tel_2_memory_percentage(fleet: MonitoredFleet) -> None:
    expr = "(DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) * 100"
    found = fleet.prometheus.query(expr)
    assert len(found) == 4 + 4 + 2 + 1  # of the divided GPUs each part
    assert all(0 <= float(series["value"][1]) <= 100 for series in found)


def test_tel_2_nodes_of_low_utilisation(fleet: MonitoredFleet) -> None:
    """The driver measures no utilisation of a divided GPU, so its node is not in the answer."""
    found = fleet.prometheus.values("avg(DCGM_FI_DEV_GPU_UTIL) by (Hostname) < 30", "Hostname")
    assert found.keys() <= {"whole-0", "sliced-0", "mps-0"}
    assert "sliced-0" in found


def test_tel_2_power_of_each_node(fleet: MonitoredFleet) -> None:
    found = fleet.prometheus.values("sum(DCGM_FI_DEV_POWER_USAGE) by (Hostname)", "Hostname")
    assert found.keys() == {"whole-0", "mig-0", "sliced-0", "mps-0"}
    assert all(power > 0 for power in found.values())


@pytest.mark.parametrize("metric", DOCUMENTED)
def test_tel_1_the_metrics_of_the_documents_are_served_with_their_holder(
    fleet: MonitoredFleet, metric: str
) -> None:
    """The agents' counters are those of a CSV of our own."""
    (row,) = fleet.prometheus.until(f'{metric}{{pod="training-b"}}')
    labels = row["metric"]
    assert (labels["namespace"], labels["pod"], labels["container"]) == ("ml", "training-b", "main")


def test_tel_1_rows_carry_who_holds_the_gpu_and_not_who_serves_the_page(fleet: MonitoredFleet) -> None:
    (row,) = fleet.prometheus.query('DCGM_FI_DEV_FB_USED{pod="training-b"}')
    labels = row["metric"]
    assert (labels["namespace"], labels["container"], labels["node"]) == ("ml", "main", "whole-0")
    free = fleet.prometheus.query('DCGM_FI_DEV_FB_USED{node="whole-0",pod=""}')
    assert [series["metric"].get("namespace", "") for series in free] == [""]


def test_tel_5_a_shared_gpu_has_one_row_and_no_pod(fleet: MonitoredFleet) -> None:
    rows = fleet.prometheus.query('DCGM_FI_DEV_GPU_UTIL{node="sliced-0"}')
    assert sorted(series["metric"]["gpu"] for series in rows) == ["0", "1"]


def test_tel_8_capacity_stands_apart_by_mode(fleet: MonitoredFleet) -> None:
    expr = (
        "sum by (mode) (tonnage_cluster_resource_allocatable"
        " * on (resource, node) group_left (mode) tonnage_cluster_resource_info)"
    )
    found = fleet.prometheus.values(expr, "mode")
    assert found == {"exclusive": 4, "mig": 4, "time-sliced": 8, "mps": 8}


def test_sch_8_idle_gpus_and_a_pod_that_waits(fleet: MonitoredFleet) -> None:
    """Utilisation says nothing of it; what is advertised and asked for does."""
    (waiting,) = fleet.prometheus.query('tonnage_cluster_pending_pods{namespace="ml"}')
    assert waiting["metric"]["layer"] == "scheduler"
    assert float(waiting["value"][1]) >= 1
    assert fleet.prometheus.query('tonnage_cluster_queue_seconds{namespace="ml"} > 0')


@pytest.mark.parametrize("alert", rule_table().alerts, ids=lambda alert: alert.name)
def test_every_series_that_a_rule_reads_comes_from_a_source_that_runs(
    fleet: MonitoredFleet, alert: Any
) -> None:
    for name in alert.series:
        if name not in NOT_HERE:
            assert fleet.prometheus.until(name)


def test_links_carry_data_of_a_workload_on_two_gpus(fleet: MonitoredFleet) -> None:
    moved = 'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{node="whole-0",pod="training-a"}'
    assert len(fleet.prometheus.until(f"{moved} > 0")) == 2


def test_the_charts_metrics_of_the_cluster_run_with_the_charts_rights(
    fleet: MonitoredFleet, tmp_path: Path
) -> None:
    """Its Deployment's pod, as its service account, against an API server that judges by RBAC.

    Prometheus does not find it: beside another source every pod would be counted twice.
    """
    rendered = Helm(4, tmp_path).rendered("clusterMetrics: {enabled: true, interval: 5}")
    deployment = rendered.one("Deployment")
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = AGENT_IMAGE
    del deployment["spec"]["template"]["metadata"]["labels"][PART_OF[0]]
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
        for found in rendered.of(kind):
            if found["metadata"]["name"] == spec["serviceAccountName"]:
                fleet.kubectl("apply", "-f", "-", given=found)
    fleet.kubectl("apply", "-f", "-", given=deployment)
    try:
        page = page_with(
            fleet, 'tonnage_cluster_resource_capacity{node="whole-0",resource="nvidia.com/gpu"} 4.0'
        )
        assert 'tonnage_cluster_pending_pods{code="' in page
        fleet.kubectl("create", "-n", "ml", "-f", "-", given=pod("waits-too", "nvidia.com/gpu", 4))
        page_with(fleet, 'layer="scheduler",namespace="ml",resource="nvidia.com/gpu"} 2.0')
    finally:
        fleet.kubectl("delete", "-n", "ml", "pod", "waits-too", "--ignore-not-found")
        fleet.kubectl("delete", "-f", "-", given=deployment)


def page_with(fleet: MonitoredFleet, line: str) -> str:
    """The page of the pod that serves the metrics of the cluster, once it has this."""
    deadline, page = time.monotonic() + PATIENCE_S, ""
    while line not in page:
        assert time.monotonic() < deadline, page
        time.sleep(0.2)
        of_pod = ("-n", "tonnage-system", "-l", "app.kubernetes.io/name=tonnage-cluster-metrics")
        for found in json.loads(fleet.kubectl("get", "pods", *of_pod, "-o", "json"))["items"]:
            if address := found["metadata"].get("annotations", {}).get(f"{LOOPBACK}9411"):
                page = page_of(f"http://{address}/metrics")
    return page


def page_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_kub_2_a_gpu_fails_and_alertmanager_is_told(fleet: MonitoredFleet) -> None:
    """One of four is lost after registration: capacity stays 4, allocatable becomes 3."""
    fleet.tonnage("hardware", "whole-0", "--gpu", "3", "--health", "lost")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (told := notices_of(fleet, "GPUCapacityAboveAllocatable")):
            assert time.monotonic() < deadline, fleet.prometheus.alerts()
            time.sleep(0.1)
        labels, annotations = told[0]["labels"], told[0]["annotations"]
        assert (labels["node"], labels["resource"], labels["severity"]) == (
            "whole-0",
            "nvidia.com/gpu",
            "warning",
        )
        assert annotations["summary"] == "whole-0 has 1 of nvidia.com/gpu more than it can give to pods"
        fleet.kubectl("wait", "-n", "ml", "pod/training-a", "--for=condition=Ready", "--timeout=5s")
    finally:
        fleet.tonnage("hardware", "whole-0", "--gpu", "3", "--health", "healthy")
        whole = 'tonnage_cluster_resource_allocatable{node="whole-0",resource="nvidia.com/gpu"} == 4'
        fleet.prometheus.until(whole)


def notices_of(fleet: MonitoredFleet, name: str) -> list[Any]:
    return [
        alert
        for notice in fleet.notices
        for alert in notice["alerts"]
        if alert["labels"]["alertname"] == name
    ]
