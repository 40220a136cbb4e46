"""What the agent's pods may do on their node: the least that works, and no value takes it further unsaid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import CHART, Helm, Manifest
from support.rights import granted
from tonnage.adapters.mps import shared_memory
from tonnage.adapters.node_facts import kubelet_policies
from tonnage.cli.controller import controller_options_in_a_pod
from tonnage.decide.cluster.operate.drivers.states import SKIP_DRAIN_LABEL
from tonnage.model.json_access import text
from tonnage.twin.platform import agent_daemon_set, platform_objects

pytestmark = pytest.mark.long

ON_THE_TWIN = """
migManager: {enabled: true, evictPods: true}
claims: {enabled: true}
nvidiaDriverRoot: /
readerRole: {create: false}
"""
BY_THE_TWIN = ("--labels=direct", "--sleep-interval=10m", "--exporter-address=:9400")
"""What the twin adds: its agents publish labels, seldom, and serve device metrics."""
NOT_ON_THE_TWIN = ("--metrics-address=", "--mig-evict", "--driver-root")
PRIVILEGED = "access: privileged\nnvidiaDriverRoot: /"
SHOWS_WHAT_COMES = {"readOnly": True, "mountPropagation": "HostToContainer"}
_ABSENT = ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace", "initContainers")


def test_the_pod_is_roots_and_nothing_more(helm4: Helm) -> None:
    pod = helm4.rendered().pod
    assert [key for key in _ABSENT if key in pod] == []
    assert pod["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["containers"][0]["ports"][0].keys() == {"name", "containerPort"}, "no host port"


def test_privileged_is_asked_for_by_name_and_still_cannot_write_its_image(helm4: Helm) -> None:
    container = helm4.rendered(PRIVILEGED).container
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert [name for name in _env(container) if name.startswith("NVIDIA_")] == []


def test_the_runtime_is_asked_for_the_driver(helm4: Helm) -> None:
    rendered = helm4.rendered("runtimeClassName: nvidia")
    assert _env(rendered.container) == {
        "NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    assert rendered.pod["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in helm4.rendered().pod


def test_the_agent_knows_its_pod_where_a_node_feature_shall_go_with_it(helm4: Helm) -> None:
    name = {"fieldRef": {"fieldPath": "metadata.name"}}
    assert _env(helm4.rendered("features: {publish: nodefeature}").container)["POD_NAME"] == name
    assert "POD_NAME" not in _env(helm4.rendered("features: {publish: direct}").container)


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_mig_devices_are_shown_to_who_may_administer_alone(helm4: Helm, strategy: str) -> None:
    container = helm4.rendered(f"migStrategy: {strategy}").container
    assert container["securityContext"] == {
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }
    assert _env(container)["NVIDIA_MIG_MONITOR_DEVICES"] == "all"
    assert (
        helm4.rendered("migStrategy: none").container["securityContext"]["allowPrivilegeEscalation"] is False
    )


MPS = "mps: {root: /run/nvidia/mps}"


def test_shr_4_mps_asks_for_what_daemons_and_servers_need_and_no_more(helm4: Helm) -> None:
    rendered = helm4.rendered(MPS)
    container, pod = rendered.container, rendered.pod
    assert container["securityContext"] == {
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN", "SETUID", "SETGID", "KILL"]},
    }
    assert "--mps-root=/run/nvidia/mps" in container["args"]
    assert _env(container)["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert pod["hostPID"] is True
    assert [key for key in _ABSENT if key in pod] == ["hostPID", "initContainers"]
    assert "hostPID" not in helm4.rendered("mps: {root: /run/nvidia/mps, enableHostPID: false}").pod
    divided = helm4.rendered(f"{MPS}\nmigStrategy: single").container
    assert divided["securityContext"] == container["securityContext"]


def test_one_container_is_privileged_for_the_memory_of_mps_and_it_ends(helm4: Helm) -> None:
    rendered = helm4.rendered(MPS)
    (init,) = rendered.pod["initContainers"]
    assert init["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert init["image"] == rendered.container["image"]
    assert (*init["command"], *init["args"]) == (
        *("/usr/bin/python3", "-sPm", shared_memory.__name__),
        "/run/nvidia/mps/shm",
    )
    assert init["volumeMounts"] == [
        {"name": "mps", "mountPath": "/run/nvidia/mps", "mountPropagation": "Bidirectional"}
    ]
    host = {volume["name"]: volume["hostPath"] for volume in rendered.pod["volumes"]}
    assert host["mps"] == {"path": "/run/nvidia/mps", "type": "DirectoryOrCreate"}
    assert host["mps-shm"] == {"path": "/run/nvidia/mps/shm"}
    mounts = {mount["name"]: mount for mount in rendered.container["volumeMounts"]}
    assert mounts["mps"] == {"name": "mps", "mountPath": "/run/nvidia/mps"}
    assert mounts["mps-shm"] == {"name": "mps-shm", "mountPath": "/dev/shm"}


@pytest.mark.parametrize(
    ("values", "memory"),
    [
        pytest.param("", "256Mi", id="the agent alone"),
        pytest.param(MPS, None, id="servers of MPS are its processes"),
        pytest.param(f"{MPS}\nresources: {{limits: {{memory: 4Gi}}}}", "4Gi", id="as a person says"),
    ],
)
def test_the_limit_of_memory(helm4: Helm, values: str, memory: str | None) -> None:
    resources = helm4.rendered(values).container["resources"]
    assert resources.get("limits", {}).get("memory") == memory
    assert resources["requests"] == {"cpu": "20m", "memory": "96Mi"}


KUBELET = "/var/lib/kubelet"
CONFIG = f"{KUBELET}/config.yaml"
FEATURES_D = "/etc/kubernetes/node-feature-discovery/features.d"
MOUNTS = {
    "labels on the node, which tell of the host's system": (
        "features: {publish: direct}",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            "/etc/os-release": ("/etc/os-release", "File", {"readOnly": True}),
        },
    ),
    "labels in a file": (
        "features: {publish: file}",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            FEATURES_D: (FEATURES_D, "DirectoryOrCreate", {}),
        },
    ),
    "by default": (
        "",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
        },
    ),
    "kubelet elsewhere, whose plugins stay where they are": (
        "kubeletRootDir: /data/kubelet/",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": ("/data/kubelet/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
        },
    ),
    "kubelet's configuration, to tell its policies": (
        "kubeletConfig: /etc/kubernetes/kubelet/config.json",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            CONFIG: ("/etc/kubernetes/kubelet/config.json", "File", {"readOnly": True}),
        },
    ),
    "a driver container, which may come later": (
        "nvidiaDriverRoot: /run/nvidia/driver",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            "/driver-parent": ("/run/nvidia", "DirectoryOrCreate", SHOWS_WHAT_COMES),
        },
    ),
    "CDI specs, which the agent writes": (
        "{nvidiaDriverRoot: /run/nvidia/driver, deviceListStrategy: [envvar, cdi-cri]}",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            "/var/run/cdi": ("/var/run/cdi", "DirectoryOrCreate", {}),
            "/driver-parent": ("/run/nvidia", "DirectoryOrCreate", SHOWS_WHAT_COMES),
        },
    ),
    "a driver in a folder that stays": (
        "nvidiaDriverRoot: /driver",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            "/driver-root": ("/driver", "Directory", SHOWS_WHAT_COMES),
        },
    ),
    "the host's driver, with every file system below": (
        "nvidiaDriverRoot: /",
        {
            f"{KUBELET}/device-plugins": (f"{KUBELET}/device-plugins", "Directory", {}),
            f"{KUBELET}/pod-resources": (f"{KUBELET}/pod-resources", "Directory", {"readOnly": True}),
            "/var/lib/tonnage": ("/var/lib/tonnage", "DirectoryOrCreate", {}),
            "/driver-root": ("/", "Directory", {"readOnly": True, "recursiveReadOnly": "IfPossible"}),
        },
    ),
}


def test_kubelets_configuration_is_mounted_where_the_agent_looks() -> None:
    assert kubelet_policies.CONFIG == CONFIG


@pytest.mark.parametrize(
    ("root", "inside"),
    [
        ("/", "/driver-root"),
        ("//", "/driver-root"),
        ("/driver", "/driver-root"),
        ("/run/nvidia/driver", "/driver-parent/driver"),
        ("/run/nvidia/driver/", "/driver-parent/driver"),
        ("/var/run/nvidia/driver", "/driver-parent/driver"),
        ("/run/driver", "/driver-root"),
        ("/home/kubernetes/bin/nvidia", "/driver-root"),
    ],
)
def test_the_drivers_root_lies_in_what_is_mounted_of_it(helm4: Helm, root: str, inside: str) -> None:
    """The exporter's own pods have it as the agents have."""
    values = {"nvidiaDriverRoot": root, "exporter": {"enabled": True, "processes": True}}
    rendered = helm4.rendered(yaml.safe_dump(values))
    pods = [workload["spec"]["template"]["spec"] for workload in rendered.of("DaemonSet")]
    assert len(pods) == 2
    for pod in pods:
        assert f"--driver-root={root}" in pod["containers"][0]["args"]
        assert f"--driver-root-ctr-path={inside}" in pod["containers"][0]["args"]
        (mounted,) = {path for path in _mounts(pod) if path.startswith("/driver-")}
        host, kind, _ = _mounts(pod)[mounted]
        assert host + inside.removeprefix(mounted) == (root.rstrip("/") or "/")
        assert (kind == "Directory") == (mounted == "/driver-root"), "a driver container makes its root later"


