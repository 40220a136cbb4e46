"""What the chart makes for Prometheus, its operator and Grafana."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from support.helm import Helm, assert_valid
from tonnage.cli.access.unseen import rights_of
from tonnage.cli.main import tonnage
from tonnage.decide.cluster.operate.plugin_configs import COUNTERS_KEY
from tonnage.diagnose.access import rules_of
from tonnage.diagnose.monitoring.dashboards import dashboard_json
from tonnage.diagnose.monitoring.rules import rules_file
from tonnage.model.catalog.dashboards import dashboards
from tonnage.model.kubernetes.scrape_target import JOBS
from tonnage.model.names import AGENTS_COUNTERS

ALL = """
exporter: {enabled: true}
podMonitor: {enabled: true, additionalLabels: {release: prometheus}}
prometheusRule: {enabled: true, additionalLabels: {release: prometheus}}
dashboards: {enabled: true}
clusterMetrics: {enabled: true}
"""
OWN = ("PodMonitor", "PrometheusRule", "Deployment")


def test_nothing_of_it_is_made_unasked(helm4: Helm) -> None:
    assert [kind for kind in OWN if helm4.rendered().of(kind)] == []


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_every_object_is_valid(helm4: Helm, version: str) -> None:
    rendered = helm4.rendered(ALL)
    for found in rendered:
        if found["kind"] not in ("PodMonitor", "PrometheusRule"):
            assert_valid(found, version)


def test_a_pod_monitor_reads_all_that_is_served_under_the_jobs_of_the_rules(helm4: Helm) -> None:
    rendered = helm4.rendered(ALL)
    spec = rendered.one("PodMonitor")["spec"]
    served = [
        (port["name"], found["spec"]["template"]["metadata"]["labels"])
        for kind in ("DaemonSet", "Deployment")
        for found in rendered.of(kind)
        for container in found["spec"]["template"]["spec"]["containers"]
        for port in container["ports"]
    ]
    assert {name for name, _ in served} == JOBS.keys() - {"controller"}
    assert all(spec["selector"]["matchLabels"].items() <= labels.items() for _, labels in served)
    jobs = {endpoint["port"]: job_of(endpoint) for endpoint in spec["podMetricsEndpoints"]}
    assert jobs == {port: JOBS[port] for port, _ in served}
    assert all(endpoint["honorLabels"] for endpoint in spec["podMetricsEndpoints"])


def job_of(endpoint: dict[str, Any]) -> str:
    rules = endpoint["relabelings"]
    return str(next(rule["replacement"] for rule in rules if rule.get("targetLabel") == "job"))


def test_tls_and_passwords_are_the_exporters_alone(helm4: Helm) -> None:
    given = ALL.replace("podMonitor: {", "podMonitor: {exporterEndpoint: {scheme: https}, ")
    endpoints = helm4.rendered(given).one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert {endpoint["port"]: endpoint.get("scheme") for endpoint in endpoints} == {
        "exporter": "https",
        "metrics": None,
        "cluster": None,
    }


@pytest.mark.parametrize("honored", [True, False])
def test_the_pod_of_a_row_is_the_holder_or_the_exporter_as_wanted(helm4: Helm, *, honored: bool) -> None:
    given = ALL.replace("podMonitor: {", f"podMonitor: {{honorLabels: {str(honored).lower()}, ")
    for endpoint in helm4.rendered(given).one("PodMonitor")["spec"]["podMetricsEndpoints"]:
        drops = [rule for rule in endpoint["relabelings"] if rule.get("action") == "labeldrop"]
        assert (endpoint["honorLabels"], bool(drops)) == (honored, honored)


@pytest.mark.parametrize(
    ("more", "place", "probe"),
    [
        pytest.param("", "agent", "httpGet", id="in the agent's pods, which kubelet probes at another port"),
        pytest.param(
            "processes: true, ", "exporter", "tcpSocket", id="in pods of its own, without a password"
        ),
    ],
)
def test_counters_and_web_config_are_mounted_where_the_flags_name_them(
    helm4: Helm, more: str, place: str, probe: str
) -> None:
    values = (
        f'exporter: {{{more}enabled: true, webConfigSecret: web, counters: "DCGM_FI_DEV_GPU_TEMP, gauge, t"}}'
    )
    rendered = helm4.rendered(values + "\nserviceMonitor: {enabled: true, exporterEndpoint: {scheme: https}}")
    container, volumes = next(
        (container, pod["volumes"])
        for pod in (found["spec"]["template"]["spec"] for found in rendered.of("DaemonSet"))
        for container in pod["containers"]
        if container["name"] == place
    )
    files = {
        "/etc/tonnage/counters": "--collectors=/etc/tonnage/counters/counters.csv",
        "/etc/tonnage/web": "--web-config-file=/etc/tonnage/web/web-config.yaml",
    }
    assert set(files.values()) <= set(container["args"])
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    by_name = {volume["name"]: volume for volume in volumes}
    counters, web = (by_name[mounts[folder]] for folder in files)
    config = next(
        found
        for found in rendered.of("ConfigMap")
        if found["metadata"]["name"] == counters["configMap"]["name"]
    )
    assert config["data"] == {"counters.csv": "DCGM_FI_DEV_GPU_TEMP, gauge, t"}
    assert web["secret"] == {"secretName": "web", "defaultMode": 0o400}
    assert probe in container["livenessProbe"]
    schemes = {
        endpoint["port"]: endpoint.get("scheme")
        for found in rendered.of("ServiceMonitor")
        for endpoint in found["spec"]["endpoints"]
    }
    assert (schemes["exporter"], schemes.get("metrics")) == ("https", None)


def test_a_prometheus_rule_has_the_rules_but_those_left_out(helm4: Helm) -> None:
    rule = helm4.rendered(ALL).one("PrometheusRule")
    assert rule["spec"] == rules_file()
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    fewer = helm4.rendered("prometheusRule: {enabled: true, leaveOut: [tonnage-documents]}")
    names = [group["name"] for group in fewer.one("PrometheusRule")["spec"]["groups"]]
    assert names == ["tonnage-recordings", "tonnage-devices", "tonnage-health", "tonnage-sharing"]


def test_a_prometheus_rule_links_to_the_runbook_where_it_is_published(helm4: Helm) -> None:
    url = "https://docs.example.com/alerts.html"
    values = f"prometheusRule: {{enabled: true, runbookUrl: '{url}'}}"
    assert helm4.rendered(values).one("PrometheusRule")["spec"] == rules_file(url)


def test_dashboards_are_a_config_map_for_grafanas_sidecar(helm4: Helm) -> None:
    found = next(
        found
        for found in helm4.rendered(ALL).of("ConfigMap")
        if "grafana_dashboard" in found["metadata"]["labels"]
    )
    boards = {f"tonnage-{board.name}.json": dashboard_json(board) for board in dashboards()}
    assert {name: json.loads(text) for name, text in found["data"].items()} == boards


def test_the_metrics_of_a_cluster_have_the_rights_that_they_need_and_no_others(helm4: Helm) -> None:
    rendered = helm4.rendered(ALL)
    role = next(role for role in rendered.of("ClusterRole") if "cluster-metrics" in role["metadata"]["name"])
    assert role["rules"] == rules_of(rights_of("metrics cluster"))
    deployment = rendered.one("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    binding = next(
        found
        for found in rendered.of("ClusterRoleBinding")
        if found["roleRef"]["name"] == role["metadata"]["name"]
    )
    assert [subject["name"] for subject in binding["subjects"]] == [pod["serviceAccountName"]]
    assert deployment["spec"]["replicas"] == 1


def test_the_command_knows_every_option_it_is_given(helm4: Helm) -> None:
    (container,) = helm4.rendered(ALL).one("Deployment")["spec"]["template"]["spec"]["containers"]
    shown = CliRunner().invoke(tonnage, [*container["command"][1:], "--help"]).output
    assert [option for option in container["args"] if option.partition("=")[0] not in shown] == []


@pytest.mark.parametrize(
    ("values", "port"),
    [
        pytest.param("", "controller", id="its own metrics alone"),
        pytest.param(
            "clusterMetrics: {enabled: true, interval: 15}", "cluster", id="those of the cluster, too"
        ),
    ],
)
def test_the_controller_serves_the_metrics_of_the_cluster(helm4: Helm, values: str, port: str) -> None:
    rendered = helm4.rendered(f"controller: {{enabled: true}}\npodMonitor: {{enabled: true}}\n{values}")
    deployment = rendered.one("Deployment")  # and no second one
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert [each["name"] for each in container["ports"]] == [port]
    assert ("--cluster-metrics-interval=15" in container["args"]) == bool(values)
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {port}
    (endpoint,) = (
        each for each in rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"] if each["port"] == port
    )
    assert job_of(endpoint) == JOBS[port]
    assert "node" not in [rule.get("targetLabel") for rule in endpoint["relabelings"]]


def test_the_controller_may_read_what_metrics_of_the_cluster_need(helm4: Helm) -> None:
    rendered = helm4.rendered("controller: {enabled: true}\nclusterMetrics: {enabled: true}")
    (role,) = (
        found
        for found in rendered.of("ClusterRole")
        if found["metadata"]["name"]
        == rendered.one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    )
    needed: Any = rules_of(rights_of("metrics cluster"))
    for rule in needed:
        assert {**rule, "verbs": ["list", "watch"]} in role["rules"]


@pytest.mark.parametrize(
    ("values", "kind", "optional"),
    [
        pytest.param("exporter: {enabled: true}", "tonnage-agent", True, id="in the agent"),
        pytest.param(
            "exporter: {enabled: true, processes: true}", "tonnage-exporter", True, id="in pods of its own"
        ),
        pytest.param(
            'exporter: {enabled: true, counters: "DCGM_FI_DEV_GPU_TEMP, gauge, t"}',
            "tonnage-agent",
            False,
            id="with counters of the values",
        ),
    ],
)
def test_with_a_controller_counters_are_those_that_a_policy_names(
    helm4: Helm, values: str, kind: str, *, optional: bool
) -> None:
    rendered = helm4.rendered(f"controller: {{enabled: true}}\n{values}")
    pod = next(
        found["spec"]["template"]["spec"]
        for found in rendered.of("DaemonSet")
        if found["metadata"]["name"] == kind
    )
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "counters")
    assert volume["configMap"]["name"] == AGENTS_COUNTERS
    assert volume["configMap"].get("optional", False) is optional
    assert f"--collectors=/etc/tonnage/counters/{COUNTERS_KEY}" in pod["containers"][0]["args"]
    roles = [rule for role in rendered.of("Role") for rule in role["rules"] if "patch" in rule["verbs"]]
    assert any(AGENTS_COUNTERS in rule.get("resourceNames", ()) for rule in roles)
