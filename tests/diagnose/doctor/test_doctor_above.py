"""Doctor's judgement of runtime, CDI, plugin, kubelet and workloads: what it finds."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from support.doctor_patients import (
    CRI,
    SPEC,
    Sicken,
    assert_found,
    handler,
    runtime_class,
    toolkit,
)
from support.sick_node import (
    PLUGINS,
    UUIDS,
    VERSION,
    SickNode,
)
from tonnage.decide.node.claims.offer import WITHOUT_PARTITIONS
from tonnage.model.layer import NodeLayer
from tonnage.model.reasons.gpu.devices import GpuConfigRefused
from tonnage.model.reasons.messages.node_symptoms import (
    DeviceUnregistered,
    RuntimeHandlerMissing,
    ToolkitLdconfigMissing,
)
from tonnage.model.reasons.node.cdi import (
    CdiDeviceTwice,
    CdiFolderCrowded,
    CdiSpecIncomplete,
    CdiSpecInvalid,
    CdiSpecMissing,
    CdiSpecStale,
)
from tonnage.model.reasons.node.kubelet_files import (
    KubeletSocketDead,
    KubeletSocketMissing,
    PluginSocketDead,
    PodResourcesMissing,
)
from tonnage.model.reasons.node.labels import LabelDrifted
from tonnage.model.reasons.node.plugin import (
    AgentNotRunning,
    AgentSilent,
    AgentStateDamaged,
    ClaimsNotServed,
    DevicesNotAllocatable,
    TwoPlugins,
)
from tonnage.model.reasons.node.runtime import (
    CdiDisabled,
    CdiUnsupported,
    NriDisabled,
    NvidiaDocker2Left,
    NvidiaRuntimeDefault,
    RuntimeCriDisabled,
    RuntimeHandlerTwice,
    RuntimeProgramMissing,
)
from tonnage.model.reasons.node.toolkit import ToolkitConfigInvalid, ToolkitNoCgroups, ToolkitRefusesVariable
from tonnage.model.reasons.node.workload import (
    ContainerWithForeignGpu,
    ContainerWithoutGpu,
    CudaVisibleDevicesMismatch,
    VisibleDevicesMismatch,
)
from tonnage.model.reasons.reason import NodeReason
from tonnage.model.reasons.registry import node_reasons

DRIVERS = "var/lib/kubelet/plugins_registry"
ONE = {"name": "gpu-0", "uuid": UUIDS[0]}
ILL = {"name": "gpu-1", "uuid": UUIDS[1], "reason": "Xid 79"}
UNMADE = {"name": "gpu-1-mig-1g10gb-19-0", "uuid": "", "reason": WITHOUT_PARTITIONS}


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


def dead_socket(node: SickNode, name: str, folder: str = PLUGINS) -> None:
    node.listen(f"{folder}/{name}").close()


def claimed_by_a_dead_socket(node: SickNode) -> None:
    dead_socket(node, "gpu.nvidia.com-1f-reg.sock", DRIVERS)
    node.seen_by_cluster(claims={"driver": "gpu.nvidia.com", "devices": [ONE]})


def crowd(node: SickNode) -> None:
    folder = node.put("var/run/cdi/x.txt").parent
    for number in range(501 - len(list(folder.glob("*.json")))):
        edits = {"containerEdits": {"env": ["A=b"]}}
        spec = {"cdiVersion": "0.5.0", "kind": f"a.b/k{number}", "devices": [{"name": "0", **edits}]}
        (folder / f"{number}.json").write_text(json.dumps(spec))


def handler_by_template_and_by_itself(node: SickNode) -> None:
    table = f"[{CRI}.containerd.runtimes.nvidia]"
    folder = "var/lib/rancher/k3s/agent/etc/containerd"
    node.put(f"{folder}/config.toml", f"version = 3\n{table}\n")
    node.put(f"{folder}/config-v3.toml.tmpl", f'{{{{ template "base" . }}}}\n{table}\n')
    node.put("usr/bin/nvidia-container-runtime")


def replaced_by_a_drop_in(node: SickNode) -> None:
    table = 'plugins."io.containerd.grpc.v1.cri"'
    node.put("var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.7.30\n")
    node.put(
        "etc/containerd/config.toml",
        f'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[{table}]\nenable_cdi = true\n',
    )
    node.put("etc/containerd/conf.d/50-cni.toml", f"version = 2\n[{table}.cni]\n")


FOUND_ABOVE: dict[str, tuple[Sicken, type[NodeReason], NodeLayer, str]] = {
    "CRI off": (
        lambda n: n.put("etc/containerd/config.toml", 'disabled_plugins = ["cri"]\n'),
        RuntimeCriDisabled,
        NodeLayer.RUNTIME,
        "CRI plugin is switched off",
    ),
    "a template's handler, and the program that k3s finds": (
        handler_by_template_and_by_itself,
        RuntimeHandlerTwice,
        NodeLayer.RUNTIME,
        "handler nvidia is defined twice",
    ),
    "CDI off": (
        lambda n: n.put("etc/containerd/config.toml", f"version = 3\n[{CRI}]\nenable_cdi = false\n"),
        CdiDisabled,
        NodeLayer.RUNTIME,
        "CDI is off in containerd 2.1.4-1",
    ),
    "CDI by default off": (
        lambda n: n.put(
            "var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.7.30\n"
        ),
        CdiDisabled,
        NodeLayer.RUNTIME,
        "CDI is off in containerd 1.7.30",
    ),
    "CDI switched on, and a drop-in takes the place of that": (
        replaced_by_a_drop_in,
        CdiDisabled,
        NodeLayer.RUNTIME,
        "CDI is off in containerd 1.7.30",
    ),
    "CDI, and specs read from elsewhere alone": (
        lambda n: n.put(
            "etc/containerd/config.toml", f'version = 3\n[{CRI}]\ncdi_spec_dirs = ["/etc/cdi"]\n'
        ),
        CdiDisabled,
        NodeLayer.RUNTIME,
        "reads no CDI specs in /var/run/cdi",
    ),
    "no CDI at all": (
        lambda n: n.put(
            "var/lib/dpkg/status", "Package: containerd\nStatus: install ok installed\nVersion: 1.6.20~ds1\n"
        ),
        CdiUnsupported,
        NodeLayer.RUNTIME,
        "does not support CDI",
    ),
    "NRI off": (
        lambda n: (
            n.put("opt/nri/plugins/10-nvidia-toolkit"),
            n.put(
                "etc/containerd/config.toml",
                'version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n',
            ),
        ),
        NriDisabled,
        NodeLayer.RUNTIME,
        "NRI is requested, but off",
    ),
    "handler without program": (
        lambda n: handler(n, "/opt/nvidia-container-runtime"),
        RuntimeProgramMissing,
        NodeLayer.RUNTIME,
        "runtime handler nvidia is missing: /opt/nvidia-container-runtime",
    ),
    "nvidia-docker2": (
        lambda n: n.put(
            "var/lib/dpkg/status",
            (n.root / "var/lib/dpkg/status").read_text()
            + "Package: nvidia-docker2\nStatus: install ok installed\nVersion: 2.13.0-1\n",
        ),
        NvidiaDocker2Left,
        NodeLayer.RUNTIME,
        "nvidia-docker2 2.13.0-1",
    ),
    "class without handler": (
        lambda n: runtime_class(n, used=True),
        RuntimeHandlerMissing,
        NodeLayer.RUNTIME,
        "RuntimeClass nvidia wants handler nvidia",
    ),
    "toolkit: unknown mode": (
        lambda n: toolkit(n, '[nvidia-container-runtime]\nmode = "legcy"\n'),
        ToolkitConfigInvalid,
        NodeLayer.RUNTIME,
        "no mode 'legcy'",
    ),
    "toolkit: ldconfig": (
        lambda n: toolkit(n, '[nvidia-container-cli]\nldconfig = "@/sbin/ldconfig.real"\n'),
        ToolkitLdconfigMissing,
        NodeLayer.RUNTIME,
        "@/sbin/ldconfig.real",
    ),
    "toolkit: root": (
        lambda n: toolkit(n, '[nvidia-container-cli]\nroot = "/run/nvidia/driver"\n'),
        ToolkitConfigInvalid,
        NodeLayer.RUNTIME,
        "/run/nvidia/driver, which does not exist",
    ),
    "toolkit: control groups": (
        lambda n: toolkit(n, "[nvidia-container-cli]\nno-cgroups = true\n"),
        ToolkitNoCgroups,
        NodeLayer.RUNTIME,
        "no-cgroups = true",
    ),
    "toolkit: variable": (
        lambda n: (
            n.configure("version: v1\n"),
            toolkit(n, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"),
        ),
        ToolkitRefusesVariable,
        NodeLayer.RUNTIME,
        "ignores NVIDIA_VISIBLE_DEVICES",
    ),
    "spec of an old driver": (
        lambda n: n.spec("550.54.15"),
        CdiSpecStale,
        NodeLayer.CDI,
        f"is of driver 550.54.15, {VERSION} is loaded",
    ),
    "spec with a node that is gone": (
        lambda n: n.put(SPEC, (n.root / SPEC).read_text().replace("/dev/nvidiactl", "/dev/nvidia-modeset")),
        CdiSpecStale,
        NodeLayer.CDI,
        "names 1 path, which does not exist",
    ),
    "spec missing": (
        lambda n: n.remove(SPEC),
        CdiSpecMissing,
        NodeLayer.CDI,
        "no valid CDI spec",
    ),
    "a GPU not in the spec": (
        lambda n: n.put(SPEC, (n.root / SPEC).read_text().replace(UUIDS[1], "GPU-other")),
        CdiSpecIncomplete,
        NodeLayer.CDI,
        UUIDS[1],
    ),
    "a device twice": (
        lambda n: n.spec(path="var/run/cdi/again.json"),
        CdiDeviceTwice,
        NodeLayer.CDI,
        "2 CDI devices in two specs",
    ),
    "ten thousand specs, or nearly": (
        crowd,
        CdiFolderCrowded,
        NodeLayer.CDI,
        "501 CDI specs",
    ),
    "a key twice in a spec": (
        lambda n: n.put("etc/cdi/a.json", '{"kind": "a.b/cd", "kind": "a.b/cd"}'),
        CdiSpecInvalid,
        NodeLayer.CDI,
        "is refused by container runtimes",
    ),
    "kubelet is not there": (
        lambda n: n.remove(f"{PLUGINS}/kubelet.sock"),
        KubeletSocketMissing,
        NodeLayer.KUBELET,
        "is missing",
    ),
    "kubelet has ended": (
        lambda n: dead_socket(n, "kubelet.sock"),
        KubeletSocketDead,
        NodeLayer.KUBELET,
        "no program listens on kubelet's",
    ),
    "a plugin has ended": (
        lambda n: dead_socket(n, "nvidia-gpu.sock"),
        PluginSocketDead,
        NodeLayer.KUBELET,
        "no program listens on 1 plugin socket",
    ),
    "no pod resources": (
        lambda n: n.remove("var/lib/kubelet/pod-resources/kubelet.sock"),
        PodResourcesMissing,
        NodeLayer.KUBELET,
        "pod resources",
    ),
    "the agent does not run": (
        SickNode.stop_agent,
        AgentNotRunning,
        NodeLayer.PLUGIN,
        "no device plugin runs",
    ),
    "no heartbeat of an agent that runs": (
        lambda n: n.seen_by_cluster(heartbeat_age=timedelta(minutes=12)),
        AgentSilent,
        NodeLayer.PLUGIN,
        "agent silent for 12m (since 2026-05-01T12:00:00Z)",
    ),
    "nothing registered": (
        lambda n: (
            n.remove(f"{PLUGINS}/nvidia-gpu.sock"),
            n.remove(f"{PLUGINS}/kubelet_internal_checkpoint"),
        ),
        DeviceUnregistered,
        NodeLayer.PLUGIN,
        "has registered nothing",
    ),
    "another driver for claims": (
        lambda n: n.seen_by_cluster(
            claims={"driver": "gpu.nvidia.com", "reason": "another driver gpu.nvidia.com", "devices": []}
        ),
        ClaimsNotServed,
        NodeLayer.PLUGIN,
        "claims are not served: another driver gpu.nvidia.com",
    ),
    "no socket of the driver for claims": (
        lambda n: (
            n.put(f"{DRIVERS}/README", "of kubelet"),
            n.seen_by_cluster(claims={"driver": "gpu.nvidia.com", "devices": [ONE]}),
        ),
        ClaimsNotServed,
        NodeLayer.PLUGIN,
        "no socket of gpu.nvidia.com",
    ),
    "a socket of the driver for claims on which nobody answers": (
        claimed_by_a_dead_socket,
        ClaimsNotServed,
        NodeLayer.PLUGIN,
        "nobody answers on /var/lib/kubelet/plugins_registry/gpu.nvidia.com-1f-reg.sock",
    ),
    "MIG devices that cannot be made beside a GPU that claims can have": (
        lambda n: n.seen_by_cluster(claims={"driver": "gpu.nvidia.com", "devices": [ONE, UNMADE]}),
        DevicesNotAllocatable,
        NodeLayer.PLUGIN,
        "gpu.nvidia.com: 2 are there, 1 can be claimed",
    ),
    "a driver for claims has ended": (
        lambda n: dead_socket(n, "gpu.nvidia.com-1f-reg.sock", DRIVERS),
        PluginSocketDead,
        NodeLayer.KUBELET,
        "no program listens on 1 driver socket",
    ),
    "a GPU that no claim can have": (
        lambda n: n.seen_by_cluster(claims={"driver": "gpu.nvidia.com", "devices": [ONE, ILL]}),
        DevicesNotAllocatable,
        NodeLayer.PLUGIN,
        "gpu.nvidia.com: 2 are there, 1 can be claimed",
    ),
    "damaged state": (
        lambda n: n.put("var/lib/tonnage/allocations", "tonnage-checkpoint v1 x"),
        AgentStateDamaged,
        NodeLayer.PLUGIN,
        "/var/lib/tonnage/allocations",
    ),
    "two plugins": (
        lambda n: n.process(60, ["/usr/bin/nvidia-device-plugin"]),
        TwoPlugins,
        NodeLayer.PLUGIN,
        "nvidia-device-plugin, tonnage",
    ),
    "a refused configuration": (
        lambda n: n.seen_by_cluster(
            conditions=[{"type": "GPUConfigApplied", "status": "False", "message": "no key x\nwhy: gone"}]
        ),
        GpuConfigRefused,
        NodeLayer.PLUGIN,
        "no key x",
    ),
    "a label that drifted": (
        lambda n: n.seen_by_cluster(labels={"nvidia.com/gpu.product": "Tesla-V100"}),
        LabelDrifted,
        NodeLayer.LABELS,
        "nvidia.com/gpu.product=Tesla-V100, it is Tesla-T4",
    ),
    "another product's label where another plugin shares the GPUs": (
        lambda n: (
            n.stop_agent(),
            n.remove("var/lib/tonnage/device-plugin-config"),
            n.process(60, ["/usr/bin/nvidia-device-plugin"]),
            n.seen_by_cluster(labels={"nvidia.com/gpu.product": "Tesla-V100-SHARED"}),
        ),
        LabelDrifted,
        NodeLayer.LABELS,
        "nvidia.com/gpu.product=Tesla-V100-SHARED, it is Tesla-T4",
    ),
    "a label of what is gone": (
        lambda n: n.seen_by_cluster(
            labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig-1g.5gb.count": "7"}
        ),
        LabelDrifted,
        NodeLayer.LABELS,
        "nvidia.com/mig-1g.5gb.count=7, which the node does not have",
    ),
    "a GPU that was not given": (
        lambda n: n.container(77, [0, 1], {"NVIDIA_VISIBLE_DEVICES": "all"}, UUIDS[:1]),
        ContainerWithForeignGpu,
        NodeLayer.WORKLOAD,
        "ml/train (main) has 1 GPU that it was not given: /dev/nvidia1",
    ),
    "given nothing, has all": (
        lambda n: n.container(77, [0, 1], {"NVIDIA_VISIBLE_DEVICES": "all"}),
        ContainerWithForeignGpu,
        NodeLayer.WORKLOAD,
        "has 2 GPUs that it was not given",
    ),
    "given, and not there": (
        lambda n: n.container(77, [], {}, UUIDS[:1]),
        ContainerWithoutGpu,
        NodeLayer.WORKLOAD,
        "was given /dev/nvidia0, but does not have it",
    ),
    "an index that is another node's": (
        lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": "3"}, UUIDS[:1]),
        CudaVisibleDevicesMismatch,
        NodeLayer.WORKLOAD,
        "sets CUDA_VISIBLE_DEVICES=3, but has 1 GPU",
    ),
    "a uuid of another GPU": (
        lambda n: n.container(77, [0], {"CUDA_VISIBLE_DEVICES": UUIDS[1]}, UUIDS[:1]),
        CudaVisibleDevicesMismatch,
        NodeLayer.WORKLOAD,
        "CUDA_VISIBLE_DEVICES",
    ),
    "asked for another by variable": (
        lambda n: n.container(77, [0], {"NVIDIA_VISIBLE_DEVICES": UUIDS[1]}, UUIDS[:1]),
        VisibleDevicesMismatch,
        NodeLayer.WORKLOAD,
        f"asks the runtime for {UUIDS[1]}",
    ),
}


@pytest.mark.sampled("sick nodes", share="1/3")
@pytest.mark.parametrize("name", FOUND_ABOVE)
async def test_it_is_found_above_the_driver_with_reason_place_and_remedy(node: SickNode, name: str) -> None:
    await assert_found(node, *FOUND_ABOVE[name])


def test_every_code_is_found_by_some_test() -> None:
    files = [file for file in Path(__file__).parents[2].rglob("test_doctor_*.py") if file != Path(__file__)]
    text = "\n".join(file.read_text() for file in files) + repr(FOUND_ABOVE)
    text += (Path(__file__).parents[2] / "adapters/node_facts/test_node_facts.py").read_text()
    by_its_word = [NvidiaRuntimeDefault]  # tests/cli/doctor/test_doctor.py
    assert [cls for cls in node_reasons() if cls.__name__ not in text] == by_its_word
