"""Processes of the node that matter here: device plugins, and those of containers that may use GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.kubelet import KUBELET, PLUGINS
from tonnage.model.node.facts import GpuContainer, PluginProcess

_MOST: Final = 65_536
_MOST_CONTAINERS: Final = 2000
_VARIABLES: Final = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION"),
        *("NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE", "ENABLE_NRI_PLUGIN"),
    }
)
_LONGEST_VALUE: Final = 4096
_CGROUP: Final = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}).*?([0-9a-f]{64})", re.IGNORECASE
)
_GPU_NODE: Final = re.compile(r"nvidia(\d{1,4})")
_SYS_ADMIN: Final = 1 << 21
_TOOLKIT: Final = ("nvidia-toolkit", "nvidia-ctk-installer")


def process_ids(files: NodeFiles) -> list[int]:
    """Of all processes, the oldest numbers first."""
    return sorted(int(name) for name in files.names("/proc") if name.isdecimal())[:_MOST]


def command_line(files: NodeFiles, pid: int) -> list[str]:
    """A process's words."""
    return files.read(f"/proc/{pid}/cmdline", 128 << 10).text.rstrip("\0").split("\0")


def plugin_processes(files: NodeFiles, pids: list[int]) -> Iterator[tuple[PluginProcess, list[str]]]:
    """Device plugins with their words: Tonnage's agents of this root, and NVIDIA's."""
    for pid in pids:
        words = command_line(files, pid)
        name = plugin_name(words)
        if name:
            yield PluginProcess(pid, name, _sees_kubelet(files, pid)), words


def plugin_name(words: list[str]) -> str:
    """`tonnage`, `nvidia-device-plugin`, or nothing.

    >>> plugin_name(["python3", "-m", "tonnage", "node", "--labels=direct"])
    'tonnage'
    """
    names = [word.rpartition("/")[2] for word in words[:8]]
    if names[0] == "nvidia-device-plugin":
        return names[0]
    for name, following in pairwise(names):
        if name in ("tonnage", "kubectl-gpu") and following == "node":
            return "tonnage" if option(words, "--root") in ("", "/") else ""
    return ""


def option(words: list[str], name: str) -> str:
    """An option's value; empty if it is not given.

    >>> option(["a", "--root", "/x"], "--root"), option(["a", "--root=/y"], "--root")
    ('/x', '/y')
    """
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def _sees_kubelet(files: NodeFiles, pid: int) -> bool | None:
    own, first = (files.link(f"/proc/{process_id}/ns/mnt") for process_id in (pid, 1))
    if own and own == first:
        return True
    mounts = files.read(f"/proc/{pid}/mountinfo", 1 << 20)
    if not mounts.content:
        return None
    points = {line.split(" ", 5)[4] for line in mounts.text.splitlines() if line.count(" ") > 5}
    return not points.isdisjoint({PLUGINS, KUBELET})


def wants_nri(files: NodeFiles, pids: list[int]) -> Iterator[str]:
    """NVIDIA's toolkit where it is told to be an NRI plugin."""
    for pid in pids:
        words = command_line(files, pid)
        if words[0].rpartition("/")[2] in _TOOLKIT:
            variables = _environment(files, pid) or {}
            if variables.get("ENABLE_NRI_PLUGIN", "").lower() == "true":
                yield f"ENABLE_NRI_PLUGIN of process {pid} ({words[0][:100]})"


def gpu_containers(files: NodeFiles, pids: list[int]) -> tuple[GpuContainer, ...]:
    """The first process of each container of a pod, with what it has of GPUs."""
    pods, names = dict(_pod_names(files)), dict(_container_names(files))
    containers: dict[str, GpuContainer] = {}
    for pid in pids:
        match = _CGROUP.search(files.read(f"/proc/{pid}/cgroup", 65536).text)
        if match is None or match[2] in containers or len(containers) >= _MOST_CONTAINERS:
            continue
        uid = match[1].replace("_", "-").lower()
        namespace, pod = pods.get(uid, ("", ""))
        containers[match[2]] = GpuContainer(
            pid,
            uid,
            match[2],
            namespace,
            pod,
            names.get(match[2], ""),
            _environment(files, pid),
            _minors(files, pid),
            _privileged(files, pid),
        )
    return tuple(containers.values())


def containers_of(files: NodeFiles, pids: Iterable[int]) -> dict[int, str]:
    """Ids of the containers that those processes are in; of those that are in none, nothing."""
    matches = {pid: _CGROUP.search(files.read(f"/proc/{pid}/cgroup", 65536).text) for pid in pids}
    return {pid: match[2] for pid, match in matches.items() if match is not None}


def _environment(files: NodeFiles, pid: int) -> Mapping[str, str] | None:
    """Those variables that matter: others may be secrets."""
    content = files.read(f"/proc/{pid}/environ", 1 << 20)
    if content.content is None:
        return None
    pairs = (entry.partition("=") for entry in content.text.split("\0"))
    return {name: value[:_LONGEST_VALUE] for name, _, value in pairs if name in _VARIABLES}


def _minors(files: NodeFiles, pid: int) -> frozenset[int] | None:
    """GPUs whose nodes the process sees. Its root is a link that only the kernel can follow."""
    folder = files.root / "proc" / str(pid) / "root/dev"
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST)]
    except OSError:
        return None
    return frozenset(int(match[1]) for name in names if (match := _GPU_NODE.fullmatch(name)))


def _privileged(files: NodeFiles, pid: int) -> bool:
    for line in files.text(f"/proc/{pid}/status", 65536).splitlines():
        if line.startswith("CapEff:"):
            with suppress(ValueError):
                return bool(int(line.partition(":")[2].strip(), 16) & _SYS_ADMIN)
    return False


def _pod_names(files: NodeFiles) -> Iterator[tuple[str, tuple[str, str]]]:
    """(namespace, name) by uid, out of the names of folders with logs."""
    for name in files.names("/var/log/pods"):
        parts = name.split("_")
        if len(parts) == 3:
            yield parts[2].lower(), (parts[0], parts[1])


def _container_names(files: NodeFiles) -> Iterator[tuple[str, str]]:
    """Names by id, out of the names of log files: `<pod>_<namespace>_<container>-<id>.log`."""
    for name in files.names("/var/log/containers"):
        head, _, identity = name.removesuffix(".log").rpartition("-")
        parts = head.split("_")
        if len(parts) == 3:
            yield identity, parts[2]
