"""What a container gets with its GPUs, seen from inside: real kubelet, real containerd, real runc.

CDI specs are the test's, as long as the agent writes none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from support.driver_root import LIBRARIES
from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.installed_agent import CONTROL, DRIVER_ROOT, GPU, MAJOR, InstalledAgent, gpu_pod
from support.nvml.library import SONAME
from tonnage.model.names import CDI_GPU_KIND

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

FOLDER: Final = "/var/run/nvidia-container-devices"
LIBRARY: Final = f"/usr/lib/{SONAME}"
NO_DRIVER: Final = "No such device or address"
DENIED: Final = "Operation not permitted"
_LOOK: Final = f"""
env
for node in /dev/nvidia* {FOLDER}/*; do [ -e $node ] && stat -c 'node %n %t %T' $node; done
for minor in 0 1; do
    mknod /tmp/$minor c {MAJOR} $minor
    cat /tmp/$minor 2>&1 | sed "s/.*: /open $minor /"
done
wc -c {LIBRARY} 2>&1 | sed 's/^/library /'
(: >> {LIBRARY}) 2>&1 | sed 's/.*: /write /'
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """From inside a container: device nodes as (major, minor), what opening a GPU by its number is told, the
    size and name of the driver's library, and what writing to it is told."""

    environment: Mapping[str, str]
    nodes: Mapping[str, tuple[int, int]]
    opened: Mapping[int, str]
    library: str
    written: str

    @property
    def visible(self) -> str:
        return self.environment.get("NVIDIA_VISIBLE_DEVICES", "")


def look(cluster: GenuineCluster, pod: str, container: str = "main") -> Seen:
    """Into a container that runs."""
    lines = cluster.inside(pod, "sh", "-c", _LOOK, container=container).splitlines()
    nodes, opened, environment, library, written = {}, {}, {}, "", ""
    for line in lines:
        match line.split(" "):
            case ["node", path, major, minor]:
                nodes[path] = (int(major, 16), int(minor, 16))
            case ["open", minor, *words]:
                opened[int(minor)] = " ".join(words)
            case ["library", *words]:
                library = " ".join(words)
            case ["write", *words]:
                written = " ".join(words)
            case _:
                name, _, value = line.partition("=")
                environment[name] = value
    return Seen(environment, nodes, opened, library, written)


def strategy(*names: str, **flags: object) -> str:
    """A configuration with these device-list strategies."""
    return json.dumps({"version": "v1", "flags": {"plugin": {"deviceListStrategy": list(names), **flags}}})


def start(cluster: GenuineCluster, *pods: Mapping[str, Any]) -> None:
    """Apply pods and wait until each runs."""
    cluster.apply(*pods)
    for pod in pods:
        cluster.kubectl("wait", f"pod/{pod['metadata']['name']}", "--for=condition=Ready", "--timeout=60s")


def write_specs(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """Say to the runtime what a GPU is: its node, one for all, a variable and the driver's library.

    Written beside its final name: containerd overlooks a file that is moved here from another folder.
    """
    edits = {
        "deviceNodes": [{"path": "/dev/nvidiactl"}],
        "env": ["DRIVER=made"],
        "mounts": [
            {
                "hostPath": f"{DRIVER_ROOT}/{LIBRARIES}/{SONAME}",
                "containerPath": LIBRARY,
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        ],
    }
    devices = [
        {
            "name": gpu.identity,
            "containerEdits": {
                "deviceNodes": [{"path": f"/dev/nvidia{gpu.minor_number}"}],
                "env": [f"GPU_{gpu.slot}=given"],
            },
        }
        for gpu in agent.driver.state.gpus
    ]
    spec = {"cdiVersion": "0.5.0", "kind": CDI_GPU_KIND, "devices": devices, "containerEdits": edits}
    made = cluster.node.root.at("/etc/cdi/.gpu.json.new")
    made.write_text(json.dumps(spec))
    made.replace(made.with_name("gpu.json"))


@pytest.fixture
def specs(cluster: GenuineCluster, agent: InstalledAgent) -> Iterator[None]:
    """The runtime knows the GPUs; afterwards no more."""
    write_specs(cluster, agent)
    yield
    cluster.node.root.at("/etc/cdi/gpu.json").unlink()


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


@pytest.mark.usefixtures("specs")
@pytest.mark.parametrize(
    "names", [["cdi-cri"], ["cdi-annotations"], ["cdi-cri", "cdi-annotations", "envvar"]]
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
        (own,) = (slot for slot in (0, 1) if f"GPU_{slot}" in seen.environment)
        given.add(own)
        assert seen.nodes == {f"/dev/nvidia{own}": (MAJOR, own), "/dev/nvidiactl": (MAJOR, 255)}
        assert seen.opened == {own: NO_DRIVER, 1 - own: DENIED}
        assert (seen.environment["DRIVER"], seen.library) == ("made", library)
        assert seen.visible == (agent.uuids[own] if "envvar" in names else "")
        assert "Read-only file system" in cluster.kubectl(
            "exec", pod, "--", "sh", "-c", f"(: >>{LIBRARY}) 2>&1 || :"
        )
    assert given == {0, 1}
    none = look(cluster, "none")
    assert (none.nodes, set(none.opened.values())) == ({}, {DENIED})


@pytest.mark.usefixtures("specs")
def test_the_containers_of_a_pod_have_each_their_own(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """The first container may have what the init container had, which is over then."""
    assert agent.configure(strategy("cdi-cri", "envvar")) == ""
    pod = gpu_pod("many", 1, 1, 0)
    first = {**pod["spec"]["containers"][0], "name": "first", "command": ["env"]}
    pod["spec"]["initContainers"] = [first]
    start(cluster, pod)
    one, other, none = (look(cluster, "many", name) for name in ("main", "main-1", "main-2"))
    assert {one.visible, other.visible} == set(agent.uuids)
    assert {min(seen.nodes) for seen in (one, other)} == {"/dev/nvidia0", "/dev/nvidia1"}
    assert (none.visible, none.nodes) == ("", {})
    assert f"NVIDIA_VISIBLE_DEVICES={one.visible}\n" in cluster.kubectl("logs", "many", "-c", "first")


@pytest.mark.usefixtures("specs")
def test_a_container_gets_all_gpus_that_it_asks_for(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    assert agent.configure(strategy("cdi-annotations")) == ""
    start(cluster, gpu_pod("both", 2))
    seen = look(cluster, "both")
    assert set(seen.nodes) == {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"}
    assert seen.opened == {0: NO_DRIVER, 1: NO_DRIVER}
    cluster.apply(gpu_pod("late"))
    until(lambda: "Insufficient nvidia.com/gpu" in cluster.kubectl("describe", "pod", "late"))


def test_a_name_that_no_spec_has_stops_the_container(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """RUN-1. containerd's words; the container starts once the spec is there, without another pod."""
    assert agent.configure(strategy("cdi-cri")) == ""
    cluster.apply(gpu_pod("early", 2))

    def waiting() -> Any:
        statuses = cluster.get("pod", "early")["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("waiting", {})

    until(lambda: waiting().get("reason") == "CreateContainerError")
    message = str(waiting()["message"])
    text = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices "
    assert message.startswith(text)
    assert sorted(message.removeprefix(text).split(", ")) == sorted(
        f"{CDI_GPU_KIND}={uuid}" for uuid in agent.uuids
    )
    explained = json.loads(cluster.tonnage("explain", "pod", "early", "-o", "json").stdout)
    assert (explained["verdict"], explained["layer"]) == ("NOT_NOW", "runtime")
    assert message in explained["message"]
    write_specs(cluster, agent)
    try:
        cluster.kubectl("wait", "pod/early", "--for=condition=Ready", "--timeout=60s")
        assert len(look(cluster, "early").nodes) == 3
    finally:
        cluster.node.root.at("/etc/cdi/gpu.json").unlink()


def test_what_cannot_be_honoured_is_refused_and_changes_nothing(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(strategy("volume-mounts")) == ""
    mps = {"resources": [{"name": GPU, "replicas": 2}]}
    flags = {"mpsRoot": "/run/nvidia/mps", "plugin": {"deviceListStrategy": "cdi-cri"}}
    refused = agent.configure(json.dumps({"version": "v1", "flags": flags, "sharing": {"mps": mps}}))
    assert "MPS is not supported by this version of Tonnage" in refused
    start(cluster, gpu_pod("one"))
    assert look(cluster, "one").visible == FOLDER
