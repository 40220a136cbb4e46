"""The file system of a genuine node: the host's programs, read-only; everything that is written, its own."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.images import BUSYBOX
from support.own_network import NODE_ADDRESS, POD_RANGE

PROGRAMS: Final = Path("/opt/node/bin")
BOOT_ID: Final = "/run/boot_id"
"""A file of the node's own, new at each boot; its processes see it where the kernel has the machine's."""
CONTAINERD_SOCKET: Final = Path("/run/containerd/containerd.sock")
_FOLDERS: Final = """
    dev/pts dev/shm dev/mqueue etc/cdi etc/cni/net.d etc/kubernetes etc/sysctl host mnt opt/node/bin proc root
    run sys tmp var/lib/kubelet var/lib/tonnage var/log var/tmp
"""
_DEVICES: Final = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
                   "kmsg": (1, 11), "tty": (5, 0), "fuse": (10, 229)}  # fmt: skip
_LINKS: Final = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
}
_SYSCTLS: Final[Mapping[str, str]] = {
    "vm.overcommit_memory": "1",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
"""What a kubelet sets for the whole machine; files of the node's own stand over the kernel's."""
_BOOT: Final = """\
set -eu
cd "$1"
mount --bind . .
cd "$1"
for name in usr bin sbin lib lib64; do
    if [ -d "$name" ] && ! [ -L "$name" ]; then mount --bind -o ro "/$name" "$name"; fi
done
mount --rbind /sys sys
mount -t proc proc proc
for name in etc/sysctl/*; do
    file=proc/sys/$(basename "$name" | tr . /)
    if [ -e "$file" ]; then mount --bind "$name" "$file"; fi
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
mount -t tmpfs -o mode=0755 tmpfs run
ln -s /run var/run 2>/dev/null || :
cat proc/sys/kernel/random/uuid > run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id
pivot_root . host
umount -l /host
mount --make-rshared /
hostname "$2"
: > /run/booted
while :; do sleep 3600 & wait $! || :; done
"""
"""Runs as the first process of the node's own process, mount, UTS and IPC namespaces."""
_KUBELET: Final = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": "/etc/kubernetes/ca.pem"}},
    "authorization": {
        "mode": "AlwaysAllow"
    },  # the only holders of a certificate are the API server and tests
    "tlsCertFile": "/etc/kubernetes/kubelet.pem",
    "tlsPrivateKeyFile": "/etc/kubernetes/kubelet.key",
    "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
    "imageGCHighThresholdPercent": 100,
    "clusterDNS": ["10.96.0.10"],
    "clusterDomain": "cluster.local",
    "resolvConf": "",
    "syncFrequency": "5s",
    "nodeStatusUpdateFrequency": "2s",
    "shutdownGracePeriod": "0s",
    "registerNode": True,
}
_CONTAINERD: Final = f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{PROGRAMS}"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{PROGRAMS}/runc"
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{BUSYBOX}"
"""
_CNI: Final = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "dataDir": "/var/lib/cni",
                "ranges": [[{"subnet": POD_RANGE}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}


@dataclass(frozen=True, slots=True)
class NodeRoot:
    """A folder that becomes the node's `/`. What lies in it is what the node sees, `/run` excepted."""

    path: Path

    def at(self, path: str | Path) -> Path:
        """Where the host finds a path of the node."""
        return self.path / str(path).lstrip("/")

    @property
    def boot(self) -> str:
        """The shell script that makes it so; its arguments are the folder and the node's name."""
        return _BOOT


def make_node_root(
    path: Path, *, programs: Mapping[str, Path], secrets: Mapping[str, bytes], cgroup: str
) -> NodeRoot:
    """Lay out the folder. `secrets` are the files of /etc/kubernetes, `cgroup` the parent of all pods."""
    root = NodeRoot(path)
    for name in _FOLDERS.split():
        root.at(name).mkdir(parents=True, exist_ok=True)
    for name in ("usr", "bin", "sbin", "lib", "lib64"):
        host = Path("/", name)
        if host.is_symlink():
            root.at(name).symlink_to(host.readlink())
        elif host.is_dir():
            root.at(name).mkdir()
    for name, number in _DEVICES.items():
        os.mknod(root.at("dev") / name, stat.S_IFCHR | 0o666, os.makedev(*number))
        root.at("dev").joinpath(name).chmod(0o666)
    for name, target in _LINKS.items():
        root.at("dev").joinpath(name).symlink_to(target)
    for name in ("passwd", "group", "os-release"):
        shutil.copyfile(f"/etc/{name}", root.at("etc") / name)
    for name, value in _SYSCTLS.items():
        root.at("etc/sysctl").joinpath(name).write_text(f"{value}\n")
    root.at("etc/hosts").write_text("127.0.0.1 localhost\n")
    root.at("tmp").chmod(0o1777)
    for name, content in secrets.items():
        root.at("etc/kubernetes").joinpath(name).write_bytes(content)
    root.at("etc/kubernetes/kubelet.json").write_text(json.dumps({**_KUBELET, "cgroupRoot": f"/{cgroup}"}))
    root.at("etc/containerd.toml").write_text(_CONTAINERD)
    root.at("etc/cni/net.d/10-pods.conflist").write_text(json.dumps(_CNI))
    for name, file in programs.items():  # no bind mounts: runc reads itself through an overlay of its folder
        shutil.copyfile(file, root.at(PROGRAMS / name))
        root.at(PROGRAMS / name).chmod(0o755)
    return root


def kubelet_flags(name: str) -> list[str]:
    """What the configuration file cannot say."""
    return [
        "--config=/etc/kubernetes/kubelet.json",
        "--kubeconfig=/etc/kubernetes/kubeconfig",
        f"--hostname-override={name}",
        f"--node-ip={NODE_ADDRESS}",
        "--node-labels=nvidia.com/gpu.present=true",
        "--v=2",
    ]
