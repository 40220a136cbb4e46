"""What the chart refuses, in words: by its schema, and values that do not go together."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from scripts.generate_chart_reference import main as generate_reference
from scripts.generate_chart_reference import refused
from support.helm import CHART, RELEASE, Helm
from tonnage.cli.node.command import command, node_arguments
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.node.plugin_settings import ImexSettings

REFUSED = {
    "a mistyped key": ("nodeSelectr: {a: b}", "nodeSelectr", "not allowed"),
    "a mistyped key further down": ("image: {tags: v1}", "tags", "not allowed"),
    "an unquoted version": ("image: {tag: 1.0}", "/image/tag", "got number, want string"),
    "a tag in the repository": ("image: {repository: 'reg.io/a/b:v1'}", "/image/repository", "pattern"),
    "a digest that is none": ("image: {digest: 'sha256:1'}", "/image/digest", "pattern"),
    "an unknown pull policy": ("image: {pullPolicy: Sometimes}", "/image/pullPolicy", "Always"),
    "no image": ("image: null", "", "missing property 'image'"),
    "an image of nowhere": ("image: {repository: ''}", "/image/repository", "Push what `make image` builds"),
    "no repository at all": ("image: {repository: null}", "/image", "missing property 'repository'"),
    "an image without its registry": (
        "image: {repository: you/tonnage}", "/image/repository", "for you/tonnage each node chooses one",
    ),
    "an image without its folder": ("image: {repository: a}", "/image/repository", "docker.io/you/tonnage"),
    "a registry without an image": ("image: {repository: reg.io}", "/image/repository", "pattern"),
    "a digest of another kind": (
        f"image: {{digest: 'sha512:{'0' * 128}'}}", "/image/digest", "pattern",
    ),
    "a digest in capitals": (f"image: {{digest: 'sha256:{'A' * 64}'}}", "/image/digest", "pattern"),
    "a label that is no text": ("nodeSelector: {gpu: true}", "/nodeSelector/gpu", "want string"),
    "an unknown way to the driver": ("access: root", "/access", "'runtime', 'privileged'"),
    "an unknown place for labels": ("features: {publish: nfd}", "/features/publish", "'nodefeature'"),
    "a driver root that is no path": ("nvidiaDriverRoot: run/nvidia", "/nvidiaDriverRoot", "pattern"),
    "a configuration that is no text": ("config: {map: {a: {version: v1}}}", "/config/map/a", "want string"),
    "a configuration that no label can name": ("config: {map: {a b: ''}}", "a b", "pattern"),
    "a third agent on a node": (
        "updateStrategy: {rollingUpdate: {maxSurge: 2}}",
        "/updateStrategy/rollingUpdate/maxSurge",
        "must be one of",
    ),
    "a port that is none": ("metrics: {port: 70000}", "/metrics/port", "want 65,535"),
    "an unknown operator": ("tolerations: [{operator: exists}]", "/tolerations/0/operator", "Exists"),
    "an amount that is none": ("resources: {limits: {memory: 1 Gi}}", "/resources/limits/memory", "pattern"),
    "the node's name by hand": (
        "extraEnv: [{name: NODE_NAME, value: a}]",
        "/extraEnv/0/name",
        "failed",
    ),
    "an unknown fallback": (
        "config: {fallbackStrategies: [first]}",
        "/config/fallbackStrategies/0",
        "'named', 'single', 'empty'",
    ),
    "a feature that no spec has": (
        "cdi: {featureFlags: [enable-coherent-annotations]}",
        "/cdi/featureFlags/0",
        "'disable-ipc-discoverer'",
    ),
    "an unknown list": ("deviceListStrategy: env", "/deviceListStrategy", "'envvar', 'volume-mounts'"),
    "an unknown MIG strategy": ("migStrategy: all", "/migStrategy", "'none', 'single', 'mixed'"),
    "a channel that none has": ("imex: {channelIDs: [1]}", "/imex/channelIDs/0", "must be 0"),
    "a folder of MPS that is no path": ("mps: {root: run/mps}", "/mps/root", "pattern"),
    "a folder of MPS that ends nowhere": ("mps: {root: /run/mps/}", "/mps/root", "pattern"),
    "kubelet's configuration in a folder": ("kubeletConfig: /var/lib/kubelet/", "/kubeletConfig", "pattern"),
    "kubelet's configuration nowhere": ("kubeletConfig: config.yaml", "/kubeletConfig", "pattern"),
    "an address without its length": (
        "networkPolicy: {apiServerAddresses: [192.0.2.10]}",
        "/networkPolicy/apiServerAddresses/0",
        "pattern",
    ),
    "every address": (
        "networkPolicy: {dnsAddresses: [0.0.0.0/0]}",
        "/networkPolicy/dnsAddresses/0",
        "pattern",
    ),
    "rules for nobody": ("networkPolicy: {metricsFrom: [{}]}", "/networkPolicy/metricsFrom/0", "min"),
}  # fmt: skip
FITS_NOT = {
    "two sources of configurations": ("config: {map: {a: b}, name: c}", "keep one of them"),
    "a default that is not there": (
        "config: {map: {a: one, b: two}, default: c}",
        'config.default: "c" is no key of config.map; its keys: a, b',
    ),
    "two defaults": ("config: {map: {default: one, b: two}, default: b}", "rename it"),
    "nobody brings the driver's library": ("access: privileged", "nvidiaDriverRoot: with access privileged"),
    "CDI specs of a driver nobody shows": ("cdi: {enabled: true}", "nvidiaDriverRoot: CDI specs name"),
    "processes of device metrics that nobody serves": (
        "exporter: {processes: true}",
        "exporter.processes: it divides device metrics by processes",
    ),
    "a second agent on a node without claims": (
        "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
        "updateStrategy.rollingUpdate.maxSurge: without claims.enabled two agents on one node",
    ),
    "an update that removes and adds": (
        "{claims: {enabled: true}, updateStrategy: {rollingUpdate: {maxSurge: 1}}}",
        "updateStrategy.rollingUpdate.maxUnavailable: it must be 0 with maxSurge 1",
    ),
    "an update that replaces none": (
        "updateStrategy: {rollingUpdate: {maxUnavailable: 0}}",
        "updateStrategy.rollingUpdate.maxUnavailable: 0 without maxSurge would replace no agent",
    ),
    "agents that wait beside the controller": (
        "{adoption: {enabled: true}, controller: {enabled: true}}",
        "adoption.enabled: NVIDIA's operator and the controller would write the same labels",
    ),
    "a webhook that nobody answers": (
        "controller: {webhook: {enabled: true}}",
        "controller.webhook.enabled: the controller answers, and controller.enabled is false",
    ),
    "a webhook where metrics are": (
        "controller: {enabled: true, webhook: {enabled: true, port: 9411}}",
        "controller.webhook.port: controller.metricsPort is the same",
    ),
    "trust in nobody's certificate": (
        "controller: {enabled: true, webhook: {enabled: true, caBundle: YQ==}}",
        "controller.webhook.caBundle: without controller.webhook.secret the controller issues",
    ),
    "MPS without its folder": (
        "config: {map: {a: 'sharing: {mps: {resources: []}}'}}",
        "mps.root: a configuration of config.map shares with MPS",
    ),
    "MPS without its program": (
        "{access: privileged, nvidiaDriverRoot: /, mps: {root: /run/mps}}",
        "mps.root: with access privileged nothing puts nvidia-cuda-mps-control into the container",
    ),
    "no account at all": ("serviceAccount: {create: false}", "serviceAccount.name"),
}


@pytest.mark.sampled("values that the chart refuses")
@pytest.mark.parametrize("case", REFUSED)
def test_the_schema_refuses(helm: Helm, case: str) -> None:
    values, where, why = REFUSED[case]
    done = helm.attempt("template", RELEASE, CHART, values=values)
    assert done.returncode != 0
    assert where in done.stderr, done.stderr
    assert why in done.stderr, done.stderr


def test_without_an_image_nothing_is_installed(helm: Helm) -> None:
    """Whoever took a public name that the chart falls back to would be root on every GPU node."""
    for asked in (("template", RELEASE), ("lint",)):
        done = helm.attempt(*asked, CHART, image="")
        assert done.returncode != 0
        assert "there is no default" in done.stdout + done.stderr
    unchecked = helm.attempt("template", RELEASE, CHART, "--skip-schema-validation", image="")
    assert "image.repository: there is no default; push what `make image` builds" in unchecked.stderr


def test_lint_refuses_what_template_refuses(helm: Helm) -> None:
    done = helm.attempt("lint", CHART, values="nodeSelectr: {a: b}")
    assert done.returncode != 0
    assert "nodeSelectr" in done.stdout + done.stderr


def test_the_schema_reports_every_problem_at_once(helm: Helm) -> None:
    done = helm.attempt("template", RELEASE, CHART, values="acess: x\nmetrics: {port: 0}\nmps: {root: run}")
    assert done.stderr.count("\n- ") == 3


@pytest.mark.sampled("NVIDIA's values that the chart refuses")
@pytest.mark.parametrize(("key", "accepted", "why"), refused(), ids=[row[0] for row in refused()])
def test_what_tonnage_cannot_honour_is_refused_with_its_reason(
    helm4: Helm, key: str, accepted: str, why: str
) -> None:
    first, *rest = key.split(".")

    def values(value: object) -> str:
        for part in reversed(rest):
            value = {part: value}
        return yaml.safe_dump({first: value})

    done = helm4.attempt("template", RELEASE, CHART, values=values({"enabled": True}))
    assert done.returncode != 0
    assert why in done.stderr
    for text in ["null", *(part.strip("`") for part in accepted.split(", ") if part)]:
        helm4.run("template", RELEASE, CHART, values=values(json.loads(text)))


@pytest.mark.sampled("values of the chart that do not go together")
@pytest.mark.parametrize("case", FITS_NOT)
def test_values_that_do_not_go_together_are_refused(helm: Helm, case: str) -> None:
    values, why = FITS_NOT[case]
    done = helm.attempt("template", RELEASE, CHART, values=values)
    assert done.returncode != 0
    assert why in done.stderr


def test_they_are_reported_together(helm4: Helm) -> None:
    values = "access: privileged\nconfig: {map: {a: b}, name: c}\nserviceAccount: {create: false}"
    done = helm4.attempt("template", RELEASE, CHART, values=values)
    assert done.stderr.count("\n- ") == 3


def test_a_values_file_of_nvidias_chart_that_shares_a_gpu_works_as_it_is(helm: Helm) -> None:
    config = (
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
    )
    values = {
        "config": {
            "map": {"default": config},
            "name": "",
            "default": "",
            "fallbackStrategies": ["named", "single"],
        },
        "compatWithCPUManager": True,
        "migStrategy": "none",
        "failOnInitError": False,
        "cdi": {"featureFlags": ["disable-ipc-discoverer"]},
        "deviceListStrategy": ["envvar", "cdi-cri"],
        "deviceIDStrategy": "index",
        "nvidiaDevRoot": "/run/dev",
        "gdrcopyEnabled": False,
        "gdsEnabled": True,
        "imex": {"channelIDs": [0], "required": False},
        "nvidiaDriverRoot": "/",
        "mps": {"root": "/run/nvidia/mps", "enableHostPID": True},
        "runtimeClassName": "nvidia",
        "image": {"pullPolicy": "IfNotPresent"},
        "updateStrategy": {"type": "RollingUpdate"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {},
        "resources": {},
        "priorityClassName": "system-node-critical",
    }
    rendered = helm.rendered(yaml.safe_dump(values))
    assert rendered.one("ConfigMap")["data"] == {"default": config}
    assert rendered.pod["runtimeClassName"] == "nvidia"
    assert rendered.container["args"][2:] == [
        "--driver-root=/",
        "--driver-root-ctr-path=/driver-root",
        "--fallback-strategies=named,single",
        "--mig-strategy=none",
        "--fail-on-init-error=false",
        "--device-list-strategy=envvar,cdi-cri",
        "--device-id-strategy=index",
        "--pass-device-specs=true",
        "--dev-root=/run/dev",
        "--mps-root=/run/nvidia/mps",
        "--gdrcopy-enabled=false",
        "--gds-enabled=true",
        "--imex-channel-ids=0",
        "--cdi-feature-flags=disable-ipc-discoverer",
        "--imex-required=false",
    ]
    told = node_arguments(command.make_context("node", ["--node-name=a", *rendered.container["args"]]))
    decided = parse_device_plugin_config(config, source="f", overrides=told["overrides"])
    assert (decided.pass_device_specs, decided.dev_root, decided.imex) == (
        True,
        "/run/dev",
        ImexSettings((0,)),
    )


def test_the_values_of_the_install_page_name_an_image_by_digest(helm4: Helm) -> None:
    page = (CHART.parents[2] / "docs/how-to/install.md").read_text(encoding="utf-8")
    (values,) = (
        block
        for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "image:" in block
    )
    image = helm4.rendered(values).container["image"]
    assert re.fullmatch(r"registry\.example\.com/platform/tonnage@sha256:[0-9a-f]{64}", image)


def test_the_page_of_values_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["generate_chart_reference", "--check"])
    assert generate_reference() == 0
