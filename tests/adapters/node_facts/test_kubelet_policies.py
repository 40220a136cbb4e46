"""kubelet's policies as the agent finds them on a node, and files that somebody put there to hurt."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.model.node.software import UNKNOWN, KubeletPolicies
from tonnage.twin.kubelet.node_spec import KubeletNode

CONFIG = "/var/lib/kubelet/config.yaml"
CPU, MEMORY = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = f"{HEAD}topologyManagerPolicy: restricted\ncpuManagerPolicy: static\n"


def put(root: Path, path: str, text: str) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


async def test_a_node_that_shows_nothing_says_so(tmp_path: Path) -> None:
    found = await RuntimeFiles(tmp_path).policies()
    assert found == KubeletPolicies(
        reason=f"kubelet's configuration is not where the agent sees it: {CONFIG}"
    )


async def test_the_configuration_says_all_four(tmp_path: Path) -> None:
    put(tmp_path, CONFIG, STATIC)
    found = await RuntimeFiles(tmp_path).policies()
    assert found == KubeletPolicies("restricted", "container", "static", "None", (CONFIG,))


async def test_the_twins_nodes_have_one(tmp_path: Path) -> None:
    put(tmp_path, CONFIG, KubeletNode("a").kubelet_config)
    found = await RuntimeFiles(tmp_path).policies()
    assert (found.topology_manager, found.cpu_manager, found.reason) == ("none", "none", "")


async def test_what_managers_noted_is_what_runs(tmp_path: Path) -> None:
    put(tmp_path, CONFIG, STATIC)
    put(tmp_path, CPU, '{"policyName":"none"}')
    put(tmp_path, MEMORY, '{"policyName":"Static"}')
    found = await RuntimeFiles(tmp_path).policies()
    assert (found.cpu_manager, found.memory_manager) == ("none", "Static")
    assert found.sources == (CONFIG, CPU, MEMORY)
    assert f"cpuManagerPolicy is none, though {CONFIG} says static" in found.reason


async def test_managers_alone_say_what_they_can(tmp_path: Path) -> None:
    put(tmp_path, CPU, '{"policyName":"static"}')
    found = await RuntimeFiles(tmp_path).policies()
    assert (found.cpu_manager, found.topology_manager, found.memory_manager) == ("static", UNKNOWN, UNKNOWN)
    assert CONFIG in found.reason


async def test_where_the_drivers_root_is_the_hosts_the_hosts_file_counts(tmp_path: Path) -> None:
    put(tmp_path / "host", CONFIG, STATIC)
    files = RuntimeFiles(tmp_path / "pod", tmp_path / "host")
    assert (await files.policies()).topology_manager == "restricted"
    put(tmp_path / "pod", CONFIG, HEAD)
    assert (await files.policies()).topology_manager == "none"


def sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 30)


def loop(file: Path) -> None:
    file.symlink_to(file.name)


def leads_out(file: Path) -> None:
    secret = file.parents[4] / "outside.yaml"
    secret.write_text(STATIC)
    file.symlink_to(secret)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a gigabyte": (sparse, "it is larger than"),
    "a pipe that nobody writes to": (os.mkfifo, "it is not a regular file"),
    "a folder": (Path.mkdir, "it is not a regular file"),
    "a link to itself": (loop, "its links are broken"),
    "a link out of the node's root": (leads_out, "its links are broken"),
    "garbage": (lambda file: file.write_bytes(bytes(range(256)) * 64), ""),
    "nothing": (Path.touch, ""),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("path", [CONFIG, CPU, MEMORY])
async def test_a_file_that_hurts_costs_its_own_policies_alone(tmp_path: Path, case: str, path: str) -> None:
    make, why = HOSTILE[case]
    root = tmp_path / "node"
    for other, text in (
        (CONFIG, STATIC),
        (CPU, '{"policyName":"static"}'),
        (MEMORY, '{"policyName":"None"}'),
    ):
        put(root, other, text)
    file = root / path.lstrip("/")
    file.unlink()
    make(file)
    found = await RuntimeFiles(root).policies()
    assert path in found.reason
    assert why in found.reason
    assert path not in found.sources
    assert (found.cpu_manager, found.memory_manager) == ("static", "None")
    assert found.topology_manager == (UNKNOWN if path == CONFIG else "restricted")
    assert len(found.reason) < 1100
