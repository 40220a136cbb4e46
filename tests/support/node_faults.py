"""Faults of the field, each as what makes a healthy node have it; and what only looks like one."""

from __future__ import annotations

import shutil
from dataclasses import replace

from support.sick_node import (
    PLUGINS,
    POD,
    UUIDS,
    SickNode,
    inventory_of,
)
from tonnage.model.devices.inventory import GpuProcess


def kub_1(node: SickNode) -> None:
    """The agent's container has no mount of kubelet's folder."""
    node.put(
        "proc/42/mountinfo", "1 0 0:30 / / rw - overlay overlay rw\n2 1 0:5 / /dev rw - tmpfs tmpfs rw\n"
    )
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")


def kub_1_inside(node: SickNode) -> None:
    """Doctor itself runs in such a pod."""
    node.put("var/run/secrets/kubernetes.io/serviceaccount/token", "x")
    node.remove(f"{PLUGINS}/kubelet.sock")


def host_process(node: SickNode) -> None:
    """A plugin that is no container needs no mount."""
    node.put("proc/42/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    node.link("proc/42/ns/mnt", "mnt:[4026531840]")


def whole_kubelet_mounted(node: SickNode) -> None:
    node.put("proc/42/mountinfo", "9 1 8:1 /var/lib/kubelet /var/lib/kubelet rw - ext4 /dev/sda1 rw\n")


def kub_2(node: SickNode) -> None:
    """One of four GPUs fails after registration."""
    node.seen_by_cluster(capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "3"})


def all_allocatable(node: SickNode) -> None:
    node.seen_by_cluster(capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "4"})