def test_a_release_ends_where_every_node_is_cordoned(helm4: Helm) -> None:
    """As a failed driver upgrade leaves the one node of a cluster; what the user's taints need is kept."""
    values = {"controller": {"enabled": True, "tolerations": [{"key": "infra", "operator": "Exists"}]}}
    jobs = {job["metadata"]["name"]: job for job in helm4.rendered(yaml.safe_dump(values)).of("Job")}
    tolerations = jobs["tonnage-uninstall"]["spec"]["template"]["spec"]["tolerations"]
    assert [toleration["key"] for toleration in tolerations] == ["node.kubernetes.io/unschedulable", "infra"]


@pytest.mark.parametrize(
    ("values", "cleans"),
    [
        pytest.param("", False, id="agents that write no label"),
        pytest.param("features: {publish: nodefeature}", False, id="NodeFeatures go with the DaemonSet"),
        pytest.param("features: {publish: direct}", True, id="labels"),
        pytest.param("migManager: {enabled: true}", True, id="the state of layouts"),
        pytest.param("controller: {enabled: true}", True, id="the controller's"),
        pytest.param(
            "{controller: {enabled: true}, rbac: {create: false}}", False, id="rights are given elsewhere"
        ),
    ],
)
def test_a_release_whose_parts_write_labels_ends_with_a_job_that_takes_them_away(
    helm4: Helm, values: str, cleans: bool
) -> None:
    jobs = {job["metadata"]["name"] for job in helm4.rendered(values).of("Job")}
    assert ("tonnage-uninstall" in jobs) == cleans


