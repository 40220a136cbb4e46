"""How long a node under load takes, after each fault, to offer all its devices again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from support import bad_days
from support.bad_days import Scene
from support.genuine_cluster import genuine_cluster
from support.images import busybox_archive
from support.leftovers import own_folder

_FAULTS: Final[Mapping[str, Callable[[Scene], float]]] = {
    "agent killed": bad_days.agent_killed,
    "agent replaced by the next": bad_days.agent_upgraded,
    "kubelet restarted": bad_days.kubelet_restarted,
    "kubelet's checkpoint deleted": bad_days.checkpoint_deleted,
    "containerd killed": bad_days.containerd_killed,
    "node rebooted": bad_days.node_rebooted,
    "API server killed": bad_days.api_server_killed,
    "API server gone for 20 s, the agent killed meanwhile": lambda scene: bad_days.api_server_gone(scene, 20),
    "etcd compacted while the watches were cut": bad_days.past_forgotten,
}


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds from when all parts run again; all faults on one cluster, in the same order each round."""
    figures: dict[str, list[float]] = {f"re-advertised, {fault}, s": [] for fault in _FAULTS}
    with own_folder() as folder:
        busybox_archive(folder)
        with (
            genuine_cluster(folder, images=[folder / "busybox.tar"]) as cluster,
            bad_days.scene_on(cluster, folder) as scene,
        ):
            for _ in range(rounds):
                for fault, values in zip(_FAULTS.values(), figures.values(), strict=True):
                    values.append(fault(scene))
                    scene.all_is_well()
    return figures
