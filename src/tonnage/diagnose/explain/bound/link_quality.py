"""TOP-2, TOP-3: how the GPUs that a pod holds are joined, beside the best on its node and on others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.decide.node.preference.device_sets import Joined, best_set, joined
from tonnage.diagnose.topo.families import Boards, board_of_status, family_of, numbered, usable_indices
from tonnage.diagnose.topo.text import gpus_with_reasons, link_text, set_text
from tonnage.diagnose.topo.topology import FASTER, NodeTopology, gpu_set, joined_json, topology_of_status
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.name_lists import listed
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.reasons.gpu.devices import LinksBelowBest
from tonnage.model.reasons.pod.pods import LinksBelowFamily
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy

_FIRST = "check this placement before the program, NCCL or the batch size"


@dataclass(frozen=True, slots=True)
class Held:
    """The whole GPUs of a pod on its node, how they are joined, and the best set of as many there."""

    pod: Pod
    topology: NodeTopology
    chosen: Joined
    best: Joined
    resource: str

    def to_json(self) -> JsonObject:
        """As it stands under `placement.links`."""
        return {**joined_json(self.chosen), "best": joined_json(self.best)}

    @property
    def summary(self) -> str:
        """A few words for a pod that has nothing better to hope for on its node."""
        if self.chosen.worth < self.best.worth:
            return ""
        numa = self.chosen.numa_nodes
        where = f", NUMA node {numa[0]}" if len(numa) == 1 else ""
        return (
            f"; no {len(self.chosen.indices)} GPUs of the node have better links ({self.chosen.way}{where})"
        )


def held_by(pod: Pod, snapshot: Snapshot, boards: Boards) -> Held | None:
    """What a pod holds, when that is two whole GPUs or more. Replicas and MIG devices have no links."""
    status = snapshot.gpu.get(pod.node_name)
    if status is None or pod.finished:
        return None
    indices_by_uuid = {
        device.index: holder.resource
        for device in status.devices
        for holder in device.holders
        if (holder.namespace, holder.pod) == pod.key and device.uuid in holder.ids
    }
    indices = [index for index in indices_by_uuid if index is not None]
    if len(indices) < 2:
        return None
    topology = topology_of_status(status, boards)
    chosen = joined(topology.board, indices)
    best = topology.best(len(indices)) or chosen
    return Held(
        pod, topology, chosen, max(chosen, best, key=lambda j: j.worth), next(iter(indices_by_uuid.values()))
    )


def link_reasons(held: Held, snapshot: Snapshot, boards: Boards) -> Iterator[tuple[Reason, Remedy]]:
    """Why the pod's GPUs are slower together than they could be: the set, or the node."""
    if held.best.worth > held.chosen.worth:
        yield _below_best(held)
    faster = _elsewhere(held, snapshot, boards)
    if faster is not None:
        yield _below_family(held, snapshot, boards, *faster)


def _below_best(held: Held) -> tuple[Reason, Remedy]:
    chosen, best = held.chosen, held.best
    holders = {name for row in held.topology.rows if row.index in best.indices for name in row.holders}
    others = sorted(holders - {f"{held.pod.namespace}/{held.pod.name}"})
    ill = held.topology.unusable
    left_out = f"; left out: {gpus_with_reasons(ill)}" if ill else ""
    when = f"once {listed(others)} no longer holds some of them" if others else "now, as they are free"
    reason = LinksBelowBest(
        subject=f"Pod {held.pod.namespace}/{held.pod.name}",
        message=f"its GPUs have worse links than others of {held.topology.node}: it has {set_text(chosen)}; "
        f"better is {set_text(best)}{left_out}",
        remedy=f"start it again {when}: the device plugin prefers the best set",
        source="NodeGPUStatus; NCCL's bandwidths",
        node=held.topology.node,
        has=gpu_set(chosen),
        best=gpu_set(best),
    )
    return reason, Remedy(reason.remedy, _gain(chosen, best))


def _elsewhere(held: Held, snapshot: Snapshot, boards: Boards) -> tuple[Joined, list[str]] | None:
    """The fastest set of as many GPUs on other nodes that offer the resource, and the nodes that have it."""
    size, more, less = len(held.chosen.indices), *FASTER
    by_quality: dict[tuple[int, str], tuple[Joined, list[str]]] = {}
    best_of: dict[tuple[int, tuple[int, ...]], Joined] = {}
    for name, status in sorted(snapshot.gpu.items()):
        if name == held.topology.node or status.replicas.get(held.resource) != 1:
            continue
        board, healthy = board_of_status(numbered(status), boards), usable_indices(status)
        if len(healthy) < size:
            continue
        key = id(board), healthy
        best = best_of.get(key) or best_set(board, size, healthy)
        best_of[key] = best
        if best.slowest * less >= held.chosen.slowest * more:
            by_quality.setdefault((best.slowest, best.way), (best, []))[1].append(name)
    return max(by_quality.values(), key=lambda entry: entry[0].slowest, default=None)


def _below_family(
    held: Held, snapshot: Snapshot, boards: Boards, best: Joined, nodes: list[str]
) -> tuple[Reason, Remedy]:
    chosen, size = held.chosen, len(held.chosen.indices)
    family = family_of(board_of_status(numbered(snapshot.gpu[nodes[0]]), boards))
    products = {node.name: node.labels.get(PRODUCT_LABEL, "") for node in snapshot.nodes}
    own_products = {products.get(name, "") for name in nodes}
    others = {product for name, product in products.items() if name not in nodes}
    patch: JsonObject = {}
    if len(own_products) == 1 and not own_products & {"", *others}:
        patch = {"spec": {"nodeSelector": {PRODUCT_LABEL: next(iter(own_products))}}}
        action = f"select those nodes: nodeSelector {PRODUCT_LABEL}: {next(iter(own_products))}"
    else:
        action = "label nodes by the links between their GPUs, and select that label in the pod"
    reason = LinksBelowFamily(
        subject=f"Node {held.topology.node}",
        message=f"{held.topology.node} is of another family ({held.topology.family.summary}) than "
        f"{listed(nodes)} "
        f"({family.summary}): the slowest pair of its {size} GPUs has {link_text(chosen)}, "
        f"there it has {link_text(best)}; {_FIRST}",
        remedy=action,
        source="NodeGPUStatus; NCCL's bandwidths",
        node=held.topology.node,
        has=gpu_set(chosen),
        nodes=tuple(nodes),
        there=gpu_set(best),
    )
    return reason, Remedy(action, _gain(chosen, best), patch)


def _gain(chosen: Joined, better: Joined) -> str:
    if better.slowest == chosen.slowest:
        return "closer to each other" if better.total == chosen.total else "faster pairs"
    return f"its slowest pair is {better.slowest / max(chosen.slowest, 1):.1f} times as fast"
