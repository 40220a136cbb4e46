"""OPR-5: a values file for NVIDIA's gpu-operator chart, and the ClusterPolicy that the chart writes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.generate_chart_schema import OUR_OWN
from scripts.generate_chart_schema import main as generate_schema
from support.helm import CHART, RELEASE, Helm
from tonnage.decide.cluster.operate.dcgm import DCGM_IMAGE
from tonnage.decide.cluster.operate.drivers.images import MODULES
from tonnage.model.catalog.cluster_policy import operator_values
from tonnage.model.catalog.policy_effects import policy_effects
from tonnage.model.drivers.policy import ImageFields

DATA = Path(__file__).resolve().parents[2] / "data"
DOCUMENTS = (DATA / "documents/operator-values.yaml").read_text(encoding="utf-8")
DEFAULTS = yaml.safe_load((DATA / "cluster-policy-26.7.yaml").read_text(encoding="utf-8"))["spec"]
CONTROLLER = "controller: {enabled: true, operatorNamespace: gpu-operator}\n"


def spec_of(helm: Helm, values: str) -> dict[str, Any]:
    spec: dict[str, Any] = helm.rendered(CONTROLLER + values).one("ClusterPolicy")["spec"]
    return spec


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def test_the_values_of_the_documents_are_taken_as_they_are(helm: Helm) -> None:
    spec, given = spec_of(helm, DOCUMENTS), yaml.safe_load(DOCUMENTS)
    assert dict(leaves(given)).items() <= dict(leaves(spec)).items()


def test_what_is_not_set_is_as_nvidias_chart_has_it(helm4: Helm) -> None:
    spec = dict(leaves(spec_of(helm4, "driver: {enabled: true}\nmigManager: {enabled: true}")))
    effects = policy_effects(drivers=True)
    skipped = {"daemonsets.labels.helm.sh/chart", "daemonsets.labels.app.kubernetes.io/managed-by"}
    honoured = {
        path: value
        for path, value in leaves(DEFAULTS)
        if effects.why_without(path) is None and path not in skipped and value not in ("", {})
    }
    assert honoured
    assert {path: spec.get(path) for path in honoured} == honoured


def test_rights_are_given_for_what_is_said_not_for_nvidias_defaults(helm4: Helm) -> None:
    rendered = helm4.rendered(CONTROLLER + "toolkit: {enabled: false}")
    spec = rendered.one("ClusterPolicy")["spec"]
    assert spec["driver"] == {"enabled": False}
    assert spec["migManager"]["enabled"] is False
    assert "--drivers" not in rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    drivers = helm4.rendered(CONTROLLER + "driver: {enabled: true, imagePullSecrets: [nvcr]}")
    assert "--drivers" in drivers.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    roles = [rule for role in drivers.of("Role") for rule in role["rules"]]
    assert [rule["resourceNames"] for rule in roles if rule["resources"] == ["secrets"]] == [["nvcr"]]


def test_fields_have_the_names_of_the_definition(helm4: Helm) -> None:
    values = """
operator: {runtimeClass: other, resources: {limits: {cpu: 1}}, upgradeCRD: true}
driver:
  enabled: true
  version: null
  nvidiaDriverCRD: {enabled: true, deployDefaultCR: true}
  upgradePolicy: {gpuPodDeletion: {force: true}}
cdi: {nriPluginEnabled: true}
migManager: {enabled: true, config: {name: layouts, create: true, data: {config.yaml: "version: v1"}}}
devicePlugin: {config: {name: shared, create: true, default: any, data: {any: "version: v1"}}}
"""
    rendered = helm4.rendered(CONTROLLER + values)
    spec = rendered.one("ClusterPolicy")["spec"]
    assert spec["operator"] == {"runtimeClass": "other"}
    assert spec["driver"]["useNvidiaDriverCRD"] is True
    assert "nvidiaDriverCRD" not in spec["driver"]
    assert spec["driver"]["upgradePolicy"]["podDeletion"] == {
        "force": True, "timeoutSeconds": 300, "deleteEmptyDir": False,
    }  # fmt: skip
    assert spec["devicePlugin"]["config"] == {"name": "shared", "default": "any"}
    assert spec["migManager"]["config"] == {"name": "layouts", "default": "all-disabled"}
    assert spec["cdi"] == {"enabled": True, "nriPluginEnabled": True}
    made = {found["metadata"]["name"]: found for found in rendered.of("ConfigMap")}
    assert made["shared"]["data"] == {"any": "version: v1"}
    assert made["layouts"]["metadata"]["namespace"] == "gpu-operator"
    assert "--mig-config-map=tonnage-system/default-mig-parted-config" in rendered.container["args"]


def test_parts_of_the_agents_follow_what_is_said(helm4: Helm) -> None:
    rendered = helm4.rendered(CONTROLLER + "gfd: {enabled: true}\ndcgmExporter: {enabled: true}")
    assert "--labels=direct" in rendered.container["args"]
    assert "--exporter-address=:9400" in rendered.container["args"]


EXPORTER = """
dcgmExporter:
  enabled: true
  hostPID: true
  hpcJobMapping: {enabled: true, directory: /run/jobs}
  enablePodLabels: true
  podLabelAllowlistRegex: ["^app$"]
  enablePodUID: true
  serviceMonitor:
    enabled: true
    interval: 20s
    honorLabels: true
    additionalLabels: {release: prometheus}
    relabelings: [{action: labeldrop, regex: x}]
