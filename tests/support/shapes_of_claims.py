"""Shapes of manifests for a genuine node, and which GPUs each container really has by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from support.claim_manifests import alike, alternative, claim, claiming, request, template
from support.container_view import start
from support.genuine_claims import ClaimNode
from support.genuine_node import until

Held = Mapping[str, set[int]]
"""GPUs by `pod/container`."""
NUMA: Final = "resource.kubernetes.io/numaNode"
ROOT: Final = "resource.kubernetes.io/pcieRoot"
NEAR: Final = ({0, 1}, {2, 3})
"""Pairs near one NUMA node."""
BELOW_ONE_ROOT: Final = {2, 3}
LARGE: Final = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('100Gi')) >= 0"
"""No GPU here is so large."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Claims and templates, pods that use them, and what must be so of their GPUs."""

    objects: Sequence[Any]
    pods: Sequence[Any]
    is_right: Callable[[Held], bool]


def _each_one(held: Held) -> bool:
    """Every container has a GPU of its own."""
    return all(len(gpus) == 1 for gpus in held.values()) and len(set().union(*held.values())) == len(held)


SHAPES: Final[Mapping[str, Shape]] = {
    "a template, and a claim of its own for each of four pods": Shape(
        [template("one")], [claiming(pod, of="one") for pod in "abcd"], _each_one
    ),
    "one claim for the containers of two pods": Shape(
        [claim("shared", request(count=2))],
        [claiming("a", by="shared", containers=("", "")), claiming("b", by="shared")],
        lambda held: all(gpus == held["a/main"] for gpus in held.values()) and len(held["a/main"]) == 2,
    ),
    "a request of the claim for each container, and all of it for one": Shape(
        [template("two", request("x"), request("y", count=2))],
        [claiming("a", of="two", containers=("x", "y", ""))],
        lambda held: (
            (len(held["a/main"]), len(held["a/main-1"])) == (1, 2)
            and held["a/main"] | held["a/main-1"] == held["a/main-2"]
            and len(held["a/main-2"]) == 3
        ),
    ),
    "all devices": Shape(
        [template("all", request(allocationMode="All"))],
        [claiming("a", of="all")],
        lambda held: held["a/main"] == {0, 1, 2, 3},
    ),
    "the second alternative, where no device is of the first": Shape(
        [
            template(
                "any",
                request(
                    firstAvailable=[alternative("large", expression=LARGE), alternative("pair", count=2)]
                ),
            )
        ],
        [claiming("a", of="any", containers=("gpu",)), claiming("b", of="any")],
        lambda held: held["a/main"] | held["b/main"] == {0, 1, 2, 3} and len(held["a/main"]) == 2,
    ),
    "two near one NUMA node, for two pods": Shape(
        [template("near", request(count=2), constraints=[alike(NUMA)])],
        [claiming("a", of="near"), claiming("b", of="near")],
        lambda held: held["a/main"] in NEAR and held["b/main"] in NEAR and held["a/main"] != held["b/main"],
    ),
    "two below one PCIe root": Shape(
        [template("below", request(count=2), constraints=[alike(ROOT)])],
        [claiming("a", of="below")],
        lambda held: held["a/main"] == BELOW_ONE_ROOT,
    ),
    "two requests alike in the root, and a third one": Shape(
        [template("below", request("x"), request("y"), request("z"), constraints=[alike(ROOT, "x", "y")])],
        [claiming("a", of="below", containers=("x", "y", "z"))],
        lambda held: held["a/main"] | held["a/main-1"] == BELOW_ONE_ROOT and held["a/main-2"] in ({0}, {1}),
    ),
    "alternatives that must be alike: three near one NUMA node are nowhere, two are": Shape(
        [
            template(
                "near",
                request(firstAvailable=[alternative("three", count=3), alternative("two", count=2)]),
                constraints=[alike(NUMA, "gpu")],
            )
        ],
        [claiming("a", of="near"), claiming("b", of="near")],
        lambda held: held["a/main"] in NEAR and held["b/main"] in NEAR and held["a/main"] != held["b/main"],
    ),
    "alternatives of which one must be below one root, beside a single one": Shape(
        [
            template(
                "below",
                request(firstAvailable=[alternative("three", count=3), alternative("two", count=2)]),
                request("single"),
                constraints=[alike(ROOT, "gpu/three", "gpu/two")],
            )
        ],
        [claiming("a", of="below", containers=("gpu", "single"))],
        lambda held: held["a/main"] == BELOW_ONE_ROOT and held["a/main-1"] in ({0}, {1}),
    ),
    "alternatives alike with another request": Shape(
        [
            template(
                "near",
                request("single"),
                request(firstAvailable=[alternative("large", expression=LARGE), alternative("one")]),
                constraints=[alike(ROOT)],
            )
        ],
        [claiming("a", of="near", containers=("single", "gpu"))],
        lambda held: held["a/main"] | held["a/main-1"] == BELOW_ONE_ROOT and _each_one(held),
    ),
}


def everybody_has_theirs(claims: ClaimNode, shape: Shape) -> None:
    """Apply it; each container gets just the GPUs of its claim, and all accounts say so."""
    claims.cluster.apply(*shape.objects)
    start(claims.cluster, *shape.pods)
    held = {
        f"{pod['metadata']['name']}/{container['name']}": claims.gpus(
            pod["metadata"]["name"], container["name"]
        )
        for pod in shape.pods
        for container in pod["spec"]["containers"]
    }
    assert shape.is_right(held), held
    by_pod: dict[str, set[int]] = {}
    for where, gpus in held.items():
        by_pod.setdefault(where.partition("/")[0], set()).update(gpus)
    until(lambda: all(claims.is_held(pod, *gpus) for pod, gpus in by_pod.items()))
    allocated = [sorted(devices) for devices in claims.allocated().values()]
    shared = {tuple(sorted(f"gpu-{number}" for number in gpus)) for gpus in by_pod.values()}
    assert sorted(allocated) == sorted(map(list, shared))
    assert claims.noted() == claims.allocated()
    assert len(claims.specs()) == len(claims.remembered()) == len(allocated)
