"""What a container of a genuine node finds inside, and pods that are started to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from support.driver_root import LIBRARIES
from support.genuine_cluster import GenuineCluster
from support.installed_agent import MAJOR
from support.nvml.library import SONAME

FOLDER: Final = "/var/run/nvidia-container-devices"
LIBRARY: Final = f"/{LIBRARIES}/{SONAME}"
NO_DRIVER: Final = "No such device or address"
DENIED: Final = "Operation not permitted"
_LOOK: Final = f"""
env
for node in /dev/nvidia* /dev/nvidia-caps/* {FOLDER}/*; do
    [ -e $node ] && ! [ -d $node ] && stat -c 'node %n %t %T' $node
done
for minor in $(seq 0 $1); do
    mknod /tmp/$minor c {MAJOR} $minor
    cat /tmp/$minor 2>&1 | sed "s/.*: /open $minor /"
done
wc -c {LIBRARY} 2>&1 | sed 's/^/library /'
(: >> {LIBRARY}) 2>&1 | sed 's/.*: /write /'
nvidia-smi -L 2>/dev/null | sed 's/.*UUID: \\(.*\\))/uuid \\1/'
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """From inside a container: device nodes as (major, minor), what opening a GPU by its number is told, the
    size and name of the driver's library, what writing to it is told, and what the driver's program lists."""

    environment: Mapping[str, str]
    nodes: Mapping[str, tuple[int, int]]
    opened: Mapping[int, str]
    library: str
    written: str
    uuids: frozenset[str]

    @property
    def visible(self) -> str:
        return self.environment.get("NVIDIA_VISIBLE_DEVICES", "")


def look(cluster: GenuineCluster, pod: str, container: str = "main", *, gpus: int = 2) -> Seen:
    """Into a container that runs, on a node with so many GPUs."""
    lines = cluster.inside(pod, "sh", "-c", _LOOK, "sh", f"{gpus - 1}", container=container).splitlines()
    nodes, opened, environment, uuids, library, written = {}, {}, {}, set(), "", ""
    for line in lines:
        match line.split(" "):
            case ["node", path, major, minor]:
                nodes[path] = (int(major, 16), int(minor, 16))
            case ["open", minor, *words]:
                opened[int(minor)] = " ".join(words)
            case ["uuid", uuid]:
                uuids.add(uuid)
            case ["library", *words]:
                library = " ".join(words)
            case ["write", *words]:
                written = " ".join(words)
            case _:
                name, _, value = line.partition("=")
                environment[name] = value
    return Seen(environment, nodes, opened, library, written, frozenset(uuids))


def start(cluster: GenuineCluster, *pods: Mapping[str, Any]) -> None:
    """Apply pods and wait until each runs. AssertionError with what is known of the one that does not."""
    cluster.apply(*pods)
    for pod in pods:
        name = f"pod/{pod['metadata']['name']}"
        waited = cluster.kubectl("wait", name, "--for=condition=Ready", "--timeout=180s", check=False)
        assert waited, cluster.kubectl("describe", name, check=False)