def test_one_of_two_controllers_stays_while_nodes_are_drained(helm4: Helm) -> None:
    rendered = helm4.rendered("controller: {enabled: true}")
    [deployment], [budget] = rendered.of("Deployment"), rendered.of("PodDisruptionBudget")
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    chosen = budget["spec"]["selector"]["matchLabels"]
    assert chosen == deployment["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_the_controller_is_told_with_what_image_nodes_are_validated(helm4: Helm) -> None:
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    [deployment] = helm4.rendered(f"controller: {{enabled: true, workloadImage: '{image}'}}").of("Deployment")
    options = controller_options_in_a_pod(
        deployment["spec"]["template"]["spec"]["containers"][0]["args"], {"NAMESPACE": "tonnage-system"}
    )
    assert options.workload_image == image


def test_a_drain_for_a_driver_leaves_the_controller(helm4: Helm) -> None:
    [deployment] = helm4.rendered("controller: {enabled: true}").of("Deployment")
    assert deployment["spec"]["template"]["metadata"]["labels"][SKIP_DRAIN_LABEL] == "true"


@pytest.mark.parametrize("case", MOUNTS)
def test_folders_of_the_host(helm4: Helm, case: str) -> None:
    values, expected = MOUNTS[case]
    assert _mounts(helm4.rendered(values).pod) == expected


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ("cdi: {enabled: true}", True),
        ("deviceListStrategy: cdi-annotations", True),
        ("config: {map: {a: 'flags: {plugin: {deviceListStrategy: cdi-cri}}'}}", True),
        ("deviceListStrategy: auto", True),
        ("deviceListStrategy: [auto]", True),
        ("config: {map: {a: 'flags: {plugin: {deviceListStrategy: auto}}'}}", True),
        ("{deviceListStrategy: auto, nvidiaDriverRoot: ''}", False),
        ("config: {map: {a: 'flags: {deviceDiscoveryStrategy: auto}'}}", False),
        ("cdi: {enabled: false}", False),
        ("{cdi: null, deviceListStrategy: volume-mounts}", False),
    ],
)
def test_the_folder_of_cdi_specs_is_there_where_a_strategy_needs_it(
    helm4: Helm, values: str, written: bool
) -> None:
    given = {"nvidiaDriverRoot": "/", **yaml.load(values, yaml.CSafeLoader)}
    assert ("/var/run/cdi" in _mounts(helm4.rendered(yaml.safe_dump(given)).pod)) == written


