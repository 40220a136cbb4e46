"""What the chart renders, with Helm 3 and 4; what it refuses is in test_chart_values.py."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
import yaml
from click.testing import CliRunner

from scripts.generate_chart_reference import values
from scripts.generate_crds import main as generate_crds
from support.helm import CHART, IMAGE, Helm, assert_valid
from tonnage.cli.access.unseen import rights_of
from tonnage.cli.main import tonnage
from tonnage.diagnose.access import rules_of
from tonnage.documents.node.gpu_status import node_gpu_status_crd

EVERYTHING = """
imagePullSecrets: [{name: registry}]
config: {map: {whole: "version: v1", shared: "version: v1"}, default: whole}
access: privileged
runtimeClassName: nvidia
nvidiaDriverRoot: /run/nvidia/driver
kubeletRootDir: /data/kubelet/
kubeletConfig: /data/kubelet/config.yaml
seLinuxOptions: {type: spc_t}
verbose: true
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
nodeSelector: {pool: gpu}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
podLabels: {team: platform}
podAnnotations: {note: "1"}
serviceAccount: {annotations: {a: b}}
serviceMonitor: {enabled: true, scrapeTimeout: 5s, additionalLabels: {release: prometheus}}
networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
"""
LINES = "x:\n  - y: |\n      z\n\n"
NOT_UPSTREAM = {"ServiceMonitor"}


def test_lint_has_nothing_to_say(helm: Helm) -> None:
    helm.run("lint", "--strict", CHART)
    helm.run("lint", "--strict", CHART, values=EVERYTHING)


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.load((CHART / "Chart.yaml").read_text(), yaml.CSafeLoader)
    assert {chart["version"], chart["appVersion"]} == {metadata.version("tonnage")}


@pytest.mark.parametrize("given", ["", EVERYTHING], ids=["defaults", "everything"])
@pytest.mark.sampled("the chart's objects against upstream's schemas")
@pytest.mark.parametrize("version", ["1.31", "1.35", "1.37"])
def test_every_object_is_valid(helm4: Helm, given: str, version: str) -> None:
    rendered = helm4.rendered(given)
    assert rendered.of("DaemonSet")
    for found in rendered:
        if found["kind"] not in NOT_UPSTREAM:
            assert_valid(found, version)


@pytest.mark.parametrize("given", ["", EVERYTHING], ids=["defaults", "everything"])
def test_both_helms_render_the_same(helm: Helm, helm4: Helm, given: str) -> None:
    def by_name(objects: list[dict[str, object]]) -> dict[str, object]:
        return {f"{found['kind']}/{found['metadata']}": found for found in objects}

    assert by_name(helm.rendered(given).objects) == by_name(helm4.rendered(given).objects)


def test_numbers_as_names_stay_text(helm4: Helm) -> None:
    rendered = helm4.rendered(
        "serviceAccount: {name: '007'}\nconfig: {name: '1e3'}", release="123", namespace="42"
    )
    for found in rendered:
        assert_valid(found, "1.35")
    assert rendered.one("DaemonSet")["metadata"]["name"] == "123-tonnage-agent"
    assert "--config-map=42/1e3" in rendered.container["args"]


@pytest.mark.parametrize(
    ("release", "given", "name"),
    [
        ("tonnage", "", "tonnage-agent"),
        ("gpus", "", "gpus-tonnage-agent"),
        ("tonnage", "nameOverride: gpus", "tonnage-gpus-agent"),
        ("tonnage", "fullnameOverride: gpus", "gpus-agent"),
        ("a" * 49, "", "a" * 49 + "-agent"),
    ],
    ids=[
        "the release has the chart's name",
        "the release has another name",
        "another name than the chart's",
        "a whole name",
        "a long name is cut and ends well",
    ],
)
def test_names_of_objects(helm4: Helm, release: str, given: str, name: str) -> None:
    assert helm4.rendered(given, release=release).one("DaemonSet")["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("", f"{IMAGE}:{metadata.version('tonnage')}"),
        ("image: {repository: reg.io:5000/a/b, tag: v2}", "reg.io:5000/a/b:v2"),
        (f"image: {{tag: v2, digest: 'sha256:{'0' * 64}'}}", f"{IMAGE}@sha256:{'0' * 64}"),
    ],
    ids=["the application's version", "a registry of one's own", "a digest counts first"],
)
def test_the_image(helm4: Helm, given: str, image: str) -> None:
    assert helm4.rendered(given).container["image"] == image


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("map: {default: a, b: c}", {"default": "a", "b": "c"}),
        ("map: {a: one}", {"a": "one", "default": "one"}),
        ("map: {a: one, b: two}", {"a": "one", "b": "two"}),
        ("map: {a: one, b: two}, default: b", {"a": "one", "b": "two", "default": "two"}),
        (f"map: {{a: {json.dumps(LINES)}}}", {"a": LINES, "default": LINES}),
        ("map: {default: a}, default: default", {"default": "a"}),
        ("map: {a: one}, fallbackStrategies: [empty]", {"a": "one"}),
    ],
    ids=[
        "the one named default",
        "the only one",
        "none of several",
        "the one that is named",
        "text of several lines is kept",
        "default named default",
        "the agent's fallbacks, where they are said",
    ],
)
def test_which_configuration_is_for_nodes_without_a_label(
    helm4: Helm, given: str, data: dict[str, str]
) -> None:
    config = helm4.rendered(f"config: {{{given}}}").one("ConfigMap")
    assert config["data"] == data
    assert (config["metadata"]["namespace"], config["metadata"]["name"]) == (
        "tonnage-system",
        "device-plugin-config",
    )


def test_a_config_map_of_ones_own_is_not_made_but_read(helm4: Helm) -> None:
    rendered = helm4.rendered("config: {name: mine, default: a, fallbackStrategies: [named, single]}")
    assert not rendered.of("ConfigMap")
    said = ("--config-map=tonnage-system/mine", "--default-config=a", "--fallback-strategies=named,single")
    assert set(said) <= set(rendered.container["args"])
    (rule,) = next(role for role in rendered.of("Role") if role["metadata"]["namespace"] != "default")[
        "rules"
    ]
    assert rule["resourceNames"] == ["mine"]


def test_the_agent_knows_every_option_it_is_given(helm4: Helm) -> None:
    container = helm4.rendered(EVERYTHING).container
    given = [option.partition("=")[0] for option in container["args"]]
    assert given == [
        "--config-map",
        "--metrics-address",
        "--driver-root",
        "--driver-root-ctr-path",
        "--verbose",
    ]
    assert container["command"] == ["tonnage", "node"]
    shown = CliRunner().invoke(tonnage, ["node", "--help"]).output
    assert [option for option in given if option not in shown] == []


def test_a_port_changes_everywhere(helm4: Helm) -> None:
    rendered = helm4.rendered("metrics: {port: 9999}\nserviceMonitor: {enabled: true}")
    assert "--metrics-address=:9999" in rendered.container["args"]
    assert rendered.container["ports"] == [{"name": "metrics", "containerPort": 9999}]
    assert rendered.one("Service")["spec"]["ports"] == [
        {"name": "metrics", "port": 9999, "targetPort": "metrics"}
    ]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert rendered.container[probe]["httpGet"]["port"] == "metrics"


def test_a_service_monitor_finds_the_agents(helm4: Helm) -> None:
    assert not helm4.rendered().of("ServiceMonitor")
    rendered = helm4.rendered(EVERYTHING)
    monitor, service = rendered.one("ServiceMonitor"), rendered.one("Service")
    pods = rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert monitor["spec"]["endpoints"] == [
        {
            "port": "metrics",
            "path": "/metrics",
            "interval": "15s",
            "scrapeTimeout": "5s",
            "honorLabels": False,
        }
    ]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert service["spec"]["selector"].items() <= pods.items()


def test_the_definition_is_the_models_own_and_kept(helm4: Helm) -> None:
    crd = helm4.rendered().one("CustomResourceDefinition")
    assert crd["spec"] == node_gpu_status_crd()["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert (
        "annotations" not in helm4.rendered("crds: {keep: false}").one("CustomResourceDefinition")["metadata"]
    )
    assert not helm4.rendered("crds: {enabled: false}").of("CustomResourceDefinition")


def test_the_generated_definition_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["generate_crds", "--check"])
    assert generate_crds() == 0


def test_every_value_has_a_comment() -> None:
    found = list(values())
    assert len(found) > 30
    assert [value.path for value in found if not value.text] == []


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ("", ["gpu-operator", "tonnage-system"]),
        ("deviceAnnotationNamespaces: []", ["tonnage-system"]),
        ("deviceAnnotationNamespaces: [b, tonnage-system]", ["b", "tonnage-system"]),
        ("deviceAnnotationNamespaces: null", None),
        ("enabled: false", None),
    ],
)
def test_adm_8_who_may_annotate_devices(helm4: Helm, values: str, allowed: list[str] | None) -> None:
    given = f"admissionPolicy: {{{values}}}" if values else ""
    found = [
        binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        for binding in helm4.rendered(given).of("ValidatingAdmissionPolicyBinding")
        if "matchResources" in binding["spec"]
    ]
    expected = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": allowed}
    assert found == ([[expected]] if allowed is not None else [])


def test_no_workload_selects_pods_of_another(helm4: Helm) -> None:
    """#982: the plugin's and the MPS daemon's DaemonSet had the same selector, and fought for pods."""
    workloads = [
        found["spec"]
        for found in helm4.rendered(EVERYTHING)
        if found["kind"] in ("DaemonSet", "Deployment", "StatefulSet")
    ]
    assert workloads
    for number, spec in enumerate(workloads):
        selects = spec["selector"]["matchLabels"].items()
        chosen = [
            place
            for place, other in enumerate(workloads)
            if selects <= other["template"]["metadata"]["labels"].items()
        ]
        assert chosen == [number]


def test_the_chart_ships_the_role_that_the_command_line_needs(helm4: Helm) -> None:
    (role,) = [r for r in helm4.rendered().of("ClusterRole") if r["metadata"]["name"].endswith("-reader")]
    assert role["rules"] == rules_of(rights_of("")), "as tonnage access prints it"
    assert not [label for label in role["metadata"]["labels"] if "aggregate" in label]
    bound = helm4.rendered().of("ClusterRoleBinding")
    assert role["metadata"]["name"] not in {binding["roleRef"]["name"] for binding in bound}
    aggregated = helm4.rendered("readerRole: {aggregateTo: [view]}").of("ClusterRole")
    assert "rbac.authorization.k8s.io/aggregate-to-view" in {
        label for found in aggregated for label in found["metadata"]["labels"]
    }
    roles = helm4.rendered("readerRole: {create: false}").of("ClusterRole")
    assert not [found for found in roles if found["metadata"]["name"].endswith("-reader")]
