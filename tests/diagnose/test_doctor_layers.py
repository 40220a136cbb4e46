"""Doctor's judgement of each layer: what it finds, and what only resembles it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.sick_node import (
    CONTAINERD,
    KERNEL,
    PLUGINS,
    UUIDS,
    VERSION,
    SickNode,
    address_of,
    loader_cache,
)
from tonnage.decide.node.runtime_versions import can_cdi, can_nri, version_of
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import DoctorCode, Finding, Judgement, Layer, Report, State
from tonnage.diagnose.doctor.kernels import headers_command
from tonnage.diagnose.doctor.versions import runtime_of
from tonnage.model.devices import MigDevice
from tonnage.model.node_facts import ClusterFacts, DriverAnswer, RuntimeFacts
from tonnage.model.runtime_config import RuntimeConfig, RuntimeKind
from tonnage.model.severity import Severity

Sicken = Callable[[SickNode], object]
CRI = 'plugins."io.containerd.cri.v1.runtime"'
TOOLKIT = "etc/nvidia-container-runtime/config.toml"
SPEC = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


def mig(node: SickNode, *, nodes: bool) -> None:
    """The first GPU is divided; its part needs two capabilities."""
    part = MigDevice("MIG-1", 0, "1g.5gb", 1, 0, 4864)
    assert node.inventory is not None
    first, second = node.inventory.devices
    divided = replace(first, mig_enabled=True, migs=(part,))
    node.inventory = replace(node.inventory, devices=(divided, second))
    node.put(
        "proc/driver/nvidia-caps/mig-minors",
        "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n",
    )
    node.put("proc/devices", "Character devices:\n195 nvidia\n505 nvidia-uvm\n511 nvidia-caps\n")
    for number in (12, 13):
        if nodes:
            node.node(f"dev/nvidia-caps/nvidia-cap{number}", 511, number)
    node.configure("version: v1\nflags: {migStrategy: mixed, plugin: {deviceListStrategy: [cdi-cri]}}\n")


def handler(node: SickNode, program: str) -> SickNode:
    text = f'{CONTAINERD}[{CRI}.containerd.runtimes.nvidia.options]\nBinaryName = "{program}"\n'
    node.put("etc/containerd/config.toml", text)
    return node


def toolkit(node: SickNode, text: str) -> SickNode:
    node.put(TOOLKIT, text)
    node.put("sbin/ldconfig", "")
    return node


def runtime_class(node: SickNode, *, used: bool) -> None:
    pod = {
        "metadata": {"name": "a"},
        "spec": {"nodeName": "node", "runtimeClassName": "nvidia"},
        "status": {},
    }
    node.seen_by_cluster(*([pod] if used else []))
    assert node.cluster is not None
    node.cluster = replace(node.cluster, runtime_classes={"nvidia": "nvidia", "kata": "kata"})


def dead_socket(node: SickNode, name: str) -> None:
    node.listen(f"{PLUGINS}/{name}").close()


def crowd(node: SickNode) -> None:
    folder = node.put("var/run/cdi/x.txt").parent
    for number in range(501 - len(list(folder.glob("*.json")))):
        edits = {"containerEdits": {"env": ["A=b"]}}
        spec = {"cdiVersion": "0.5.0", "kind": f"a.b/k{number}", "devices": [{"name": "0", **edits}]}
        (folder / f"{number}.json").write_text(json.dumps(spec))


def empty_bus(node: SickNode) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    (node.root / "sys/bus/pci/devices").mkdir()


def dead_gpu(node: SickNode) -> None:
    node.put(f"sys/bus/pci/devices/{address_of(1)}/config", b"\xff" * 64)


def hangs(node: SickNode) -> None:
    assert node.inventory is not None
    node.answer = DriverAnswer(error="the driver does not answer: scan", hangs=True)


def replaced_by_a_drop_in(node: SickNode) -> None:
    table = 'plugins."io.containerd.grpc.v1.cri"'
    node.put("var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.7.30\n")
    node.put(
        "etc/containerd/config.toml",
        f'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[{table}]\nenable_cdi = true\n',
    )
    node.put("etc/containerd/conf.d/50-cni.toml", f"version = 2\n[{table}.cni]\n")


def old_driver(node: SickNode) -> None:
    """Upgraded under a loaded module."""
    node.libraries("595.91.07")


FOUND: dict[str, tuple[Sicken, DoctorCode, Layer, str]] = {
    "no GPU": (
        empty_bus,
        DoctorCode.NO_GPU,
        Layer.HARDWARE,
        "no GPU on the PCI bus",
    ),
    "a GPU that reads as ones": (dead_gpu, DoctorCode.GPU_OFF_THE_BUS, Layer.HARDWARE, "0000:18:00.0"),
    "module not loaded": (SickNode.unload, DoctorCode.DRIVER_NOT_LOADED, Layer.DRIVER, "is not loaded"),
    "secure boot": (
        lambda n: (
            n.unload(),
            n.put("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1"),
        ),
        DoctorCode.SECURE_BOOT,
        Layer.DRIVER,
        "secure boot is on",
    ),
    "nouveau may come": (
        lambda n: (n.unload(), n.remove("etc/modprobe.d/blacklist-nouveau.conf")),
        DoctorCode.NOUVEAU_NOT_BLACKLISTED,
        Layer.DRIVER,
        "not blacklisted",
    ),
    "a GPU without driver": (
        lambda n: n.gpu(1, driver=""),
        DoctorCode.GPU_NOT_DRIVEN,
        Layer.DRIVER,
        "1 of 2 GPUs have no NVIDIA driver: 0000:18:00.0",
    ),
    "a driver that hangs": (hangs, DoctorCode.DRIVER_HANGS, Layer.DRIVER, "the driver hangs"),
    "an unhealthy GPU": (
        lambda n: n.seen_by_cluster(
            conditions=[
                {
                    "type": "GPUsHealthy",
                    "status": "False",
                    "message": "1 of 2 GPUs may be used; GPU-b: Xid 79",
                }
            ]
        ),
        DoctorCode.GPU_UNHEALTHY,
        Layer.DRIVER,
        "1 of 2 GPUs may be used",
    ),
    "a GPU's node is missing": (
        lambda n: n.remove("dev/nvidia1"),
        DoctorCode.NODE_MISSING,
        Layer.DEVICE_NODES,
        "/dev/nvidia1 is missing",
    ),
    "the control node is missing": (
        lambda n: n.remove("dev/nvidiactl"),
        DoctorCode.NODE_MISSING,
        Layer.DEVICE_NODES,
        "/dev/nvidiactl is missing",
    ),
    "uvm's node is missing": (
        lambda n: n.remove("dev/nvidia-uvm"),
        DoctorCode.NODE_MISSING,
        Layer.DEVICE_NODES,
        "/dev/nvidia-uvm is missing",
    ),
    "uvm is not loaded": (
        lambda n: (n.remove("dev/nvidia-uvm"), n.put("proc/devices", "Character devices:\n195 nvidia\n")),
        DoctorCode.NODE_MISSING,
        Layer.DEVICE_NODES,
        "the module nvidia-uvm is not loaded",
    ),
    "uvm's major changed": (
        lambda n: n.node("dev/nvidia-uvm", 506, 0),
        DoctorCode.NODE_WRONG,
        Layer.DEVICE_NODES,
        "has the numbers 506:0, the driver has 505:0",
    ),
    "numbers of another GPU": (
        lambda n: n.node("dev/nvidia1", 195, 0),
        DoctorCode.NODE_WRONG,
        Layer.DEVICE_NODES,
        "has the numbers 195:0, the driver has 195:1",
    ),
    "a file in place of a node": (
        lambda n: n.put("dev/nvidia1", "x"),
        DoctorCode.NODE_WRONG,
        Layer.DEVICE_NODES,
        "/dev/nvidia1 is no character device",
    ),
    "a MIG capability is missing": (
        lambda n: mig(n, nodes=False),
        DoctorCode.NODE_MISSING,
        Layer.DEVICE_NODES,
        "/dev/nvidia-caps/nvidia-cap12, /dev/nvidia-caps/nvidia-cap13 are missing",
    ),
    "NVML's library is missing": (
        lambda n: n.remove("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
        DoctorCode.LIBRARY_MISSING,
        Layer.LIBRARIES,
        "libnvidia-ml.so.1",
    ),
    "the driver was upgraded": (
        old_driver,
        DoctorCode.LIBRARY_MISMATCH,
        Layer.LIBRARIES,
        f"of version 595.91.07, the loaded module of {VERSION}",
    ),
    "not in the loader's cache": (
        lambda n: n.remove("etc/ld.so.cache"),
        DoctorCode.LIBRARY_NOT_CACHED,
        Layer.LIBRARIES,
        "libcuda.so.1",
    ),
    "all in place, and refused": (
        lambda n: setattr(n, "answer", DriverAnswer(error="NVML: Unknown Error")),
        DoctorCode.DRIVER_REFUSES,
        Layer.LIBRARIES,
        "refuses to answer",
    ),
    "CRI off": (
        lambda n: n.put("etc/containerd/config.toml", 'disabled_plugins = ["cri"]\n'),
        DoctorCode.RUNTIME_CRI_OFF,
        Layer.RUNTIME,
        "without its part for Kubernetes",
    ),
    "CDI off": (
        lambda n: n.put("etc/containerd/config.toml", f"version = 3\n[{CRI}]\nenable_cdi = false\n"),
        DoctorCode.CDI_DISABLED,
        Layer.RUNTIME,
        "CDI is off in containerd 2.1.4-1",
    ),
    "CDI by default off": (
        lambda n: n.put(
            "var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.7.30\n"
        ),
        DoctorCode.CDI_DISABLED,
        Layer.RUNTIME,
        "CDI is off in containerd 1.7.30",
    ),
    "CDI switched on, and a drop-in takes the place of that": (
        replaced_by_a_drop_in,
        DoctorCode.CDI_DISABLED,
        Layer.RUNTIME,
        "CDI is off in containerd 1.7.30",
    ),
    "CDI, and specs read from elsewhere alone": (
        lambda n: n.put(
            "etc/containerd/config.toml", f'version = 3\n[{CRI}]\ncdi_spec_dirs = ["/etc/cdi"]\n'
        ),
        DoctorCode.CDI_DISABLED,
        Layer.RUNTIME,
        "reads no CDI specs of /var/run/cdi",
    ),
    "no CDI at all": (
        lambda n: n.put(
            "var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.6.20~ds1\n"
        ),
        DoctorCode.CDI_UNSUPPORTED,
        Layer.RUNTIME,
        "knows no CDI",
    ),
    "NRI off": (
        lambda n: (
            n.put("opt/nri/plugins/10-nvidia-toolkit"),
            n.put(
                "etc/containerd/config.toml",
                'version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n',
            ),
        ),
        DoctorCode.NRI_DISABLED,
        Layer.RUNTIME,
        "NRI is asked for, and off",
    ),
    "handler without program": (
        lambda n: handler(n, "/opt/nvidia-container-runtime"),
        DoctorCode.RUNTIME_PROGRAM,
        Layer.RUNTIME,
        "runtime handler nvidia is not there: /opt/nvidia-container-runtime",
    ),
    "nvidia-docker2": (
        lambda n: n.put(
            "var/lib/dpkg/status",
            (n.root / "var/lib/dpkg/status").read_text()
            + "Package: nvidia-docker2\nStatus: install ok installed\nVersion: 2.13.0-1\n",
        ),
        DoctorCode.NVIDIA_DOCKER2,
        Layer.RUNTIME,
        "nvidia-docker2 2.13.0-1",
    ),
    "class without handler": (
        lambda n: runtime_class(n, used=True),
        DoctorCode.RUNTIME_CLASS,
        Layer.RUNTIME,
        "RuntimeClass nvidia wants handler nvidia",
    ),
    "toolkit: unknown mode": (
        lambda n: toolkit(n, '[nvidia-container-runtime]\nmode = "legcy"\n'),
        DoctorCode.TOOLKIT_CONFIG,
        Layer.RUNTIME,
        "no mode 'legcy'",
    ),
    "toolkit: ldconfig": (
        lambda n: toolkit(n, '[nvidia-container-cli]\nldconfig = "@/sbin/ldconfig.real"\n'),
        DoctorCode.TOOLKIT_LDCONFIG,
        Layer.RUNTIME,
        "@/sbin/ldconfig.real",
    ),
    "toolkit: root": (
        lambda n: toolkit(n, '[nvidia-container-cli]\nroot = "/run/nvidia/driver"\n'),
        DoctorCode.TOOLKIT_CONFIG,
        Layer.RUNTIME,
        "/run/nvidia/driver, which is not there",
    ),
    "toolkit: control groups": (
        lambda n: toolkit(n, "[nvidia-container-cli]\nno-cgroups = true\n"),
        DoctorCode.TOOLKIT_NO_CGROUPS,
        Layer.RUNTIME,
        "no-cgroups = true",
    ),
    "toolkit: variable": (
        lambda n: (
            n.configure("version: v1\n"),
            toolkit(n, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"),
        ),
        DoctorCode.TOOLKIT_VARIABLE,
        Layer.RUNTIME,
        "ignores NVIDIA_VISIBLE_DEVICES",
    ),
    "spec of an old driver": (
        lambda n: n.spec("550.54.15"),
        DoctorCode.CDI_SPEC_STALE,
        Layer.CDI,
        f"is of driver 550.54.15, {VERSION} is loaded",
    ),
    "spec with a node that is gone": (
        lambda n: n.put(SPEC, (n.root / SPEC).read_text().replace("/dev/nvidiactl", "/dev/nvidia-modeset")),
        DoctorCode.CDI_SPEC_STALE,
        Layer.CDI,
        "names 1 path where nothing is",
    ),
    "spec missing": (lambda n: n.remove(SPEC), DoctorCode.CDI_SPEC_MISSING, Layer.CDI, "no valid CDI spec"),
    "a GPU not in the spec": (
        lambda n: n.put(SPEC, (n.root / SPEC).read_text().replace(UUIDS[1], "GPU-other")),
        DoctorCode.CDI_SPEC_INCOMPLETE,
        Layer.CDI,
        UUIDS[1],
    ),
    "a device twice": (
        lambda n: n.spec(path="var/run/cdi/again.json"),
        DoctorCode.CDI_DEVICE_TWICE,
        Layer.CDI,
        "2 CDI devices in two specs",
    ),
    "ten thousand specs, or nearly": (
        crowd,
        DoctorCode.CDI_FOLDER_CROWDED,
        Layer.CDI,
        "501 CDI specs",
    ),
    "a key twice in a spec": (
        lambda n: n.put("etc/cdi/a.json", '{"kind": "a.b/cd", "kind": "a.b/cd"}'),
        DoctorCode.CDI_SPEC_INVALID,
        Layer.CDI,
        "is refused by container runtimes",
    ),
    "kubelet is not there": (
        lambda n: n.remove(f"{PLUGINS}/kubelet.sock"),
        DoctorCode.KUBELET_SOCKET_MISSING,
        Layer.KUBELET,
        "is not there",
    ),
    "kubelet has ended": (
        lambda n: dead_socket(n, "kubelet.sock"),
        DoctorCode.KUBELET_SOCKET_DEAD,
        Layer.KUBELET,
        "nobody listens on kubelet's",
    ),
    "a plugin has ended": (
        lambda n: dead_socket(n, "nvidia-gpu.sock"),
        DoctorCode.PLUGIN_SOCKET_DEAD,
        Layer.KUBELET,
        "nobody listens on 1 plugin socket",
    ),
    "no pod resources": (
        lambda n: n.remove("var/lib/kubelet/pod-resources/kubelet.sock"),
        DoctorCode.POD_RESOURCES_MISSING,
        Layer.KUBELET,
        "pod resources",
    ),
    "the agent does not run": (
        SickNode.stop_agent,
        DoctorCode.AGENT_NOT_RUNNING,
        Layer.PLUGIN,
        "no device plugin runs",
    ),
    "nothing registered": (
        lambda n: (
            n.remove(f"{PLUGINS}/nvidia-gpu.sock"),
            n.remove(f"{PLUGINS}/kubelet_internal_checkpoint"),
        ),
        DoctorCode.NOT_REGISTERED,
        Layer.PLUGIN,
        "has registered nothing",
    ),
    "damaged state": (
        lambda n: n.put("var/lib/tonnage/allocations", "tonnage-checkpoint v1 x"),
        DoctorCode.AGENT_STATE,
        Layer.PLUGIN,
        "/var/lib/tonnage/allocations",
    ),
    "two plugins": (
        lambda n: n.process(60, ["/usr/bin/nvidia-device-plugin"]),
        DoctorCode.TWO_PLUGINS,
        Layer.PLUGIN,
        "nvidia-device-plugin, tonnage",
    ),
    "a refused configuration": (
        lambda n: n.seen_by_cluster(
            conditions=[{"type": "GPUConfigApplied", "status": "False", "message": "no key x\nwhy: gone"}]
        ),
        DoctorCode.CONFIG_REFUSED,
        Layer.PLUGIN,
        "no key x",
    ),
    "a label that drifted": (
        lambda n: n.seen_by_cluster(labels={"nvidia.com/gpu.product": "Tesla-V100"}),
        DoctorCode.LABEL_DRIFTED,
        Layer.LABELS,
        "nvidia.com/gpu.product=Tesla-V100, it is Tesla-T4",
    ),
    "a label of what is gone": (
        lambda n: n.seen_by_cluster(
            labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig-1g.5gb.count": "7"}
        ),
        DoctorCode.LABEL_DRIFTED,
        Layer.LABELS,
        "nvidia.com/mig-1g.5gb.count=7, there is no such thing",
    ),
    "a GPU that was not given": (
        lambda n: n.container(77, [0, 1], {"NVIDIA_VISIBLE_DEVICES": "all"}, UUIDS[:1]),
        DoctorCode.FOREIGN_GPU,
        Layer.WORKLOAD,
        "ml/train (main) has 1 GPU that it was not given: /dev/nvidia1",
    ),
    "given nothing, has all": (
        lambda n: n.container(77, [0, 1], {"NVIDIA_VISIBLE_DEVICES": "all"}),
        DoctorCode.FOREIGN_GPU,
        Layer.WORKLOAD,
        "has 2 GPUs that it was not given",
    ),
    "given, and not there": (
        lambda n: n.container(77, [], {}, UUIDS[:1]),
        DoctorCode.CONTAINER_WITHOUT_GPU,
        Layer.WORKLOAD,
        "was given /dev/nvidia0, and lacks it",
    ),
    "an index that is another node's": (
        lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": "3"}, UUIDS[:1]),
        DoctorCode.CUDA_VISIBLE,
        Layer.WORKLOAD,
        "sets CUDA_VISIBLE_DEVICES=3, and has 1 GPU",
    ),
    "a uuid of another GPU": (
        lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": UUIDS[1]}, UUIDS[:1]),
        DoctorCode.CUDA_VISIBLE,
        Layer.WORKLOAD,
        "CUDA_VISIBLE_DEVICES",
    ),
    "asked for another by variable": (
        lambda n: n.container(77, [0], {"NVIDIA_VISIBLE_DEVICES": UUIDS[1]}, UUIDS[:1]),
        DoctorCode.VISIBLE_DEVICES,
        Layer.WORKLOAD,
        f"asks the runtime for {UUIDS[1]}",
    ),
}


def found(report: Report, code: DoctorCode) -> Finding:
    return next(finding for finding in report.findings if finding.code is code)


@pytest.mark.parametrize("name", FOUND)
async def test_it_is_found_in_its_layer_with_reason_place_and_remedy(node: SickNode, name: str) -> None:
    sicken, code, layer, words = FOUND[name]
    sicken(node)
    finding = found(examine(await node.facts()), code)
    assert (finding.layer, words in finding.what) == (layer, True), finding
    assert finding.where
    assert finding.remedy


def test_every_code_is_found_by_some_test() -> None:
    text = "\n".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_doctor_*.py"))
    text += (Path(__file__).parents[1] / "adapters/test_node_facts.py").read_text()
    by_its_word = ["RUNTIME_DEFAULT"]  # tests/cli/test_doctor.py
    assert [code.name for code in DoctorCode if f"DoctorCode.{code.name}" not in text] == by_its_word


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
    assert states[Layer.DRIVER] == (State.FAILS, "")
    assert (
        states[Layer.DEVICE_NODES] == states[Layer.LIBRARIES] == (State.UNKNOWN, "the driver is not loaded")
    )
    assert states[Layer.RUNTIME] == states[Layer.KUBELET] == states[Layer.PLUGIN] == (State.OK, "")


async def test_where_no_bus_is_seen_and_no_module_nothing_is_said_of_a_driver(node: SickNode) -> None:
    node.unload()
    shutil.rmtree(node.root / "sys/bus/pci")
    states = {layer.layer: (layer.state, layer.because) for layer in examine(await node.facts()).layers}
    assert states[Layer.DRIVER] == (State.UNKNOWN, "whether there is a GPU is not known")


async def test_a_kernel_that_cannot_be_told_leaves_no_gap_in_the_sentence(node: SickNode) -> None:
    node.unload().put("proc/sys/kernel/osrelease")
    (finding,) = [f for f in examine(await node.facts()).findings if f.code is DoctorCode.DRIVER_NOT_LOADED]
    assert finding.why == "what is installed for the running kernel cannot be seen"


async def test_in_the_agents_own_pod_what_is_the_pods_is_not_taken_for_the_hosts(node: SickNode) -> None:
    node.put("var/run/secrets/kubernetes.io/serviceaccount/token", "x")
    for name in ("usr/lib/x86_64-linux-gnu", "dev", "etc/containerd", "var/run/cdi"):
        shutil.rmtree(node.root / name)
    node.remove("var/lib/dpkg/status").libraries(VERSION, "driver-root/")
    report = examine(await node.facts())
    assert report.findings == ()
    unjudged = [layer.layer for layer in report.layers if "--root" in layer.because]
    assert unjudged == [Layer.DEVICE_NODES, Layer.RUNTIME, Layer.CDI, Layer.WORKLOAD]
    assert report.layers[3].summary == f"{VERSION} in /driver-root"


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
    finding = found(examine(await node.facts()), DoctorCode.DRIVER_NOT_LOADED)
    assert finding.what == "amdgpu is not loaded, which drives 1 GPU"
    (node.root / "sys/module/amdgpu").mkdir()
    report = examine(await node.facts())
    assert [finding.code for finding in report.findings if finding.layer is Layer.DRIVER] == []
    assert report.layers[2].because == "there is no NVIDIA GPU for containers"


def test_the_worst_of_a_layer_is_its_state_and_errors_come_before_warnings() -> None:
    note, warning, error = (
        Finding(DoctorCode.NO_GPU, Layer.DRIVER, severity, severity.value)
        for severity in (Severity.NOTE, Severity.WARNING, Severity.ERROR)
    )
    layers = (Judgement(Layer.DRIVER, (note, warning, error)), Judgement(Layer.CDI, because="why"))
    report = Report("a", layers)
    assert [layer.state for layer in layers] == [State.FAILS, State.UNKNOWN]
    assert report.findings == (error, warning, note)
    assert Judgement(Layer.CDI, (note,)).state is State.OK
    assert Report("a", (Judgement(Layer.CDI, (note,)),)).healthy


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
    asked = RuntimeFacts(name="containerd", version="2.1.4", configs=(config,), packages=packages)
    silent = replace(asked, name="", version="")
    assert runtime_of(asked, cluster) == (RuntimeKind.CONTAINERD, "2.1.4")
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