def test_the_token_is_mounted_by_the_pod_and_by_nobody_else(helm4: Helm) -> None:
    rendered = helm4.rendered()
    assert rendered.one("ServiceAccount")["automountServiceAccountToken"] is False
    assert rendered.pod["automountServiceAccountToken"] is True


def test_nobody_reaches_more_than_the_metrics(helm4: Helm) -> None:
    reader = "{podSelector: {matchLabels: {app: prometheus}}}"
    rendered = helm4.rendered(f"networkPolicy: {{metricsFrom: [{reader}], apiServerPorts: [6443]}}")
    spec = rendered.one("NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["podSelector"] == {
        "matchLabels": rendered.one("DaemonSet")["spec"]["selector"]["matchLabels"]
    }
    assert spec["ingress"] == [
        {
            "ports": [{"protocol": "TCP", "port": "metrics"}],
            "from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        }
    ]
    assert spec["egress"] == [{"ports": [{"protocol": "TCP", "port": 6443}]}]
    assert not helm4.rendered("networkPolicy: {enabled: false}").of("NetworkPolicy")


def test_agents_reach_the_api_server_and_dns_alone_where_their_addresses_are_given(helm4: Helm) -> None:
    values = "{apiServerPorts: [6443], apiServerAddresses: [192.0.2.10/32, 2001:db8::1/128]"
    (server,) = helm4.rendered(f"networkPolicy: {values}}}").one("NetworkPolicy")["spec"]["egress"]
    assert server == {
        "ports": [{"protocol": "TCP", "port": 6443}],
        "to": [{"ipBlock": {"cidr": "192.0.2.10/32"}}, {"ipBlock": {"cidr": "2001:db8::1/128"}}],
    }
    with_dns = helm4.rendered(f"networkPolicy: {values}, dnsAddresses: [10.96.0.10/32]}}")
    assert with_dns.one("NetworkPolicy")["spec"]["egress"] == [
        server,
        {
            "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
            "to": [{"ipBlock": {"cidr": "10.96.0.10/32"}}],
        },
    ]


def test_the_twin_installs_the_charts_daemon_set_but_for_what_no_pretended_node_has(helm4: Helm) -> None:
    chart = _leaves(_without_driver_files(helm4.rendered(ON_THE_TWIN).one("DaemonSet")))
    twin = _leaves(agent_daemon_set(Path("/kubeconfig")))
    labels = ("managed-by", "instance", "version")
    container = "spec.template.spec.containers.0"
    gone = {path for path in chart.keys() - twin.keys() if not path.endswith(labels)}
    left_out = ("ports", "startupProbe", "livenessProbe", "readinessProbe", "resources", "args")
    assert {
        path for path in gone if not path.startswith(tuple(f"{container}.{field}" for field in left_out))
    } == {"metadata.labels.helm.sh/chart"}
    assert {path: twin[path] for path in twin.keys() - chart.keys()} == {
        f"{container}.env.5.name": "KUBECONFIG",
        f"{container}.env.5.value": "/kubeconfig",
    }
    args = [chart.pop(path) for path in sorted(chart) if path.startswith(f"{container}.args")]
    given = [twin.pop(path) for path in sorted(twin) if path.startswith(f"{container}.args")]
    assert [arg for arg in given if arg not in BY_THE_TWIN] == [
        arg for arg in args if not arg.startswith(NOT_ON_THE_TWIN)
    ]
    assert set(BY_THE_TWIN) <= set(given)
    assert {path for path in chart.keys() & twin.keys() if chart[path] != twin[path]} == {
        f"{container}.image",
        *(f"{container}.ports.0.{field}" for field in ("name", "containerPort")),  # of the exporter alone
    }


def test_on_the_twin_agents_have_the_rights_that_the_chart_gives_them(helm4: Helm) -> None:
    twin: list[Manifest] = [
        {
            **body,
            "kind": kind.kind,
            "metadata": {"name": text(body, "metadata", "name"), "namespace": namespace or ""},
        }
        for kind, namespace, body in platform_objects({}, Path("/none"))
    ]
    assert granted(twin) == granted(helm4.rendered(ON_THE_TWIN).without_hooks())


def _without_driver_files(daemon_set: Manifest) -> Manifest:
    """Without the volume of the driver's files, which no pretended node has."""
    pod = daemon_set["spec"]["template"]["spec"]
    for owner, key in ((pod, "volumes"), (pod["containers"][0], "volumeMounts")):
        owner[key] = [volume for volume in owner[key] if volume["name"] != "driver-root"]
    return daemon_set


def _leaves(value: Any, *path: str) -> dict[str, Any]:
    """Every scalar by its path, with dots between."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        return {".".join(path): value}
    return {name: leaf for key, item in inner for name, leaf in _leaves(item, *path, str(key)).items()}


def _env(container: Manifest) -> dict[str, object]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


EVERYTHING = """
nvidiaDriverRoot: /
kubeletConfig: /var/lib/kubelet/config.yaml
cdi: {enabled: true}
mps: {root: /run/nvidia/mps}
migManager: {enabled: true, hostPrograms: true, reboot: true, evictPods: true}
features: {publish: %s}
"""


@pytest.mark.parametrize("publish", ["none", "direct", "nodefeature", "file"])
def test_each_folder_that_the_agent_may_write_has_its_row_in_the_page_on_security(
    helm4: Helm, publish: str
) -> None:
    """With what its loss would mean. A new one must not be forgotten."""
    page = (CHART.parents[2] / "docs/explanation/security.md").read_text(encoding="utf-8")
    section = page.partition("\n## What the agent may write\n")[2].partition("\n## ")[0]
    pod = helm4.rendered(EVERYTHING % publish).pod
    mounts = [
        mount for each in (*pod["initContainers"], *pod["containers"]) for mount in each["volumeMounts"]
    ]
    writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
    assert {"/var/run/cdi", "/host", "/dev/shm"} < writable
    named = {path.replace("/run/nvidia/mps", "the folder of `mps.root`") for path in writable}
    assert {name for name in named if not re.search(rf"(?m)^\| `?{re.escape(name)}`? \|", section)} == set()
    assert all(
        each["securityContext"]["readOnlyRootFilesystem"]
        for each in (*pod["initContainers"], *pod["containers"])
    )


def _mounts(pod: Manifest) -> dict[str, tuple[str, str, Manifest]]:
    """(host path, its type, options) by path in the container."""
    host = {volume["name"]: volume["hostPath"] for volume in pod["volumes"]}
    result = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        options = {key: value for key, value in mount.items() if key not in ("name", "mountPath")}
        result[mount["mountPath"]] = (host[mount["name"]]["path"], host[mount["name"]]["type"], options)
    return result
