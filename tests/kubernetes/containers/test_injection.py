"""What a container gets with its GPUs, seen from inside: real kubelet, real containerd, real runc, CDI specs
that the agent wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from support.container_view import DENIED, FOLDER, LIBRARY, NO_DRIVER, Seen, look, start
from support.driver_root import LIBRARIES
from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.installed_agent import CONTROL, MAJOR, InstalledAgent, gpu_pod, installed_agent
from support.nvml.library import SONAME

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

SPEC: Final = "run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


def strategy(*names: str, **flags: object) -> str:
    """A configuration with these device-list strategies."""
    return json.dumps({"version": "v1", "flags": {"plugin": {"deviceListStrategy": list(names), **flags}}})


@pytest.fixture(scope="module")
def agent(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """With two GPUs, and leave to write CDI specs."""
    with installed_agent(cluster, agent_version, values={"cdi": {"enabled": True}}) as agent:
        yield agent
        spec_of(cluster).unlink(missing_ok=True)


def spec_of(cluster: GenuineCluster) -> Path:
    """The agent's spec; the node's /run is seen by its own processes alone."""
    return Path(f"/proc/{cluster.node.pid('kubelet')}/root", SPEC)


def own_of(agent: InstalledAgent, seen: Seen) -> int:
    """Which GPU the container has, by its node."""
    (own,) = (slot for slot in range(len(agent.uuids)) if f"/dev/nvidia{slot}" in seen.nodes)
    return own


def test_by_default_a_container_is_told_its_gpu_and_given_nothing(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    start(cluster, gpu_pod("one"), gpu_pod("other"), gpu_pod("none", 0))
    one, other, none = (look(cluster, name) for name in ("one", "other", "none"))
    assert {one.visible, other.visible} == set(agent.uuids)
    assert (none.visible, none.nodes) == ("", {})
    assert (one.nodes, set(one.opened.values())) == ({}, {DENIED}), "the NVIDIA runtime would add them"


def test_devices_are_told_by_index_on_request(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    assert agent.configure(strategy("envvar", deviceIDStrategy="index")) == ""
    start(cluster, gpu_pod("both", 2))
    assert sorted(look(cluster, "both").visible.split(",")) == ["0", "1"]


def test_volume_mounts_name_the_gpu_by_a_file(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    assert agent.configure(strategy("volume-mounts")) == ""
    start(cluster, gpu_pod("one"), gpu_pod("other"))
    one, other = look(cluster, "one"), look(cluster, "other")
    assert one.visible == other.visible == FOLDER
    assert {*one.nodes, *other.nodes} == {f"{FOLDER}/{uuid}" for uuid in agent.uuids}
    assert [*one.nodes.values()] == [(1, 3)], "the node of /dev/null, which nobody can make by an environment"


def test_device_specs_give_each_container_just_its_own_gpu(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(strategy("envvar", passDeviceSpecs=True)) == ""
    start(cluster, gpu_pod("one"), gpu_pod("other"), gpu_pod("none", 0))
    common = {f"/dev/{name}": number for name, number in CONTROL.items()}
    one, other, none = (look(cluster, name) for name in ("one", "other", "none"))
    for seen in (one, other):
        own = agent.uuids.index(seen.visible)
        assert seen.nodes == {f"/dev/nvidia{own}": (MAJOR, own), **common}
        assert seen.opened == {own: NO_DRIVER, 1 - own: DENIED}
    assert one.visible != other.visible
    assert (none.nodes, set(none.opened.values())) == ({}, {DENIED})


@pytest.mark.parametrize(
    "names", [["cdi-cri"], ["cdi-annotations"], ["cdi-cri", "cdi-annotations", "envvar"], ["auto"]]
)
def test_cdi_gives_each_container_just_its_own_gpu(  # RUN-4
    names: Sequence[str], cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(strategy(*names)) == ""
    start(cluster, gpu_pod("one"), gpu_pod("other"), gpu_pod("none", 0))
    library = f"{(agent.driver.root / LIBRARIES / SONAME).stat().st_size} {LIBRARY}"
    given = set()
    for pod in ("one", "other"):
        seen = look(cluster, pod)
        own = own_of(agent, seen)
        given.add(own)
        common = {f"/dev/{name}": number for name, number in CONTROL.items()}
        assert seen.nodes == {f"/dev/nvidia{own}": (MAJOR, own), **common}
        assert seen.opened == {own: NO_DRIVER, 1 - own: DENIED}
        assert (seen.environment["LD_LIBRARY_PATH"], seen.library) == (f"/{LIBRARIES}", library)
        assert seen.visible == "void", "NVIDIA's runtime has nothing to add"
        assert "Read-only file system" in cluster.kubectl(
            "exec", pod, "--", "sh", "-c", f"(: >>{LIBRARY}) 2>&1 || :"
        )
    assert given == {0, 1}
    none = look(cluster, "none")
    assert (none.nodes, set(none.opened.values())) == ({}, {DENIED})


def test_the_containers_of_a_pod_have_each_their_own(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """The first container may have what the init container had, which is over then."""
    assert agent.configure(strategy("cdi-cri", "envvar")) == ""
    pod = gpu_pod("many", 1, 1, 0)
    first = {**pod["spec"]["containers"][0], "name": "first", "command": ["sh", "-c", "ls /dev/nvidia?"]}
    pod["spec"]["initContainers"] = [first]
    start(cluster, pod)
    one, other, none = (look(cluster, "many", name) for name in ("main", "main-1", "main-2"))
    assert {own_of(agent, seen) for seen in (one, other)} == {0, 1}
    assert (none.visible, none.nodes) == ("", {})
    assert f"/dev/nvidia{own_of(agent, one)}\n" in cluster.kubectl("logs", "many", "-c", "first")


def test_a_container_gets_all_gpus_that_it_asks_for(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    assert agent.configure(strategy("cdi-annotations")) == ""
    start(cluster, gpu_pod("both", 2))
    seen = look(cluster, "both")
    assert set(seen.nodes) == {"/dev/nvidia0", "/dev/nvidia1", *(f"/dev/{name}" for name in CONTROL)}
    assert seen.opened == {0: NO_DRIVER, 1: NO_DRIVER}
    cluster.apply(gpu_pod("late"))
    until(lambda: "Insufficient nvidia.com/gpu" in cluster.kubectl("describe", "pod", "late"))


def test_a_spec_that_was_removed_is_there_again_before_its_gpu_is_named(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """RUN-1 cannot happen: no answer points at nothing. The driver's upgrade is in the spec unasked, too."""
    assert agent.configure(strategy("cdi-cri")) == ""
    spec = spec_of(cluster)
    until(spec.exists)
    spec.unlink()
    start(cluster, gpu_pod("early", 2))
    assert len(look(cluster, "early").nodes) == 2 + len(CONTROL)
    before, version = agent.driver.state, "999.1.1"
    agent.driver.upgrade(version)
    try:
        until(lambda: f"{SONAME.removesuffix('1')}{version}" in spec.read_text())
    finally:
        agent.driver.upgrade(before.driver_version)
    until(lambda: version not in spec.read_text())


