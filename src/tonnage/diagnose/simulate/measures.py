"""Figures of a cluster: what there is of each resource, what is free, and what of that nobody can use.

A free unit of a device resource on a node is usable when one of the reference pods (the shapes of pods that
ask for the resource) could run there with it, as many copies of it as the node has room for. Of the others,
those on nodes with enough units together for some reference pod are stranded, by what keeps it away: cpu,
memory, pods, a taint, a cordon, labels or something else. The rest are too few together for any.

Fragmentation is the measure of FGD on whole units: the part of the free units that a typical pod cannot use,
in the mean over the reference pods by how often they come.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023 (`decide.cluster.packing.fragments`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tonnage.decide.kubernetes.requests import CPU, EPHEMERAL, MEMORY, PODS, is_extended
from tonnage.decide.kubernetes.scheduler.filters import (
    node_affinity,
    node_name,
    node_unschedulable,
    resources,
    taints,
)
from tonnage.decide.kubernetes.scheduler.fleet.columns import Amounts, Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE, Refused, counted
from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet
from tonnage.decide.kubernetes.scheduler.fleet.holdings import need_of
from tonnage.diagnose.simulate.outcomes import ResourceFigures, Stranded
from tonnage.diagnose.simulate.pod_shapes import Reference
from tonnage.model.kubernetes.cluster import Affinity, Pod
from tonnage.model.node.device_counts import device_count
from tonnage.model.node.gpu_status import GpuStatus

_OTHER: Final = "other"
_CAUSES: Final = {
    taints.NAME: "taint",
    node_unschedulable.NAME: "cordon",
    node_affinity.NAME: "labels",
    node_name.NAME: "labels",
}
_SHORT: Final = {CPU: "cpu", MEMORY: "memory", EPHEMERAL: "ephemeral-storage", PODS: "pods"}
_COMPUTE: Final = (CPU, MEMORY)


def figures_of(
    fleet: Fleet, references: Mapping[str, tuple[Reference, ...]], statuses: Mapping[str, GpuStatus]
) -> tuple[ResourceFigures, ...]:
    """CPU and memory, then every device resource that a node has or a pod holds, by name.

    `statuses` are what agents publish, by node, where that is still so.
    """
    columns = fleet.columns
    names = {name for node in columns.nodes for name in node.capacity if is_extended(name)}
    names |= {name for name, used in fleet.holdings.requested.items() if is_extended(name) and used.any()}
    plain = [_plain(fleet, name) for name in _COMPUTE]
    devices = (_device(fleet, name, references.get(name, ())) for name in sorted(names))
    return (
        *plain,
        *(replace(figures, devices=_behind(fleet, figures.name, statuses)) for figures in devices),
    )


def _behind(fleet: Fleet, name: str, statuses: Mapping[str, GpuStatus]) -> int | None:
    """Devices behind the replicas of a resource; None: no node shares it, or nobody tells how."""
    counts = [
        device_count(node, name, statuses.get(node.name))
        for node in fleet.columns.nodes
        if node.capacity.get(name, 0)
    ]
    if not any(count.shared for count in counts):
        return None
    devices = [count.devices for count in counts]
    return None if None in devices else sum(number for number in devices if number is not None)


def _plain(fleet: Fleet, name: str) -> ResourceFigures:
    columns = fleet.columns
    there, used = columns.allocatable(name), fleet.holdings.used(name)
    free = np.maximum(there - used, 0)
    open_ = ~columns.cordoned
    return ResourceFigures(
        name,
        int(columns.capacity(name).sum()),
        int(there.sum()),
        int(used.sum()),
        int(free[open_].sum()),
        int(free[~open_].sum()),
    )


def _device(fleet: Fleet, name: str, references: tuple[Reference, ...]) -> ResourceFigures:
    figures = _plain(fleet, name)
    if not references:
        return figures
    columns = fleet.columns
    free = np.maximum(columns.allocatable(name) - fleet.holdings.used(name), 0)
    looks = [_look(fleet, reference, name, free) for reference in references]
    total = int(free.sum())
    unusable = sum(
        reference.share * int(free[~look.fits].sum())
        for reference, look in zip(references, looks, strict=True)
    )
    usable = np.max([look.usable for look in looks], axis=0)
    left = free - usable
    causes, split = _causes(looks, references, left, free)
    stranded = tuple(
        Stranded(cause, int(left[rows].sum()), _names(fleet, rows)) for cause, rows in sorted(causes.items())
    )
    fragmented = 100 * unusable / total if total else 0.0
    alone = Stranded("too-few", int(left[split].sum()), _names(fleet, split))
    return replace(figures, stranded=stranded, split=alone, fragmented_percent=fragmented)


@dataclass(frozen=True, slots=True)
class _Look:
    """A reference pod over all rows: where it fits, what copies of it would use, and what stops the next."""

    fits: Mask
    usable: Amounts
    refused: Refused
    limits: list[tuple[str, Amounts]]


def _look(fleet: Fleet, reference: Reference, name: str, free: Amounts) -> _Look:
    pod = _alone(reference.pod)
    refused = fleet.refused(pod)
    fits: Mask = refused.codes == FEASIBLE
    columns, holdings = fleet.columns, fleet.holdings
    limits = [(_SHORT[PODS], columns.allocatable(PODS) - holdings.pods)]
    for resource, amount in counted(need_of(pod)):
        if resource != name:
            room = np.maximum(columns.allocatable(resource) - holdings.used(resource), 0) // amount
            limits.append((_SHORT.get(resource, resource), room))
    copies = np.minimum(np.min([room for _, room in limits], axis=0), free // reference.amount)
    return _Look(fits, np.where(fits, copies * reference.amount, 0), refused, limits)


def _alone(pod: Pod) -> Pod:
    """The pod without what depends on others like it: it stands for any of its shape."""
    own = Affinity(node=pod.affinity.node)
    return replace(pod, affinity=own, spread=(), node_name="", host_ports=(), labels={}, owner=None)


def _causes(
    looks: list[_Look], references: tuple[Reference, ...], left: Amounts, free: Amounts
) -> tuple[dict[str, Mask], Mask]:
    """Rows with units left over, by what keeps the smallest reference pod from them, and the other rows.

    A pod that asks for more than is left there says nothing; the more frequent of equals is asked first.
    """
    order = sorted(range(len(looks)), key=lambda n: (references[n].amount, -references[n].share))
    open_ = left > 0
    masks: dict[str, Mask] = {}
    for number in order:
        look = looks[number]
        rows = open_ & (left >= references[number].amount)
        for cause, mask in _cause(look, rows):
            masks[cause] = masks.get(cause, np.zeros(len(free), bool)) | mask
        open_ &= ~rows
    return masks, open_


def _cause(look: _Look, rows: Mask) -> Iterable[tuple[str, Mask]]:
    """What stops the pod on each of the rows."""
    for code, kind in enumerate(look.refused.kinds):
        here = rows & (look.refused.codes == code)
        if not here.any():
            continue
        if kind.plugin != resources.NAME:
            yield _CAUSES.get(kind.plugin, _OTHER), here
        else:
            yield _short(kind.texts), here
    full = rows & look.fits
    if full.any():
        least = np.argmin([room for _, room in look.limits], axis=0)
        for number, (cause, _) in enumerate(look.limits):
            here = full & (least == number)
            if here.any():
                yield cause, here


def _short(texts: tuple[str, ...]) -> str:
    """The first resource that is short."""
    if texts[0] == "Too many pods":
        return _SHORT[PODS]
    resource = texts[0].removeprefix("Insufficient ")
    return _SHORT.get(resource, resource)


def _names(fleet: Fleet, rows: Mask) -> tuple[str, ...]:
    return tuple(fleet.columns.names[row] for row in np.flatnonzero(rows).tolist())
