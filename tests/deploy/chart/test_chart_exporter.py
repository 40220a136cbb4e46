"""Device metrics in the chart: by the agent's pods, or by pods of their own that see the host's processes."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from support.helm import Helm, Rendered, assert_valid
from tonnage.cli.main import tonnage

IN_AGENT = "exporter: {enabled: true}\nserviceMonitor: {enabled: true}\n"
ALONE = """
exporter:
  enabled: true
  processes: true
  kubernetesVirtualGPUs: true
  kubernetesPodLabels: true
  kubernetesPodLabelAllowlist: ["^app$", "^team"]
  kubernetesPodUID: true
  seriesLimit: 5000
serviceMonitor: {enabled: true, additionalLabels: {release: prometheus}}
nvidiaDriverRoot: /
"""


def _alone(rendered: Rendered, kind: str, ending: str) -> Any:
    """The one object of a kind whose name ends so."""
    objects = {manifest["metadata"]["name"]: manifest for manifest in rendered.of(kind)}
    (name,) = (name for name in objects if name.endswith(ending))
    return objects[name]


def of_exporter(rendered: Rendered, kind: str) -> Any:
    return _alone(rendered, kind, "-exporter")


def of_agent(rendered: Rendered, kind: str) -> Any:
    return _alone(rendered, kind, "-agent")


def service_named(rendered: Rendered, name: str) -> Any:
    services = {service["metadata"]["name"]: service for service in rendered.of("Service")}
    return services[name]


def pod_of(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_its_objects_are_valid(helm4: Helm, version: str) -> None:
    for found in helm4.rendered(ALONE):
        if found["kind"] != "ServiceMonitor":
            assert_valid(found, version)


def test_without_processes_the_agents_pods_serve_device_metrics(helm4: Helm) -> None:
    rendered = helm4.rendered(IN_AGENT)
    (workload,) = rendered.of("DaemonSet")
    assert "--exporter-address=:9400" in pod_of(workload)["containers"][0]["args"]
    assert [port["name"] for port in rendered.one("Service")["spec"]["ports"]] == ["metrics", "exporter"]
    ports = [endpoint["port"] for endpoint in rendered.one("ServiceMonitor")["spec"]["endpoints"]]
    assert ports == ["metrics", "exporter"]


def test_with_processes_the_agents_pods_stay_as_they_are(helm4: Helm) -> None:
    without, with_exporter = helm4.rendered(""), helm4.rendered("exporter: {enabled: true, processes: true}")
    assert of_agent(with_exporter, "DaemonSet") == of_agent(without, "DaemonSet")
    assert of_agent(with_exporter, "NetworkPolicy") == of_agent(without, "NetworkPolicy")
    assert "hostPID" not in pod_of(of_agent(with_exporter, "DaemonSet"))


def test_the_exporters_pod_sees_processes_and_may_do_nothing_else(helm4: Helm) -> None:
    rendered = helm4.rendered(ALONE)
    pod = pod_of(of_exporter(rendered, "DaemonSet"))
    (container,) = pod["containers"]
    assert pod["hostPID"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/tonnage"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "/var/lib/kubelet/device-plugins" not in mounted, "it advertises no devices"
    role = of_exporter(rendered, "ClusterRole")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
    (subject,) = of_exporter(rendered, "ClusterRoleBinding")["subjects"]
    assert (
        subject["name"]
        == pod["serviceAccountName"]
        == of_exporter(rendered, "ServiceAccount")["metadata"]["name"]
    )


def test_its_state_is_not_the_agents(helm4: Helm) -> None:
    """Two that hold one lock, or write one file, would keep each other out."""
    rendered = helm4.rendered(ALONE)
    paths = [
        {volume["hostPath"]["path"] for volume in pod_of(of(rendered, "DaemonSet"))["volumes"]}
        for of in (of_agent, of_exporter)
    ]
    assert "/var/lib/tonnage" in paths[0] - paths[1]
    assert "/var/lib/tonnage-exporter" in paths[1] - paths[0]


def test_it_knows_every_option_it_is_given(helm4: Helm) -> None:
    args = pod_of(of_exporter(helm4.rendered(ALONE), "DaemonSet"))["containers"][0]["args"]
    assert "--kubernetes-pod-label-allowlist-regex=^app$,^team" in args
    assert "--series-limit=5000" in args
    shown = CliRunner().invoke(tonnage, ["node", "--help"]).output
    assert [option for option in args if option.partition("=")[0] not in shown] == []


def test_a_service_monitor_finds_the_exporter_and_the_agent_each_by_its_own_labels(helm4: Helm) -> None:
    rendered = helm4.rendered(ALONE)
    for of, ports in ((of_agent, ["metrics"]), (of_exporter, ["exporter"])):
        monitor, service, workload = (
            of(rendered, kind) for kind in ("ServiceMonitor", "Service", "DaemonSet")
        )
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == ports
        assert [port["name"] for port in service["spec"]["ports"]] == ports
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= labels.items()
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
    agent, exporter = (of(rendered, "Service") for of in (of_agent, of_exporter))
    pods = of_exporter(rendered, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert not agent["spec"]["selector"].items() <= pods.items()
    assert exporter["spec"]["selector"] != agent["spec"]["selector"]


def test_nobody_reaches_more_of_it_than_its_metrics(helm4: Helm) -> None:
    rendered = helm4.rendered(
        ALONE + "networkPolicy: {apiServerPorts: [6443], dnsAddresses: [10.0.0.10/32]}\n"
    )
    policy, agents = (of(rendered, "NetworkPolicy")["spec"] for of in (of_exporter, of_agent))
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "exporter"}]}]
    assert policy["egress"] == agents["egress"]
    assert len(policy["egress"]) == 2


def test_mig_devices_are_shown_to_it_where_the_agent_sees_them(helm4: Helm) -> None:
    rendered = helm4.rendered("migStrategy: mixed\n" + ALONE)
    (container,) = pod_of(of_exporter(rendered, "DaemonSet"))["containers"]
    assert {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"} in container["env"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}


@pytest.mark.parametrize(
    ("values", "pods"),
    [
        pytest.param("exporter: {enabled: true}", "of_agent", id="by the agents"),
        pytest.param("exporter: {enabled: true, processes: true}", "of_exporter", id="by pods of their own"),
    ],
)
def test_monitors_of_nvidia_s_exporter_find_these_pods(helm4: Helm, values: str, pods: str) -> None:
    """The labels and the port's name that ServiceMonitors for NVIDIA's operator go by."""
    rendered = helm4.rendered(f"controller: {{enabled: true}}\n{values}")
    service = service_named(rendered, "nvidia-dcgm-exporter")
    assert service["metadata"]["labels"]["app"] == "nvidia-dcgm-exporter"
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [("gpu-metrics", 9400)]
    workload = {"of_agent": of_agent, "of_exporter": of_exporter}[pods](rendered, "DaemonSet")
    assert service["spec"]["selector"].items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    names = [port["name"] for port in pod_of(workload)["containers"][0]["ports"]]
    assert service["spec"]["ports"][0]["targetPort"] in names


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("exporter: {enabled: true}", id="without the controller"),
        pytest.param("controller: {enabled: true}\nexporter: {enabled: false}", id="without device metrics"),
        pytest.param(
            "controller: {enabled: true}\nexporter: {enabled: true}\noperands: {nvidiaNames: false}",
            id="without NVIDIA's names",
        ),
    ],
)
def test_there_is_no_service_of_nvidia_s_name(helm4: Helm, values: str) -> None:
    names = [service["metadata"]["name"] for service in helm4.rendered(values).of("Service")]
    assert "nvidia-dcgm-exporter" not in names


@pytest.mark.parametrize("more", ["", "clusterMetrics: {enabled: true}"])
def test_monitors_of_nvidia_s_node_status_exporter_find_the_controller(helm4: Helm, more: str) -> None:
    rendered = helm4.rendered(f"controller: {{enabled: true}}\n{more}")
    deployment = rendered.one("Deployment")
    service = service_named(rendered, "nvidia-node-status-exporter")
    assert service["metadata"]["labels"]["app"] == "nvidia-node-status-exporter"
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"]) == ("node-status", 8000)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    names = [port["name"] for port in pod_of(deployment)["containers"][0]["ports"]]
    assert names == [service["spec"]["ports"][0]["targetPort"]]
    rendered = helm4.rendered(f"controller: {{enabled: true}}\noperands: {{nvidiaNames: false}}\n{more}")
    assert not rendered.of("Service")


def test_dcgm_has_its_service_where_its_pods_are(helm4: Helm) -> None:
    """A Service finds pods of its own namespace alone."""
    rendered = helm4.rendered("controller: {enabled: true, operatorNamespace: gpu-operator}")
    service = service_named(rendered, "nvidia-dcgm")
    assert service["metadata"]["namespace"] == "gpu-operator"
    spec = service["spec"]
    assert (spec["selector"], spec["internalTrafficPolicy"]) == ({"app": "nvidia-dcgm"}, "Local")
    assert [(port["name"], port["port"]) for port in spec["ports"]] == [("dcgm", 5555)]
