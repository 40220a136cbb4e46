"""Cases of the source documents: each is found in a node's folder, and what only looks like it is not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.node_faults import (
    all_allocatable,
    alone,
    another_patch_level,
    app_1,
    app_2,
    app_2_code,
    cdi_alone,
    drv_1,
    drv_1_before,
    drv_2,
    drv_4,
    drv_5,
    drv_5_owner,
    evicted,
    fabric_complete,
    fabric_not_set_up,
    former_name,
    handler_in_a_drop_in,
    host_process,
    kub_1,
    kub_1_inside,
    kub_2,
    kub_2_driver,
    kub_4,
    kub_5,
    kubelet_just_started,
    much_room,
    next_kernel_with_headers,
    nouveau_loaded_for_nothing,
    nri_on_but_not_asked_for,
    nri_where_it_works,
    older_kernel_kept,
    operator_uses_the_hosts,
    passed_through,
    precompiled,
    run_2,
    run_3,
    run_3_crio,
    same_major_version,
    whole_kubelet_mounted,
)
from support.sick_node import (
    UUIDS,
    VERSION,
    SickNode,
)
from tonnage.diagnose.doctor.containers.workload import judge_workload
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import DoctorReport, NodeFinding
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import (
    ClusterFacts,
    DriverAnswer,
    GpuContainer,
    KubeletFacts,
    NodeFacts,
    PluginFacts,
    WorkloadFacts,
)
from tonnage.model.reasons.messages.node_symptoms import DeviceUnregistered, ImageNeedsNewerDriver
from tonnage.model.reasons.node.driver import (
    FabricNotReady,
    GpuNotDriven,
    KernelHeadersMissing,
    NextKernelWithoutDriver,
    NouveauBound,
    TwoDrivers,
)
from tonnage.model.reasons.node.kubelet_files import KubeletSocketNotMounted
from tonnage.model.reasons.node.plugin import DevicesNotAllocatable, PodRefusedByPlugin
from tonnage.model.reasons.node.runtime import NoInjectionPath, NriUnsupported, OperatorVersionsMixed
from tonnage.model.reasons.node.workload import GpuMemoryCrowded, ImageWithoutCodeForGpu
from tonnage.model.reasons.reason import NodeReason
from tonnage.model.severity import Severity

Sicken = Callable[[SickNode], None]


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


async def report_of(node: SickNode) -> DoctorReport:
    return examine(await node.facts())


def found(report: DoctorReport, code: type[NodeReason]) -> NodeFinding:
    return next(finding for finding in report.findings if isinstance(finding.reason, code))


def codes(report: DoctorReport) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity is not Severity.NOTE}


async def test_a_healthy_node_has_no_finding_and_every_layer_of_it_is_judged(node: SickNode) -> None:
    node.seen_by_cluster(capacity={"nvidia.com/gpu": "2"}, allocatable={"nvidia.com/gpu": "2"})
    node.container(77, [0], {"NVIDIA_VISIBLE_DEVICES": "void"}, UUIDS[:1])
    report = await report_of(node)
    assert report.findings == ()
    assert [layer.layer for layer in report.layers if layer.because] == [NodeLayer.LABELS]
    assert report.healthy


CASES: dict[str, tuple[Sicken, type[NodeReason], NodeLayer, str, str]] = {
    "KUB-1 plugin": (
        kub_1,
        KubeletSocketNotMounted,
        NodeLayer.KUBELET,
        "hostPath mount",
        "mountPath: /var/lib/kubelet/device-plugins",
    ),
    "KUB-1 inside": (
        kub_1_inside,
        KubeletSocketNotMounted,
        NodeLayer.KUBELET,
        "/var/lib/kubelet/device-plugins",
        "hostPath: {path: /var/lib/kubelet/device-plugins}",
    ),
    "KUB-2 allocatable": (
        kub_2,
        DevicesNotAllocatable,
        NodeLayer.PLUGIN,
        "4 are there, 3 allocatable",
        "GPUsHealthy",
    ),
    "KUB-2 driver": (
        kub_2_driver,
        GpuNotDriven,
        NodeLayer.DRIVER,
        "2 GPUs are on the bus, the driver shows 1",
        "dmesg",
    ),
    "a board with NVSwitches": (
        fabric_not_set_up,
        FabricNotReady,
        NodeLayer.DRIVER,
        "the NVLink fabric is not set up for GPUs 0, 1: in progress",
        "systemctl status nvidia-fabricmanager",
    ),
    "KUB-4": (
        kub_4,
        PodRefusedByPlugin,
        NodeLayer.PLUGIN,
        "maximum request size for shared resources is 1; found 2",
        "ask for 1",
    ),
    "KUB-5": (
        kub_5,
        DeviceUnregistered,
        NodeLayer.PLUGIN,
        "not registered with the kubelet that runs: nvidia.com/gpu",
        "kubectl delete pod -n tonnage-system -l app.kubernetes.io/name=tonnage-agent",
    ),
    "RUN-2": (
        run_2,
        NoInjectionPath,
        NodeLayer.RUNTIME,
        "containers get no GPU",
        "install nvidia-container-toolkit && tonnage runtime apply --nvidia-runtime --restart",
    ),
    "RUN-3 containerd": (
        run_3,
        NriUnsupported,
        NodeLayer.RUNTIME,
        "containerd 1.7.24",
        "nriPluginEnabled=false",
    ),
    "RUN-3 CRI-O": (
        run_3_crio,
        NriUnsupported,
        NodeLayer.RUNTIME,
        "cri-o 1.31.5",
        "nriPluginEnabled=false",
    ),
    "DRV-1 after": (
        drv_1,
        KernelHeadersMissing,
        NodeLayer.DRIVER,
        "6.8.0-60-generic",
        "apt-get install linux-headers-6.8.0-60-generic",
    ),
    "DRV-1 before": (
        drv_1_before,
        NextKernelWithoutDriver,
        NodeLayer.DRIVER,
        "after a reboot into kernel 6.8.0-60-generic",
        "apt-get install linux-headers-6.8.0-60-generic",
    ),
    "DRV-2": (
        drv_2,
        NouveauBound,
        NodeLayer.DRIVER,
        "nouveau is bound to 1 of 2 GPUs",
        "blacklist nouveau",
    ),
    "DRV-4": (
        drv_4,
        OperatorVersionsMixed,
        NodeLayer.RUNTIME,
        "container toolkit 1.17.8 with GPU operator 25.10.1, released with 1.18.1",
        "1.18.1",
    ),
    "DRV-5 two": (
        drv_5,
        TwoDrivers,
        NodeLayer.DRIVER,
        f"{VERSION} on the host, 595.91.07 in /run/nvidia/driver",
        "driver.enabled=false",
    ),
    "DRV-5 owner": (
        drv_5_owner,
        TwoDrivers,
        NodeLayer.DRIVER,
        "relies on the container's driver",
        "nvidia-operator-validator",
    ),
    "APP-1": (
        app_1,
        GpuMemoryCrowded,
        NodeLayer.WORKLOAD,
        "2 containers use 15000 of 15360 MiB",
        "memory limits (MPS)",
    ),
    "APP-2 driver": (
        app_2,
        ImageNeedsNewerDriver,
        NodeLayer.WORKLOAD,
        "built with CUDA 13.0; driver",
        "CUDA 12.x",
    ),
    "APP-2 code": (
        app_2_code,
        ImageWithoutCodeForGpu,
        NodeLayer.WORKLOAD,
        "no code for its GPU",
        "an image whose CUDA knows the GPU",
    ),
}


@pytest.mark.sampled("sick nodes", share="1/3")
@pytest.mark.parametrize("case", CASES)
async def test_a_case_is_found_named_and_comes_with_its_remedy(node: SickNode, case: str) -> None:
    sicken, code, layer, words, remedy = CASES[case]
    sicken(node)
    report = await report_of(node)
    finding = found(report, code)
    reason = finding.reason
    assert (reason.node_layer, words in reason.message, remedy in reason.remedy) == (layer, True, True), (
        finding
    )
    assert report.first is not None
    assert report.first.layer is layer


async def test_app_1_names_the_neighbours_and_what_each_has_of_the_memory(node: SickNode) -> None:
    app_1(node)
    finding = found(await report_of(node), GpuMemoryCrowded)
    assert finding.why.endswith("whichever has most: ml/train (main) 9000 MiB, process 78 6000 MiB")


def test_kub_2_of_a_shared_resource_devices_and_replicas_are_told_apart() -> None:
    gpu, labels = (
        "nvidia.com/gpu",
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"},
    )
    cluster = ClusterFacts(labels, {gpu: 8}, {gpu: 4})
    facts = NodeFacts(node="a", cluster=cluster, plugin=PluginFacts(running=True))
    (finding,) = (
        finding
        for finding in examine(facts, [NodeLayer.PLUGIN]).findings
        if isinstance(finding.reason, DevicesNotAllocatable)
    )
    assert finding.reason.message == f"{gpu}: 8 replicas of 2 GPUs are there, 4 allocatable"
    assert finding.why.startswith("4 replicas of the plugin's list unhealthy")


def test_what_is_registered_is_told_in_replicas_of_gpus_by_the_node_s_labels() -> None:
    gpu, labels = (
        "nvidia.com/gpu",
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"},
    )
    kubelet = KubeletFacts(registered={gpu: 8})
    summaries = []
    for own in (labels, {}):
        cluster = ClusterFacts(own, {gpu: 8}, {gpu: 8})
        facts = NodeFacts(node="a", cluster=cluster, kubelet=kubelet, plugin=PluginFacts(running=True))
        [layer] = examine(facts, [NodeLayer.PLUGIN]).layers
        summaries.append(layer.summary)
    assert summaries == [f"agent runs, {gpu}: 8 replicas of 2 GPUs", f"agent runs, {gpu}: 8"]


def test_a_gpu_that_kubelet_lists_by_a_claim_is_the_containers() -> None:
    devices = tuple(Device(f"GPU-{minor}", minor, "T4", 15360, minor=minor) for minor in range(2))
    container = GpuContainer(7, "u", "c" * 64, "ml", "train", "main", {}, frozenset({0, 1}))
    holds = (Hold("ml/one", ("gpu-0",), "ml", "train", "main", kind=HoldKind.CLAIM),)
    judgement = judge_workload(WorkloadFacts((container,), holds), DriverAnswer(Inventory(devices)))
    assert judgement.summary == "1 container with GPUs"
    [foreign] = judgement.findings
    assert foreign.reason.message == "ml/train (main) has 1 GPU that it was not given: /dev/nvidia1"


NEAR_MISSES: dict[str, tuple[Sicken, type[NodeReason]]] = {
    "KUB-1: the plugin is a process of the host": (host_process, KubeletSocketNotMounted),
    "KUB-1: all of kubelet's folder is mounted": (whole_kubelet_mounted, KubeletSocketNotMounted),
    "KUB-2: all are allocatable": (all_allocatable, DevicesNotAllocatable),
    "KUB-2: a former name lingers": (former_name, DevicesNotAllocatable),
    "KUB-2: a virtual machine has one": (passed_through, GpuNotDriven),
    "a board with NVSwitches: they are set up": (fabric_complete, FabricNotReady),
    "KUB-4: refused for another reason": (evicted, PodRefusedByPlugin),
    "KUB-5: kubelet has just started": (kubelet_just_started, DeviceUnregistered),
    "RUN-2: CDI needs no toolkit": (cdi_alone, NoInjectionPath),
    "RUN-2: the handler is in a drop-in": (handler_in_a_drop_in, NoInjectionPath),
    "RUN-3: nobody asks for it": (nri_on_but_not_asked_for, NriUnsupported),
    "RUN-3: it works there": (nri_where_it_works, NriUnsupported),
    "DRV-1: precompiled": (precompiled, KernelHeadersMissing),
    "DRV-1: precompiled for the next": (precompiled, NextKernelWithoutDriver),
    "DRV-1: the next one has headers": (next_kernel_with_headers, NextKernelWithoutDriver),
    "DRV-1: an older kernel is kept": (older_kernel_kept, NextKernelWithoutDriver),
    "DRV-2: loaded, and bound to nothing": (nouveau_loaded_for_nothing, NouveauBound),
    "DRV-4: another patch level": (another_patch_level, OperatorVersionsMixed),
    "DRV-5: the operator uses the host's": (operator_uses_the_hosts, TwoDrivers),
    "APP-1: there is room": (much_room, GpuMemoryCrowded),
    "APP-1: alone on its GPU": (alone, GpuMemoryCrowded),
    "APP-2: the same major version": (same_major_version, ImageNeedsNewerDriver),
}  # fmt: skip


@pytest.mark.sampled("sick nodes", share="1/3")
@pytest.mark.parametrize("case", NEAR_MISSES)
async def test_what_only_looks_like_a_case_is_none(node: SickNode, case: str) -> None:
    sicken, code = NEAR_MISSES[case]
    sicken(node)
    report = await report_of(node)
    assert not any(isinstance(finding.reason, code) for finding in report.findings)
    assert not any(finding.severity is Severity.ERROR for finding in report.findings), report.findings


def test_every_case_of_the_task_has_one() -> None:
    wanted = [*(f"KUB-{n}" for n in (1, 2, 4, 5)), "RUN-2", "RUN-3", *(f"DRV-{n}" for n in (1, 2, 4, 5))]
    wanted += ["APP-1", "APP-2"]
    assert [case for case in wanted if not any(name.startswith(case) for name in CASES)] == []
    assert [case for case in wanted if not any(name.startswith(case) for name in NEAR_MISSES)] == []
