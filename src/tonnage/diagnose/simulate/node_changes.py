"""Changes of nodes, one after the other. What cannot be done is a problem, and the rest is gone on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from tonnage.decide.node.resource_units import fits
from tonnage.diagnose.simulate import node_gpus
from tonnage.diagnose.simulate.changed_cluster import DisplacementCause, Fork, stays_with_node
from tonnage.diagnose.simulate.node_gpus import (
    NodeGpus,
    OfferedResources,
    gpus_of_node,
    offer_of,
    with_offer,
)
from tonnage.model.changes import (
    AddNodes,
    CordonNode,
    Drain,
    NodeChange,
    NodeSelection,
    RemoveNodes,
    SetMig,
    SetSharing,
)
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.name_lists import listed
from tonnage.model.names import GPU, MIG_PREFIX

MOST_NODES: Final = 50_000
_HOSTNAME: Final = "kubernetes.io/hostname"
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


def change_nodes(fork: Fork, change: NodeChange) -> None:
    """Carry out one change."""
    if isinstance(change, AddNodes):
        _add(fork, change)
        return
    names = chosen_nodes(fork, change.nodes)
    if not names:
        fork.problems.append(_nobody(fork, change.nodes, change.where))
        return
    nodes_by_problem: dict[Problem, list[str]] = {}
    for name in names:
        match change:
            case SetMig() | SetSharing():
                problem = _set(fork, name, change)
                if problem is not None:
                    nodes_by_problem.setdefault(problem, []).append(name)
            case Drain():
                fork.nodes[name] = replace(fork.node(name), unschedulable=True)
                fork.displace(name, _evicted(fork, name), DisplacementCause.DRAINED)
            case CordonNode():
                fork.nodes[name] = replace(fork.node(name), unschedulable=not change.undo)
            case RemoveNodes():
                _remove(fork, name)
    for problem, where in nodes_by_problem.items():
        text = f"{problem.what} (node{'' if len(where) == 1 else 's'} {listed(where, 3)})"
        fork.problems.append(Problem(text, change.where, problem.why, problem.remedy))


def chosen_nodes(fork: Fork, chosen: NodeSelection) -> list[str]:
    """Names of the nodes that are meant, in the order of names."""
    names = (name for name in fork.names() if fits(chosen.name, name))
    if not chosen.labels:
        return sorted(names)
    pairs = chosen.labels.items()
    return sorted(name for name in names if pairs <= dict(fork.node(name).labels).items())


def _nobody(fork: Fork, chosen: NodeSelection, where: str) -> Problem:
    there = listed(sorted(fork.names()), 5) or "none"
    return Problem(f"no node is named {chosen}", where, remedy=f"nodes: {there} (* stands for any text)")


def _set(fork: Fork, name: str, change: SetMig | SetSharing) -> Problem | None:
    """Divide or share the GPUs of a node; why not, where it cannot be done."""
    before = _board(fork, name)
    if isinstance(before, Problem):
        return before
    after = _changed(fork, before, change)
    if isinstance(after, Problem):
        return after
    now, then = _offer(fork, before), _offer(fork, after)
    node = fork.node(name)
    fork.node_gpus[name] = after
    if after is before or _same(node, then):
        return None
    requested = tuple((pod, wants) for pod, amounts in fork.asked_on(name) if (wants := _of_gpus(amounts)))
    holders = _holders(fork, name, change, requested) if isinstance(change, SetMig) else set()
    if isinstance(holders, Problem):
        return holders
    changed = fork.nodes[name] = with_offer(node, now, then)
    fork.displace(name, [pod for pod, _ in requested if pod.key in holders], DisplacementCause.REPARTITIONED)
    left = [(pod, wants) for pod, wants in requested if pod.key not in holders]
    fork.displace(name, _too_many(changed, left), DisplacementCause.RESHARED)
    return None


def _changed(fork: Fork, gpus: NodeGpus, change: SetMig | SetSharing) -> NodeGpus | Problem:
    if isinstance(change, SetMig):
        how: tuple[object, ...] = change.layout, change.devices, change.strategy
    else:
        how = change.resource, change.replicas, change.rename
    key = id(gpus), how
    changed = fork.memory.changed.get(key)
    if changed is None:
        if isinstance(change, SetMig):
            changed = node_gpus.divided(gpus, change.layout, change.devices, change.strategy)
        else:
            changed = node_gpus.shared(gpus, change.resource, change.replicas, rename=change.rename)
        if isinstance(changed, NodeGpus) and not gpus.unsure and changed.key == gpus.key:
            changed = gpus
        fork.memory.changed[key] = changed
    return changed


def _board(fork: Fork, name: str) -> NodeGpus | Problem:
    gpus = fork.node_gpus.get(name)
    if gpus is not None:
        return gpus
    node, status = fork.node(name), fork.base.snapshot.gpu.get(fork.copied.get(name, name))
    key = node_gpus.gpu_identity(node, status)
    remembered = fork.memory.node_gpus.get(key)
    if remembered is None:
        remembered = fork.memory.node_gpus[key] = gpus_of_node(node, status)
    return remembered


def _offer(fork: Fork, gpus: NodeGpus) -> OfferedResources:
    remembered = fork.memory.offers.get(id(gpus))
    if remembered is None:
        remembered = fork.memory.offers[id(gpus)] = gpus, offer_of(gpus)
    return remembered[1]


def _same(node: Node, offer: OfferedResources) -> bool:
    """Whether a node offers just that already."""
    now = {n: a for n, a in node.capacity.items() if a and n.startswith((GPU, MIG_PREFIX))}
    return now == {name: every for name, (_, every) in offer.amounts.items()}


_PodRequests: TypeAlias = Sequence[tuple[Pod, Mapping[str, int]]]
"""Pods that ask for GPUs or parts of them, and how many."""


def _holders(
    fork: Fork, name: str, change: SetMig, requested: _PodRequests
) -> set[tuple[str, str]] | Problem:
    """Pods with a GPU that is to be divided anew: nothing may run on it then."""
    if change.devices is None:
        return {pod.key for pod, _ in requested}
    status = fork.base.snapshot.gpu.get(name)
    if status is None and requested:
        return Problem(
            "Tonnage cannot tell which pod holds which GPU",
            why="no agent reports it",
            remedy="divide all GPUs of the node, or give a snapshot that has NodeGPUStatus objects",
        )
    devices = status.devices if status is not None else ()
    return {(h.namespace, h.pod) for d in devices if d.index in change.devices for h in d.holders}


def _of_gpus(amounts: Mapping[str, int]) -> dict[str, int]:
    return {r: n for r, n in amounts.items() if n > 0 and r.startswith((GPU, MIG_PREFIX))}


def _too_many(node: Node, requested: _PodRequests) -> list[Pod]:
    """Pods that ask for more of a device than the node offers now; the youngest have to go."""
    left = dict(node.allocatable)
    surplus: list[Pod] = []
    for pod, amounts in sorted(requested, key=lambda entry: (entry[0].created or _LATEST, entry[0].key)):
        if any(n > left.get(r, 0) for r, n in amounts.items()):
            surplus.append(pod)
            continue
        for resource, amount in amounts.items():
            left[resource] -= amount
    return surplus


def _evicted(fork: Fork, name: str) -> list[Pod]:
    return [pod for pod in fork.pods_on(name) if not stays_with_node(pod)]


def _remove(fork: Fork, name: str) -> None:
    fork.displace(name, _evicted(fork, name), DisplacementCause.REMOVED)
    fork.left += fork.pods_on(name)
    fork.held[name] = ()
    fork.node_gpus.pop(name, None)
    if name in fork.base.nodes:
        fork.nodes[name] = None
    else:
        del fork.nodes[name]


def _add(fork: Fork, change: AddNodes) -> None:
    if change.count > MOST_NODES:
        fork.problems.append(Problem(f"more than {MOST_NODES} nodes", change.where))
        return
    node = _template(fork, change)
    if isinstance(node, Problem):
        fork.problems.append(replace(node, where=change.where))
        return
    pods = [pod for pod in fork.pods_on(change.like) if stays_with_node(pod)] if change.like else []
    for name in _new_names(fork, change):
        labels = {**node.labels, **change.labels, _HOSTNAME: name}
        fork.nodes[name] = replace(node, name=name, labels=labels)
        fork.held[name] = tuple(replace(p, name=f"{p.name}-{name}", node_name=name) for p in pods)
        if change.like:
            fork.copied[name] = fork.copied.get(change.like, change.like)
            if change.like in fork.node_gpus:
                fork.node_gpus[name] = fork.node_gpus[change.like]


def _new_names(fork: Fork, change: AddNodes) -> Iterator[str]:
    stem, number, made = f"{change.like or change.product.lower()}-new", 0, 0
    names = set(fork.names())
    while made < change.count:
        name = f"{stem}-{number}"
        number += 1
        if name not in names:
            made += 1
            yield name


def _template(fork: Fork, change: AddNodes) -> Node | Problem:
    """What the new nodes are like, but for their names."""
    if change.like:
        if change.like not in fork.names():
            return _nobody(fork, NodeSelection(change.like), change.where)
        node = fork.node(change.like)
        amounts = {**node.allocatable, **change.amounts}
        capacity = {**node.capacity, **change.amounts}
        return replace(node, unschedulable=False, allocatable=amounts, capacity=capacity,
                       taints=_lasting(node) + change.taints)  # fmt: skip
    missing = [name for name in ("cpu", "memory") if name not in change.amounts]
    if missing:
        text = f"Tonnage does not know how much {' and '.join(missing)} a node with {change.product} has"
        return Problem(text, remedy="give it (cpu: 96, memory: 1Ti), or add nodes like an existing one")
    devices = node_gpus.devices_of_product(change.product, change.gpus)
    if isinstance(devices, Problem):
        return devices
    offer = _offer(fork, NodeGpus(devices, PluginConfig()))
    amounts = {"pods": 110, **change.amounts, **{name: n for name, (n, _) in offer.amounts.items()}}
    return Node("", {**offer.labels, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
                taints=change.taints, allocatable=amounts, capacity=amounts, ready=True)  # fmt: skip


def _lasting(node: Node) -> tuple[Taint, ...]:
    """Taints that another node of its kind has, too; not those that say how this one fares."""
    return tuple(t for t in node.taints if not t.key.startswith("node.kubernetes.io/"))
