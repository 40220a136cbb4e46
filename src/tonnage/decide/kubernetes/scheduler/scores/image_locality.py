"""ImageLocality: nodes that already have the pod's images, weighed by size and by how widespread they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST, Feasible
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod

NAME: Final = "ImageLocality"
WEIGHT: Final = 1
_LEAST: Final = 23 * 1024 * 1024
_MOST_PER_CONTAINER: Final = 1000 * 1024 * 1024


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int]:
    """Between 23 MiB and 1000 MiB a container, in percent."""
    images = [full_name(c.image) for c in (*pod.init_containers, *pod.containers)]
    sizes, holders = _images(view, set(images))
    worth = {image: int(sizes[image] * (holders[image] / len(view.nodes))) for image in sizes}
    most = _MOST_PER_CONTAINER * max(1, len(images))
    raw = {
        name: sum(worth[image] for image in images if image in node.node.images)
        for name, node in feasible.items()
    }
    return {
        n: HIGHEST * (min(max(size, _LEAST), most) - _LEAST) // (most - _LEAST) for n, size in raw.items()
    }


def full_name(image: str) -> str:
    """An image name with its tag; without one it means `latest`.

    >>> full_name("repo:5000/train"), full_name("train:v1")
    ('repo:5000/train:latest', 'train:v1')
    """
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _images(view: ClusterView, images: set[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Size (as the first node by name reports it) and number of nodes, by image."""
    sizes: dict[str, int] = {}
    holders: dict[str, int] = {}
    for node in view.nodes.values():
        for image in images & node.node.images.keys():
            sizes.setdefault(image, node.node.images[image])
            holders[image] = holders.get(image, 0) + 1
    return sizes, holders
