"""A node's folder as a healthy node has it, which a test makes sick: kernel, driver, runtime, kubelet, agent.

Device nodes are files that say their numbers, since not everybody may make nodes: `numbers_in` reads them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tonnage.adapters.node_facts import gather, plugin, runtime_version
from tonnage.adapters.node_facts.cluster import cluster_facts
from tonnage.adapters.node_facts.gather import Looking, NodeLook
from tonnage.model.devices.inventory import Device, GpuProcess, Inventory
from tonnage.model.json import JsonObject
from tonnage.model.node.facts import ClusterFacts, DriverAnswer, NodeFacts

KERNEL: Final = "6.8.0-51-generic"
VERSION: Final = "580.105.08"
PLUGINS: Final = "var/lib/kubelet/device-plugins"
LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
UUIDS: Final = ("GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-bbbbbbbb-0000-4000-8000-000000000001")
POD: Final = "11111111-2222-4333-8444-555555555555"
CONTAINER: Final = "c" * 64
CONTAINERD: Final = """\
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""
PATIENCE_S: Final = 60.0
CDI_AGENT: Final = "version: v1\nflags: {plugin: {deviceListStrategy: [cdi-cri]}}\n"


class SickNode:
    """A healthy node with two GPUs, a driver of the host, containerd 2.1 with CDI, and Tonnage's agent.

    What makes it sick returns it, for the next thing.
    """

    def __init__(self, root: Path, ends: ExitStack) -> None:
        """`root` must be short: sockets lie in it. `ends` closes what is open."""
        self.root = root
        self._ends = ends
        for module, name in ((plugin, "_WAIT_S"), (runtime_version, "_WAIT_S")):
            ends.enter_context(patch.object(module, name, PATIENCE_S))
        # A busy machine is no node that hangs: neither for those who look through the command line.
        ends.enter_context(patch.object(gather, "Looking", partial(Looking, deadline_s=PATIENCE_S)))
        self.cluster: ClusterFacts | None = None
        self.inventory: Inventory | None = inventory_of(*UUIDS)
        self.answer: DriverAnswer | None = None
        """What the driver says in the place of `inventory`."""
        self.used_mib: Mapping[str, int] = {}
        self.processes: tuple[GpuProcess, ...] = ()
        self._kernel()
        self._driver()
        self._runtime()
        self._kubelet()
        self._agent()

    def put(self, path: str, content: str | bytes = "") -> Path:
        """A file with that content, in the place of another."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            file.unlink()
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def remove(self, path: str) -> SickNode:
        (self.root / path).unlink()
        return self

    def link(self, path: str, target: str) -> SickNode:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.symlink_to(target)
        return self

    def gpu(self, number: int, driver: str = "nvidia") -> SickNode:
        """A GPU on the bus; without a driver nobody has it."""
        address = address_of(number)
        folder = f"sys/bus/pci/devices/{address}"
        for name, text in (("vendor", "0x10de"), ("device", "0x1eb8"), ("class", "0x030200")):
            self.put(f"{folder}/{name}", f"{text}\n")
        self.put(f"{folder}/config", b"\xde\x10" * 128)
        (self.root / folder / "driver").unlink(missing_ok=True)
        if driver:
            self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")
        return self

    def kernel(self, release: str, *, headers: bool, module: bool) -> SickNode:
        """An installed kernel."""
        lines = ["kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst: kernel/drivers/gpu/drm/drm.ko.zst"]
        lines += ["updates/dkms/nvidia.ko.zst:"] if module else []
        self.put(f"lib/modules/{release}/modules.dep", "\n".join(lines) + "\n")
        if headers:
            self.link(f"lib/modules/{release}/build", f"/usr/src/linux-headers-{release}")
            self.put(f"usr/src/linux-headers-{release}/Makefile")
        return self

    def unload(self) -> SickNode:
        """NVIDIA's module is not in the kernel; its GPUs have no driver."""
        for name in ("nvidia", "nvidia_uvm"):
            (self.root / "sys/module" / name).rmdir()
        self.remove("proc/driver/nvidia/version")
        for number in range(len(UUIDS)):
            self.gpu(number, driver="")
        self.inventory = None
        return self

    def node(self, path: str, major: int, minor: int) -> SickNode:
        """A device node."""
        self.put(path, f"c {major} {minor}")
        return self

    def libraries(self, version: str, root: str = "") -> SickNode:
        """The driver's libraries of that version in the place of others."""
        for name in ("libnvidia-ml.so", "libcuda.so"):
            self.put(f"{root}{LIBRARIES}/{name}.{version}")
            self.link(f"{root}{LIBRARIES}/{name}.1", f"{name}.{version}")
        return self

    def listen(self, path: str) -> socket.socket:
        """A socket with somebody behind it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        listening = self._ends.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(file))
        listening.listen(8)
        return listening

    def process(self, pid: int, words: Sequence[str], **files: str) -> SickNode:
        """A process; `files` are texts of others of its files in /proc."""
        self.put(f"proc/{pid}/cmdline", "\0".join(words) + "\0")
        for name, text in files.items():
            self.put(f"proc/{pid}/{name}", text)
        self.link(f"proc/{pid}/ns/mnt", f"mnt:[{4026531840 + (pid != 1)}]")
        self.link(f"proc/{pid}/ns/net", "net:[4026531840]")
        return self

    def container(
        self, pid: int, minors: Sequence[int], env: Mapping[str, str], uuids: Sequence[str] = ()
    ) -> SickNode:
        """A container of pod ml/train with these GPUs in its /dev; `uuids` are those that kubelet gave it."""
        text = "\0".join(f"{name}={value}" for name, value in env.items())
        folder = f"kubepods-besteffort-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope"
        cgroup = f"0::/kubepods.slice/kubepods-besteffort.slice/{folder}\n"
        status = "Name:\tpython\nCapEff:\t00000000a80425fb\n"
        self.process(pid, ["python3", "train.py"], environ=text + "\0", cgroup=cgroup, status=status)
        self.put(f"proc/{pid}/root/dev/null")
        for minor in minors:
            self.put(f"proc/{pid}/root/dev/nvidia{minor}")
        self.put(f"var/log/pods/ml_train_{POD}/main/0.log")
        self.put(f"var/log/containers/train_ml_main-{CONTAINER}.log")
        self.checkpoint(held=[("nvidia.com/gpu", POD, "main", list(uuids))])
        return self

    def checkpoint(self, held: Sequence[tuple[str, str, str, list[str]]] = ()) -> SickNode:
        """kubelet's own file: who has what, and that two GPUs are registered."""
        entries = [
            {
                "PodUID": uid,
                "ContainerName": name,
                "ResourceName": resource,
                "DeviceIDs": {"-1": ids},
                "AllocResp": "",
            }
            for resource, uid, name, ids in held
        ]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {"nvidia.com/gpu": list(UUIDS)}}
        self.put(f"{PLUGINS}/kubelet_internal_checkpoint", json.dumps({"Data": data, "Checksum": 1}))
        return self

    def configure(self, text: str) -> SickNode:
        """What the agent ran last."""
        payload = json.dumps(
            {"text": text, "source": "tonnage-system/device-plugin-config[default]", "key": "default"}
        )
        head = f"tonnage-checkpoint v1 {hashlib.sha256(payload.encode()).hexdigest()}\n"
        self.put("var/lib/tonnage/device-plugin-config", head + payload)
        return self

    def spec(
        self, version: str = VERSION, path: str = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
    ) -> SickNode:
        """The agent's CDI spec, of that driver."""
        library = f"/{LIBRARIES}/libcuda.so.{version}"
        mount = {"hostPath": library, "containerPath": library, "options": ["ro"]}
        devices = [
            {"name": uuid, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{minor}"}]}}
            for minor, uuid in enumerate(UUIDS)
        ]
        edits = {"deviceNodes": [{"path": "/dev/nvidiactl"}], "mounts": [mount]}
        kind = "k8s.device-plugin.nvidia.com/gpu"
        document = {"cdiVersion": "0.5.0", "kind": kind, "devices": devices, "containerEdits": edits}
        self.put(path, json.dumps(document))
        return self

    def seen_by_cluster(
        self, *pods: Mapping[str, Any], heartbeat_age: timedelta | None = None, **status: Any
    ) -> SickNode:
        """The API server knows the node, with these pods; `status` and `labels` are its Node's."""
        labels, claims = status.pop("labels", {}), status.pop("claims", None)
        report: JsonObject = {
            "kind": "NodeGPUStatus",
            "metadata": {"name": "node"},
            "status": {"heartbeatAt": "2026-05-01T12:00:00Z"} if heartbeat_age is not None else {},
        }
        report["status"] |= {"claims": claims} if claims is not None else {}  # type: ignore[operator]
        now = datetime(2026, 5, 1, 12, tzinfo=UTC) + (heartbeat_age or timedelta())
        node: JsonObject = {"kind": "Node", "metadata": {"name": "node", "labels": labels}, "status": status}
        self.cluster = cluster_facts(
            [node, report, {"kind": "PodList", "items": [dict(pod) for pod in pods]}], "node", now
        )
        return self

    async def facts(self) -> NodeFacts:
        """What doctor sees, with the driver's answer as the test has it."""
        silence: Callable[[str], None] = lambda _: None  # noqa: E731
        looking = Looking(self.root, "node", "none", deadline_s=PATIENCE_S, numbers=numbers_in(self.root))
        found = await NodeLook(looking, self._cluster, silence).facts()
        if self.answer is not None:
            return replace(found, answer=self.answer)
        if self.inventory is None:
            return found
        owners = {77: CONTAINER} if self.processes else {}
        answer = DriverAnswer(self.inventory, used_mib=self.used_mib, processes=self.processes)
        return replace(
            found, answer=answer, workload=found.workload and replace(found.workload, owners=owners)
        )

    async def _cluster(self) -> ClusterFacts | None:
        return self.cluster

    def _kernel(self) -> None:
        self.put("proc/sys/kernel/osrelease", f"{KERNEL}\n")
        self.put("proc/sys/kernel/tainted", "4097\n")
        self.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n")
        self.put("etc/os-release", "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04\n")
        self.put("etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau\noptions nouveau modeset=0\n")
        self.kernel(KERNEL, headers=True, module=True)
        self.process(1, ["/sbin/init"])
        for number in range(len(UUIDS)):
            self.gpu(number)

    def _driver(self) -> None:
        for name in ("nvidia", "nvidia_uvm"):
            (self.root / "sys/module" / name).mkdir(parents=True)
        line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build\n"
        self.put("proc/driver/nvidia/version", line)
        self.put(
            "proc/devices",
            "Character devices:\n  1 mem\n195 nvidia\n505 nvidia-uvm\n\nBlock devices:\n  8 sd\n",
        )
        for number in range(len(UUIDS)):
            place = f"proc/driver/nvidia/gpus/{address_of(number)}/information"
            self.put(place, f"Model: \t\t Tesla T4\nDevice Minor: \t {number}\n")
            self.node(f"dev/nvidia{number}", 195, number)
        self.node("dev/nvidiactl", 195, 255)
        self.node("dev/nvidia-uvm", 505, 0)
        self.libraries(VERSION)
        names = ("libnvidia-ml.so.1", "libcuda.so.1")
        self.put("etc/ld.so.cache", loader_cache({name: f"/{LIBRARIES}/{name}" for name in names}))

    def _runtime(self) -> None:
        self.put("etc/containerd/config.toml", CONTAINERD)
        package = (
            "Package: containerd\nStatus: install ok installed\nPriority: optional\nVersion: 2.1.4-1\n\n"
        )
        self.put(
            "var/lib/dpkg/status", f"Package: adduser\nStatus: install ok installed\nVersion: 3\n\n{package}"
        )
        self.spec()

    def _kubelet(self) -> None:
        self.listen(f"{PLUGINS}/kubelet.sock")
        os.utime(self.root / PLUGINS / "kubelet.sock", (1e9, 1e9))
        self.listen("var/lib/kubelet/pod-resources/kubelet.sock").close()
        self.checkpoint()

    def _agent(self) -> None:
        self.listen(f"{PLUGINS}/nvidia-gpu.sock")
        self.configure(CDI_AGENT)
        lock = self.put("var/lib/tonnage/agent.lock").open("rb")
        self._ends.enter_context(lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._lock = lock
        mounts = f"36 35 98:0 /a /{PLUGINS} rw,noatime master:1 - ext4 /dev/sda1 rw\n"
        self.process(42, ["python3", "/usr/bin/tonnage", "node"], mountinfo=mounts)

    def silent(self) -> SickNode:
        """The driver is not asked."""
        self.inventory = None
        return self

    def stop_agent(self) -> SickNode:
        """It ends and removes its sockets."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.remove("proc/42/cmdline")
        self.remove(f"{PLUGINS}/nvidia-gpu.sock")
        return self


def address_of(number: int) -> str:
    """Of a GPU on the bus."""
    return f"0000:{0x17 + number:02x}:00.0"


def inventory_of(*uuids: str, capability: str = "7.5", cuda: str = "13.0") -> Inventory:
    """What the driver says when all is well."""
    devices = tuple(
        Device(uuid, number, "Tesla T4", 15360, capability, f"0000{address_of(number)}", minor=number)
        for number, uuid in enumerate(uuids)
    )
    return Inventory(devices, VERSION, cuda)


def numbers_in(root: Path) -> Callable[[os.stat_result], tuple[int, int] | None]:
    """Numbers out of files like `c 195 0`, told apart by what tells files apart."""
    found: dict[tuple[int, int], tuple[int, int]] = {}

    def numbers(status: os.stat_result) -> tuple[int, int] | None:
        if not found:
            for file in (root / "dev").rglob("*"):
                words = file.read_text().split() if file.is_file() else []
                if len(words) == 3 and words[0] == "c":
                    seen = file.stat()
                    found[seen.st_dev, seen.st_ino] = int(words[1]), int(words[2])
        return found.get((status.st_dev, status.st_ino))

    return numbers


def loader_cache(paths: Mapping[str, str]) -> bytes:
    """A cache of the dynamic loader with these libraries, as ldconfig writes it."""
    head = 48 + 24 * len(paths)
    texts, entries = b"", b""
    for name, path in paths.items():
        key, value = head + len(texts), head + len(texts) + len(name) + 1
        texts += name.encode() + b"\0" + path.encode() + b"\0"
        entries += struct.pack("=iIIIQ", 0x0303, key, value, 0, 0)
    return (
        struct.pack("=20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(paths), len(texts), 2, 0) + entries + texts
    )
