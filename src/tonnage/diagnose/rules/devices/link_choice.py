"""TOP-1, TOP-2: nodes that would do join their GPUs differently, and a pod with several does not choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.node.preference.device_sets import Joined, best_set
from tonnage.diagnose.case import Case, device_needs
from tonnage.diagnose.topo.families import (
    Boards,
    LinkFamily,
    board_of_status,
    family_of,
    numbered,
    usable_indices,
)
from tonnage.diagnose.topo.text import link_text
from tonnage.diagnose.topo.topology import FASTER, gpu_set
from tonnage.model.name_lists import listed
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.reasons.facts import GpuFamily
from tonnage.model.reasons.pod.pods import LinksUndecided
from tonnage.model.reasons.reason import Reason

_MOST_OF_A_PRODUCT: Final = 16
"""Nodes looked at of each product: those of one pool are built alike, and an answer must not take seconds."""


def reasons(case: Case) -> Iterator[Reason]:
    """One warning for each resource of which the pod asks several whole GPUs."""
    for resource, count in device_needs(case.pod).items():
        if count < 2:
            continue
        families = _families(case, resource, count)
        speeds = [joined.slowest for joined, _, _ in families]
        more, less = FASTER
        if not speeds or max(speeds) * less < min(speeds) * more:
            continue
        ranked = sorted(families, key=lambda entry: (-entry[0].slowest, entry[2]))
        text = "; ".join(
            f"{listed(nodes, 3)} ({family.summary}, {link_text(joined)})" for joined, family, nodes in ranked
        )
        yield LinksUndecided(
            subject=f"Pod {case.pod.namespace}/{case.pod.name}",
            message=f"how fast its {count} GPUs reach one another depends on the node, at which the "
            "scheduler does "
            f"not look: the slowest pair of the best {count} has {text}",
            remedy=f"if it matters, require {PRODUCT_LABEL} or a label of your own by node affinity",
            source="NodeGPUStatus; NCCL's bandwidths",
            resource=resource,
            families=tuple(_family(j, n) for j, _, n in ranked),
        )


def _family(joined: Joined, nodes: list[str]) -> GpuFamily:
    best = gpu_set(joined)
    return GpuFamily(tuple(nodes), best.gpus, best.slowest, best.total_gb_s, best.numa_nodes)


def _families(case: Case, resource: str, count: int) -> list[tuple[Joined, LinkFamily, list[str]]]:
    """The best set of each family of feasible nodes that offers so many whole GPUs, and nodes of it."""
    boards: Boards = {}
    looked: dict[str, int] = {}
    by_board: dict[tuple[int, tuple[int, ...]], tuple[Joined, LinkFamily, list[str]]] = {}
    for name in case.decision.feasible if case.decision.chosen is not None else ():
        status = case.view.snapshot.gpu.get(name)
        product = case.view.nodes[name].node.labels.get(PRODUCT_LABEL, "")
        looked[product] = looked.get(product, 0) + 1
        if status is None or looked[product] > _MOST_OF_A_PRODUCT or status.replicas.get(resource) != 1:
            continue
        board, healthy = board_of_status(numbered(status), boards), usable_indices(status)
        if len(healthy) < count:
            continue
        key = id(board), healthy
        if key not in by_board:
            by_board[key] = (best_set(board, count, healthy), family_of(board), [])
        by_board[key][2].append(name)
    return list(by_board.values())
