"""What only resembles a finding of doctor's, and how its layers are told."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.doctor_patients import (
    SPEC,
    Sicken,
    found,
    handler,
    mig,
    runtime_class,
    toolkit,
)
from support.sick_node import (
    KERNEL,
    PLUGINS,
    UUIDS,
    VERSION,
    SickNode,
    loader_cache,
)
from tonnage.decide.node.runtime.versions import can_cdi, can_nri, version_of
from tonnage.diagnose.doctor.containers.runtime_version import runtime_of
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import DoctorReport, Judgement, State, finding
from tonnage.diagnose.doctor.host.kernels import headers_command
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import ClusterFacts, RuntimeFacts
from tonnage.model.node.runtime_config import RuntimeConfig, RuntimeKind
from tonnage.model.reasons.messages.node_symptoms import DriverNotLoaded
from tonnage.model.reasons.node.hardware import NoGpuFound
from tonnage.model.severity import Severity


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


NOT_FOUND: dict[str, Sicken] = {
    "nouveau is kept away by a parameter": lambda n: (
        n.remove("etc/modprobe.d/blacklist-nouveau.conf"),
        n.put("proc/cmdline", "ro modprobe.blacklist=pcspkr,nouveau quiet\n"),
    ),
    "all GPUs are virtual machines'": lambda n: (
        [n.gpu(number, driver="vfio-pci") for number in (0, 1)],
        n.silent(),
        n.stop_agent(),
        n.remove(SPEC),
    ),
    "containerd was told to read another file": lambda n: (
        n.configure("version: v1\n"),
        n.remove(SPEC),
        n.remove("etc/containerd/config.toml"),
        handler(n, "/usr/bin/nvidia-container-runtime"),
        (n.root / "etc/containerd/config.toml").rename(n.root / "etc/x.toml"),
        n.put("usr/bin/nvidia-container-runtime"),
        n.process(70, ["/usr/bin/containerd", "--config", "/etc/x.toml"]),
    ),
    "libraries where only the loader's cache leads": lambda n: (
        n.put(f"opt/driver/libcuda.so.{VERSION}"),
        n.remove("usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        n.put(
            "etc/ld.so.cache",
            loader_cache(
                {
                    "libcuda.so.1": f"/opt/driver/libcuda.so.{VERSION}",
                    "libnvidia-ml.so.1": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
                }
            ),
        ),
    ),
    "labels of another plugin's sharing": lambda n: (
        n.stop_agent(),
        n.remove("var/lib/tonnage/device-plugin-config"),
        n.process(60, ["nvidia-device-plugin"]),
        n.listen(f"{PLUGINS}/nvidia-gpu.sock"),
        n.seen_by_cluster(
            labels={
                "nvidia.com/gpu.product": "Tesla-T4-SHARED",
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.count": "2",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            }
        ),
    ),
    "a new kernel where the driver is a container's": lambda n: (
        n.libraries(VERSION, "run/nvidia/driver/"),
        n.kernel(KERNEL, headers=True, module=False),
        n.kernel("6.8.0-60-generic", headers=False, module=False),
    ),
    "resources under another vendor's name": lambda n: (
        n.remove(f"{PLUGINS}/nvidia-gpu.sock"),
        n.remove(f"{PLUGINS}/kubelet_internal_checkpoint"),
        n.listen(f"{PLUGINS}/acme.com-gpu.sock"),
    ),
    "MIG with its nodes": lambda n: mig(n, nodes=True),
    "another version of a library lies beside": lambda n: n.put(
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.470.1.1"
    ),
    "the driver is a container's": lambda n: (
        n.libraries(VERSION, "run/nvidia/driver/"),
        [n.remove(f"usr/lib/x86_64-linux-gnu/{name}.so.1") for name in ("libcuda", "libnvidia-ml")],
    ),
    "a handler whose program is found by name": lambda n: (
        handler(n, "nvidia-container-runtime"),
        n.put("usr/bin/nvidia-container-runtime"),
    ),
    "a toolkit as it is installed": lambda n: toolkit(
        n, '[nvidia-container-cli]\nldconfig = "@/sbin/ldconfig"\n[nvidia-container-runtime]\nmode = "auto"\n'
    ),
    "the toolkit refuses a variable that nobody uses": lambda n: toolkit(
        n, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
    ),
    "no control groups where CDI does it": lambda n: toolkit(
        n, '[nvidia-container-cli]\nno-cgroups = true\n[nvidia-container-runtime]\nmode = "cdi"\n'
    ),
    "a removed package's leftovers": lambda n: n.put(
        "var/lib/dpkg/status",
        (n.root / "var/lib/dpkg/status").read_text()
        + "Package: nvidia-docker2\nStatus: deinstall ok config-files\nVersion: 2.13.0-1\n",
    ),
    "a class that nobody uses here": lambda n: runtime_class(n, used=False),
    "somebody else's broken expectations": lambda n: n.put(
        "etc/cdi/intel.com-gpu.json",
        json.dumps(
            {
                "cdiVersion": "0.5.0",
                "kind": "intel.com/gpu",
                "devices": [
                    {"name": "card0", "containerEdits": {"deviceNodes": [{"path": "/dev/dri/card9"}]}}
                ],
            }
        ),
    ),
    "a device in both folders": lambda n: n.spec(path="etc/cdi/again.json"),
    "a file beside the specs": lambda n: n.put("var/run/cdi/.tmp123", "{"),
    "nothing registered where all GPUs are claims": lambda n: (
        n.remove("var/lib/kubelet/device-plugins/nvidia-gpu.sock"),
        n.remove("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"),
        n.seen_by_cluster(
            claims={"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0", "uuid": UUIDS[0]}]}
        ),
        n.listen("var/lib/kubelet/plugins_registry/gpu.nvidia.com-1f-reg.sock"),
    ),
    "the place of a MIG device that no claim made": lambda n: n.seen_by_cluster(
        claims={
            "driver": "gpu.nvidia.com",
            "devices": [
                {"name": "gpu-0", "uuid": UUIDS[0]},
                {
                    "name": "gpu-1-mig-1g10gb-19-0",
                    "uuid": "",
                    "reason": "MIG-1 is in its place, which no claim made",
                },
            ],
        }
    ),
    "a GPU by a claim, of which the checkpoint does not tell": lambda n: (
        n.container(77, [0], {}),
        n.seen_by_cluster(
            claims={"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0", "uuid": UUIDS[0]}]}
        ),
    ),
    "no agent where there is NVIDIA's plugin": lambda n: (
        n.stop_agent(),
        n.process(60, ["/usr/bin/nvidia-device-plugin"]),
        n.listen(f"{PLUGINS}/nvidia-gpu.sock"),
    ),
    "another root's agent among the processes": lambda n: n.process(
        61, ["tonnage", "node", "--root", "/tmp/x"]
    ),
    "labels that a person chose": lambda n: n.seen_by_cluster(
        labels={
            "nvidia.com/gpu.present": "true",
            "nvidia.com/mig.config": "all-1g.5gb",
            "nvidia.com/gpu.deploy.driver": "true",
        }
    ),
    "CUDA_VISIBLE_DEVICES as it is inside": lambda n: n.container(
        77, [0], {"CUDA_VISIBLE_DEVICES": "0"}, UUIDS[:1]
    ),
    "CUDA_VISIBLE_DEVICES by the beginning of a uuid": lambda n: n.container(
        77, [0], {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}, UUIDS[:1]
    ),
    "no GPU wanted": lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": ""}, UUIDS[:1]),
    "cut short on purpose": lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": "-1"}, UUIDS[:1]),
    "CDI's void": lambda n: n.container(77, [0], {"NVIDIA_VISIBLE_DEVICES": "void"}, UUIDS[:1]),
    "a privileged container": lambda n: (
        n.container(77, [0, 1], {}),
        n.put("proc/77/status", "CapEff:\t000001ffffffffff\n"),
    ),
    "a replica": lambda n: n.container(77, [0], {"CUDA_VERSION": "12.4.0"}, [f"{UUIDS[0]}::3"]),
}


@pytest.mark.sampled("sick nodes", share="1/3")
@pytest.mark.parametrize("name", NOT_FOUND)
async def test_what_is_in_order_is_left_alone(node: SickNode, name: str) -> None:
    NOT_FOUND[name](node)
    findings = examine(await node.facts()).findings
    assert [finding for finding in findings if finding.severity is not Severity.NOTE] == []


async def test_layers_above_a_failing_one_are_judged_where_they_can_be_and_else_say_why(
    node: SickNode,
) -> None:
    node.unload()
    states = {layer.layer: (layer.state, layer.because) for layer in examine(await node.facts()).layers}
    assert states[NodeLayer.DRIVER] == (State.FAILS, "")
    assert (
        states[NodeLayer.DEVICE_NODES]
        == states[NodeLayer.LIBRARIES]
        == (State.UNKNOWN, "the driver is not loaded")
    )
    assert (
        states[NodeLayer.RUNTIME] == states[NodeLayer.KUBELET] == states[NodeLayer.PLUGIN] == (State.OK, "")
    )


async def test_where_no_bus_is_seen_and_no_module_nothing_is_said_of_a_driver(node: SickNode) -> None:
    node.unload()
    shutil.rmtree(node.root / "sys/bus/pci")
    states = {layer.layer: (layer.state, layer.because) for layer in examine(await node.facts()).layers}
    assert states[NodeLayer.DRIVER] == (State.UNKNOWN, "doctor cannot tell whether there is a GPU")


async def test_a_kernel_that_cannot_be_told_leaves_no_gap_in_the_sentence(node: SickNode) -> None:
    node.unload().put("proc/sys/kernel/osrelease")
    (finding,) = [f for f in examine(await node.facts()).findings if isinstance(f.reason, DriverNotLoaded)]
    assert finding.why == "what is installed for the running kernel cannot be seen"


@pytest.mark.parametrize("root", ["driver-root", "driver-parent/driver"])
async def test_in_the_agents_own_pod_what_is_the_pods_is_not_taken_for_the_hosts(
    node: SickNode, root: str
) -> None:
    node.put("var/run/secrets/kubernetes.io/serviceaccount/token", "x")
    for name in ("usr/lib/x86_64-linux-gnu", "dev", "etc/containerd", "var/run/cdi"):
        shutil.rmtree(node.root / name)
    node.remove("var/lib/dpkg/status").libraries(VERSION, f"{root}/")
    report = examine(await node.facts())
    assert report.findings == ()
    unjudged = [layer.layer for layer in report.layers if "--root" in layer.because]
    assert unjudged == [NodeLayer.DEVICE_NODES, NodeLayer.RUNTIME, NodeLayer.CDI, NodeLayer.WORKLOAD]
    assert report.layers[3].summary == f"{VERSION} in /{root}"


async def test_facts_that_did_not_come_in_time_are_not_judged(node: SickNode) -> None:
    facts = await node.facts()
    names = (
        "hardware",
        "driver",
        "device_nodes",
        "libraries",
        "runtime",
        "cdi",
        "kubelet",
        "plugin",
        "workload",
    )
    gone: dict[str, Any] = dict.fromkeys(names)
    report = examine(replace(facts, **gone, troubles=dict.fromkeys(names, "too slow")))
    assert report.findings == ()
    assert {layer.state for layer in report.layers} == {State.UNKNOWN}
    assert all(layer.because for layer in report.layers)


async def test_a_node_of_amds_is_judged_by_its_module(node: SickNode) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    for name, text in (("vendor", "0x1002"), ("device", "0x74a1"), ("class", "0x120000")):
        node.put(f"sys/bus/pci/devices/0000:17:00.0/{name}", text)
    finding = found(examine(await node.facts()), DriverNotLoaded)
    assert finding.reason.message == "amdgpu is not loaded; it drives 1 GPU"
    (node.root / "sys/module/amdgpu").mkdir()
    report = examine(await node.facts())
    assert not any(finding.reason.node_layer is NodeLayer.DRIVER for finding in report.findings)
    assert report.layers[2].because == "there is no NVIDIA GPU for containers"


def test_the_worst_of_a_layer_is_its_state_and_errors_come_before_warnings() -> None:
    note, warning, error = (
        finding(NoGpuFound(message=severity.value), severity=severity)
        for severity in (Severity.NOTE, Severity.WARNING, Severity.ERROR)
    )
    layers = (Judgement(NodeLayer.DRIVER, (note, warning, error)), Judgement(NodeLayer.CDI, because="why"))
    report = DoctorReport("a", layers)
    assert [layer.state for layer in layers] == [State.FAILS, State.UNKNOWN]
    assert report.findings == (error, warning, note)
    assert Judgement(NodeLayer.CDI, (note,)).state is State.OK
    assert DoctorReport("a", (Judgement(NodeLayer.CDI, (note,)),)).healthy


@pytest.mark.parametrize(
    ("os_id", "command"),
    [
        ("ubuntu debian", f"apt-get install linux-headers-{KERNEL}"),
        ("rocky rhel centos fedora", f"dnf install kernel-devel-{KERNEL} kernel-headers-{KERNEL}"),
        ("opensuse-leap suse", f"zypper install 'kernel-default-devel = {KERNEL}'"),
    ],
)
def test_headers_are_installed_as_the_system_does(os_id: str, command: str) -> None:
    assert headers_command(os_id, KERNEL) == command


def test_the_runtime_is_what_answers_else_what_the_node_says_else_the_package() -> None:
    config = RuntimeConfig(RuntimeKind.CONTAINERD)
    packages = {"containerd.io": "1.7.27-1", "cri-o": "1.34.1"}
    cluster = ClusterFacts(runtime="cri-o://1.33.2")
    facts = RuntimeFacts(name="containerd", version="2.1.4", configs=(config,), packages=packages)
    silent = replace(facts, name="", version="")
    assert runtime_of(facts, cluster) == (RuntimeKind.CONTAINERD, "2.1.4")
    assert runtime_of(silent, cluster) == (RuntimeKind.CRIO, "1.33.2")
    assert runtime_of(silent, None) == (None, "")
    only = replace(silent, packages={"containerd.io": "1.7.27-1"})
    assert runtime_of(only, None) == (RuntimeKind.CONTAINERD, "1.7.27-1")


@pytest.mark.parametrize(
    ("kind", "version", "cdi", "nri"),
    [
        (RuntimeKind.CONTAINERD, "1.6.20", False, False),
        (RuntimeKind.CONTAINERD, "1.7.29", True, False),
        (RuntimeKind.CONTAINERD, "1.7.30", True, True),
        (RuntimeKind.CONTAINERD, "2.0.5", True, False),
        (RuntimeKind.CONTAINERD, "2.1.0", True, True),
        (RuntimeKind.CRIO, "1.22.0", False, False),
        (RuntimeKind.CRIO, "1.33.9", True, False),
        (RuntimeKind.CRIO, "1.34.0", True, True),
    ],
)
def test_what_a_runtime_can_do_by_version(kind: RuntimeKind, version: str, cdi: bool, nri: bool) -> None:
    known = version_of(version)
    assert known is not None
    assert (can_cdi(kind, known), can_nri(kind, known)) == (cdi, nri)


async def test_the_labels_that_are_on_the_node_are_counted(node: SickNode) -> None:
    node.seen_by_cluster(labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "2"})
    (layer,) = [layer for layer in examine(await node.facts()).layers if layer.layer is NodeLayer.LABELS]
    assert layer.summary.startswith("2 labels, not published: nvidia.com/cuda.driver-version.full, ")
    assert layer.state is State.OK