def former_name(node: SickNode) -> None:
    """kubelet goes on naming a resource that was renamed."""
    node.seen_by_cluster(
        capacity={"nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "8"},
        allocatable={"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"},
    )


def kub_2_driver(node: SickNode) -> None:
    """The driver gave up one of those on the bus."""
    node.inventory = inventory_of(UUIDS[0])


def fabric_not_set_up(node: SickNode) -> None:
    """The board's NVSwitches wait for Fabric Manager."""
    _fabric(node, "in progress")


def fabric_complete(node: SickNode) -> None:
    """Fabric Manager has set them up."""
    _fabric(node, "completed")


def _fabric(node: SickNode, state: str) -> None:
    assert node.inventory is not None
    devices = tuple(replace(device, fabric=state) for device in node.inventory.devices)
    node.inventory = replace(node.inventory, devices=devices)


def passed_through(node: SickNode) -> None:
    """One GPU is a virtual machine's, on purpose."""
    node.gpu(1, driver="vfio-pci")
    node.inventory = inventory_of(UUIDS[0])


REFUSED = (
    "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for"
    ' "nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 2,'
    " which is unexpected"
)


def pod(reason: str, message: str) -> dict[str, object]:
    return {
        "metadata": {"name": "notebook", "namespace": "ml", "uid": POD},
        "spec": {"nodeName": "node", "containers": [{"image": "busybox"}]},
        "status": {"phase": "Failed", "reason": reason, "message": message},
    }


def kub_4(node: SickNode) -> None:
    """Two shared replicas where one is the limit."""
    node.seen_by_cluster(pod("UnexpectedAdmissionError", REFUSED))


def evicted(node: SickNode) -> None:
    node.seen_by_cluster(pod("Evicted", "The node was low on resource: ephemeral-storage."))


def kub_5(node: SickNode) -> None:
    """kubelet was restarted, which removed the plugin's socket, and the plugin has not come back."""
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")


def kubelet_just_started(node: SickNode) -> None:
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")
    node.listen(f"{PLUGINS}/kubelet.sock")


HANDLER = """\
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
"""


def run_2(node: SickNode) -> None:
    """No toolkit and no CDI: containers start, nvidia-smi is not found."""
    node.configure("version: v1\n")
    node.remove("var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json")


def cdi_alone(node: SickNode) -> None:
    """No toolkit either, but CDI does all of it."""
    node.configure("version: v1\n")


def handler_in_a_drop_in(node: SickNode) -> None:
    run_2(node)
    node.put("etc/containerd/conf.d/99-nvidia.toml", f"version = 3\n{HANDLER}")
    node.put("usr/bin/nvidia-container-runtime", "#!")


def old_containerd(node: SickNode, version: str = "1.7.24~ds1-6") -> None:
    text = f"Package: containerd\nStatus: install ok installed\nVersion: {version}\n"
    node.put("var/lib/dpkg/status", text)
    cri = '[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = true\n'
    node.put("etc/containerd/config.toml", f"version = 2\n{cri}")


def run_3(node: SickNode) -> None:
    """NRI asked for on an old containerd."""
    old_containerd(node)
    node.process(50, ["/usr/bin/nvidia-toolkit"], environ="ENABLE_NRI_PLUGIN=true\0CDI_ENABLED=true\0")


def run_3_crio(node: SickNode) -> None:
    node.remove("etc/containerd/config.toml")
    node.put("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
    node.put("var/lib/dpkg/status", "Package: cri-o\nStatus: install ok installed\nVersion: 1.31.5-1.1\n")
    node.put("opt/nri/plugins/10-nvidia-toolkit", "#!")


def nri_on_but_not_asked_for(node: SickNode) -> None:
    old_containerd(node)
    node.process(50, ["/usr/bin/nvidia-toolkit"], environ="ENABLE_NRI_PLUGIN=false\0")


def nri_where_it_works(node: SickNode) -> None:
    node.process(50, ["/usr/bin/nvidia-toolkit"], environ="ENABLE_NRI_PLUGIN=true\0")


def drv_1(node: SickNode) -> None:
    """The system was patched: another kernel runs, without headers and without the module."""
    node.unload()
    node.put("proc/sys/kernel/osrelease", "6.8.0-60-generic\n")
    node.kernel("6.8.0-60-generic", headers=False, module=False)


def drv_1_before(node: SickNode) -> None:
    """The same before the reboot."""
    node.kernel("6.8.0-60-generic", headers=False, module=False)


def precompiled(node: SickNode) -> None:
    """A module that came ready-made needs no headers."""
    shutil.rmtree(node.root / "usr/src")
    node.kernel("6.8.0-60-generic", headers=False, module=True)


def next_kernel_with_headers(node: SickNode) -> None:
    node.kernel("6.8.0-60-generic", headers=True, module=False)


def older_kernel_kept(node: SickNode) -> None:
    node.kernel("6.8.0-9-generic", headers=False, module=False)


def drv_2(node: SickNode) -> None:
    """nouveau has a GPU."""
    node.unload()
    node.gpu(0, driver="nouveau")
    node.put("etc/modprobe.d/blacklist-nouveau.conf", "# blacklist nouveau\n")


def nouveau_loaded_for_nothing(node: SickNode) -> None:
    (node.root / "sys/module/nouveau").mkdir()
    node.remove("etc/modprobe.d/blacklist-nouveau.conf")


def operand(name: str, image: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "spec": {"nodeName": "node", "containers": [{"image": image}]},
        "status": {"phase": "Running"},
    }


def drv_4(node: SickNode, toolkit: str = "v1.17.8") -> None:
    """A toolkit that the operator's release does not come with."""
    node.seen_by_cluster(
        operand("validator", "nvcr.io/nvidia/gpu-operator:v25.10.1"),
        operand("toolkit", f"nvcr.io/nvidia/k8s/container-toolkit:{toolkit}"),
        operand("plugin", "registry.example.com:5000/k8s-device-plugin:v0.18.1@sha256:00"),
    )


def another_patch_level(node: SickNode) -> None:
    drv_4(node, "v1.18.0")


def drv_5(node: SickNode) -> None:
    """A driver of the host, and one that a container installed."""
    node.libraries("595.91.07", "run/nvidia/driver/")


def operator_uses_the_hosts(node: SickNode) -> None:
    node.put("run/nvidia/validations/driver-ready", "IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\n")
    node.link("run/nvidia/driver", "/")


def drv_5_owner(node: SickNode) -> None:
    """The operator waits for its own driver, and the host has one."""
    node.put(
        "run/nvidia/validations/driver-ready", "IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
    )


def app_1(node: SickNode, used_mib: int = 15000, sharers: int = 2) -> None:
    """Memory is full, and two pods share the GPU."""
    node.container(77, [0], {})
    pods = [POD, "99999999-2222-4333-8444-555555555555"][:sharers]
    held = [("nvidia.com/gpu", uid, "main", [f"{UUIDS[0]}::{number}"]) for number, uid in enumerate(pods)]
    node.checkpoint(held)
    node.used_mib = {UUIDS[0]: used_mib}
    node.processes = (
        GpuProcess(UUIDS[0], 78, 6000),
        GpuProcess(UUIDS[0], 77, 9000),
        GpuProcess(UUIDS[1], 79, 1),
    )


def much_room(node: SickNode) -> None:
    app_1(node, used_mib=9000)


def alone(node: SickNode) -> None:
    app_1(node, sharers=1)


def app_2(node: SickNode, cuda: str = "13.0.1") -> None:
    """The image's CUDA is newer than the driver's."""
    node.inventory = inventory_of(*UUIDS, cuda="12.4")
    node.container(77, [0], {"CUDA_VERSION": cuda}, UUIDS[:1])


def same_major_version(node: SickNode) -> None:
    app_2(node, "12.8.0")


def app_2_code(node: SickNode) -> None:
    """The image's CUDA is older than the GPU."""
    node.inventory = inventory_of(*UUIDS, capability="10.0")
    node.container(77, [0], {"CUDA_VERSION": "12.4.1"}, UUIDS[:1])