"""


def test_values_of_nvidias_exporter_do_what_they_say(helm: Helm) -> None:
    rendered = helm.rendered(CONTROLLER + EXPORTER)
    exporter = next(s for s in rendered.of("DaemonSet") if s["metadata"]["name"].endswith("-exporter"))
    pod = exporter["spec"]["template"]["spec"]
    assert pod["hostPID"] is True
    (container,) = pod["containers"]
    assert {
        "--hpc-job-mapping-dir=/etc/tonnage/jobs",
        "--kubernetes-enable-pod-labels",
        "--kubernetes-pod-label-allowlist-regex=^app$",
        "--kubernetes-enable-pod-uid",
    } <= {*container["args"]}
    (folder,) = (volume["hostPath"]["path"] for volume in pod["volumes"] if volume["name"] == "jobs")
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "jobs")
    assert (folder, mount["mountPath"], mount["readOnly"]) == ("/run/jobs", "/etc/tonnage/jobs", True)
    monitor = rendered.one("ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert {**endpoint} == {
        "port": "gpu-metrics",
        "path": "/metrics",
        "interval": "20s",
        "honorLabels": True,
        "relabelings": [{"action": "labeldrop", "regex": "x"}],
    }
    service = next(s for s in rendered.of("Service") if s["metadata"]["name"] == "nvidia-dcgm-exporter")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert service["spec"]["selector"].items() <= exporter["spec"]["template"]["metadata"]["labels"].items()


def test_values_of_nvidias_exporter_need_to_be_said(helm4: Helm) -> None:
    rendered = helm4.rendered(CONTROLLER + "dcgmExporter: {enabled: true, hpcJobMapping: {enabled: true}}")
    assert not rendered.of("ServiceMonitor")
    volumes = rendered.one("DaemonSet")["spec"]["template"]["spec"]["volumes"]
    (jobs,) = (volume["hostPath"]["path"] for volume in volumes if volume["name"] == "jobs")
    assert jobs == "/var/lib/dcgm-exporter/job-mapping"
    assert not helm4.rendered("exporter: {enabled: true}").of("ServiceMonitor")


def test_no_policy_is_written_where_it_is_not_wanted(helm4: Helm) -> None:
    for values in (
        CONTROLLER,
        CONTROLLER + "driver: {enabled: true}\nclusterPolicy: {deployCR: false}",
        "adoption: {enabled: true}\ntoolkit: {enabled: true}",
    ):
        assert not helm4.rendered(values).of("ClusterPolicy")


def test_more_objects_are_rendered(helm4: Helm) -> None:
    extra = "extraObjects: [{apiVersion: v1, kind: Secret, metadata: {name: '{{ .Release.Name }}-x'}}]"
    assert helm4.rendered(CONTROLLER + extra).one("Secret")["metadata"]["name"] == "tonnage-x"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        pytest.param("driver: {telepathy: 1}", "additional properties 'telepathy'", id="an unknown field"),
        pytest.param("driver: {version: 550.1}", "/driver/version", id="a version that is a number"),
        pytest.param(
            'dcgmExporter: {serviceMonitor: {enabled: "yes"}}',
            "/dcgmExporter/serviceMonitor/enabled",
            id="a ServiceMonitor that is switched on by a text",
        ),
        pytest.param(
            "dcgmExporter: {serviceMonitor: {intervall: 15s}}",
            "additional properties 'intervall'",
            id="an unknown field of a ServiceMonitor",
        ),
        pytest.param("mig: {strategy: double}", "'none', 'single', 'mixed'", id="a word that is none"),
        pytest.param(
            "driver: {upgradePolicy: {podDeletion: {force: true}}}",
            "additional properties 'podDeletion'",
            id="the definition's name for a value",
        ),
        pytest.param(
            "driver: {enabled: true}\nextraObjects: [{}]\ncdi: {nriPluginEnabled: true}",
            "driver, extraObjects, cdi.nriPluginEnabled: values of NVIDIA's gpu-operator chart",
            id="without the controller",
        ),
        pytest.param(
            "gfd: {enabled: true}",
            "of its device-plugin chart they have no meaning here: features.publish publishes labels",
            id="a key of NVIDIA's device-plugin chart",
        ),
        pytest.param(
            CONTROLLER + "devicePlugin: {config: {create: true}}",
            "devicePlugin.config.name: with create true it names the ConfigMap",
            id="a ConfigMap without a name",
        ),
    ],
)
def test_values_are_refused(helm4: Helm, values: str, why: str) -> None:
    done = helm4.attempt("template", RELEASE, CHART, values=values)
    assert done.returncode != 0
    assert why in done.stderr


def test_lint_knows_the_keys_that_may_stand_beside_nvidias() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    table = operator_values()
    nvidias = set(table.fields)
    assert {key for key in table.others if "." not in key} == set(schema) - nvidias
    below = {
        f"{key}.{name}" for key in OUR_OWN for name in set(schema[key]["properties"]) - set(table.fields[key])
    }
    assert {key for key in table.others if "." in key} == below


def test_the_schema_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["generate_chart_schema", "--check"])
    assert generate_schema() == 0


def test_the_chart_and_the_controller_take_the_same_images(helm4: Helm) -> None:
    on = ("driver", "gds", "gdrcopy", "dcgm")
    spec = spec_of(helm4, "\n".join(f"{section}: {{enabled: true}}" for section in on))
    expected = {**MODULES, "dcgm": DCGM_IMAGE}
    images = {
        section: ImageFields(*(spec[section][key] for key in ("repository", "image", "version")))
        for section in expected
    }
    assert images == expected
