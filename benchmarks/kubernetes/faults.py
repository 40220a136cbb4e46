"""How long a node under load takes, after each fault, to offer all its devices again."""

from __future__ import annotations

from support import bad_days
from support.genuine_cluster import genuine_cluster
from support.images import busybox_archive
from support.leftovers import own_folder


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds from when all parts run again; all faults on one cluster, in the same order each round."""
    figures: dict[str, list[float]] = {f"re-advertised, {fault}, s": [] for fault in bad_days.FAULTS}
    with own_folder() as folder:
        busybox_archive(folder)
        with (
            genuine_cluster(folder, images=[folder / "busybox.tar"]) as cluster,
            bad_days.scene_on(cluster, folder) as scene,
        ):
            for _ in range(rounds):
                for fault, values in zip(bad_days.FAULTS.values(), figures.values(), strict=True):
                    values.append(fault(scene))
                    scene.all_is_well()
    return figures