def test_a_node_that_is_gone_costs_its_own_gpu_alone(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """A device that no spec can have is refused at admission, with the reason; the other one works."""
    assert agent.configure(strategy("cdi-cri")) == ""
    until(spec_of(cluster).exists)
    gone = [folder / "nvidia1" for folder in (cluster.node.root.at("/dev"), agent.driver.root / "dev")]
    hidden = [node.rename(node.with_name("hidden1")) for node in gone]
    try:
        until(lambda: agent.uuids[1] not in spec_of(cluster).read_text())
        cluster.apply(gpu_pod("both", 2))
        until(lambda: "/dev/nvidia1 is missing" in str(cluster.get("pod", "both")["status"].get("message")))
    finally:
        for node in hidden:
            node.rename(node.with_name("nvidia1"))
    until(lambda: agent.uuids[1] in spec_of(cluster).read_text())


def test_what_cannot_be_honoured_is_refused_and_changes_nothing(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(strategy("volume-mounts")) == ""
    flags = {"deviceDiscoveryStrategy": "tegra", "plugin": {"deviceListStrategy": "cdi-cri"}}
    refused = agent.configure(json.dumps({"version": "v1", "flags": flags}))
    assert "Tonnage finds no devices by tegra" in refused
    start(cluster, gpu_pod("one"))
    assert look(cluster, "one").visible == FOLDER
