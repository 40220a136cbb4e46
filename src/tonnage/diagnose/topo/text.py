"""Topologies as text: the matrix in the form that `nvidia-smi topo -m` has made known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tonnage.decide.node.preference.device_sets import Joined
from tonnage.diagnose.topo.topology import SIZES, Comparison, GpuRow, NodeTopology

_UNHEALTHY = "unhealthy"
_DIVIDED = "divided by MIG"
_UNUSABLE = (_UNHEALTHY, _DIVIDED)
_LEGEND = {
    "SYS": "over PCIe and the link between NUMA nodes",
    "NODE": "over PCIe and between host bridges within a NUMA node",
    "PHB": "over PCIe and a host bridge (the processor)",
    "PXB": "over several PCIe switches, not the processor",
    "PIX": "over one PCIe switch",
    "BOARD": "on one board",
    "XGMI": "AMD's links between GPUs",
}


def matrix_lines(topology: NodeTopology, width: int | None = None) -> Iterator[str]:
    """The matrix with NUMA node, PCI address, resource and holders of each GPU, and what its words mean.

    Where a line would have more columns than `width`, the matrix stands in parts, and each GPU has lines.
    """
    names = [f"GPU{row.index}" for row in topology.rows]
    head = ["", *names, "NUMA", "PCI", "RESOURCE", "HELD BY"]
    lines = [head]
    for name, ways, row in zip(names, topology.board.ways, topology.rows, strict=True):
        numa = "-" if row.numa_node is None else str(row.numa_node)
        held = ", ".join(row.holders) or _state_of(row)
        lines.append([name, *ways, numa, row.pci_bus_id or "-", row.resource or row.claim or "-", held])
    whole = [*_columns(lines)]
    if width is None or max(map(len, whole)) <= width:
        yield from whole
    else:
        yield from _parts([line[: len(names) + 1] for line in lines], width)
        for line in lines[1:]:
            numa, pci, resource, held = line[len(names) + 1 :]
            yield f"{line[0]}: NUMA {numa}, PCI {pci}"
            state = held if held in _UNUSABLE else "free" if held == "-" else f"held by {held}"
            yield f"  {resource}, {state}"
    yield ""
    yield from _legend({way for ways in topology.board.ways for way in ways})


def _state_of(row: GpuRow) -> str:
    """What a GPU is that nobody holds: unhealthy, divided, or free."""
    if not row.healthy:
        return _UNHEALTHY
    return _DIVIDED if row.divided else "-"


def _columns(lines: Sequence[Sequence[str]], between: str = "   ") -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        yield between.join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()


def _parts(lines: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """A matrix, as many of its columns at a time as there is room for."""
    widest = 1 + max(len(cell) for line in lines for cell in line)
    at_once = max(1, width // widest - 1)
    for start in range(1, len(lines[0]), at_once):
        yield from _columns([[line[0], *line[start : start + at_once]] for line in lines], " ")
        yield ""


def _legend(words: set[str]) -> Iterator[str]:
    yield "X = itself"
    for word in sorted(words - {"X"}, key=lambda w: (not w.startswith("NV"), w)):
        if word.startswith("NV"):
            yield f"{word} = {word[2:]} NVLinks side by side (their number, not a distance)"
        else:
            yield f"{word} = {_LEGEND[word]}"


def best_lines(topology: NodeTopology) -> Iterator[str]:
    """The best sets of the usual sizes, and the GPUs that are in none of them."""
    for size in SIZES:
        best = topology.best(size)
        if best is not None:
            yield f"best {size}: {set_text(best)}"
        elif size <= len(topology.rows):
            state = "healthy and whole" if any(row.divided for row in topology.rows) else "healthy"
            yield f"best {size}: none, {len(topology.usable)} of {len(topology.rows)} GPUs are {state}"
    for resource, replicas in sorted({(r.resource, r.replicas) for r in topology.rows if r.replicas > 1}):
        yield f"{resource} counts replicas, {replicas} of each GPU: pods get replicas, not sets of GPUs"
    if topology.unusable:
        yield f"left out: {gpus_with_reasons(topology.unusable)}"


def gpus_with_reasons(rows: Sequence[GpuRow]) -> str:
    """GPUs that no pod gets whole, each with what is wrong with it.

    >>> gpus_with_reasons([GpuRow(3, "GPU-3", "T4", None, "", healthy=False, reason="GPU is lost")])
    'GPU 3 (GPU is lost)'
    """
    return f"GPU {', '.join(f'{row.index} ({row.why_unusable or _UNHEALTHY})' for row in rows)}"


def link_text(joined: Joined) -> str:
    """How the slowest pair of a set is joined.

    >>> link_text(Joined((0, 1), (0, 1), "NV12", 2400, 2400, 99, (0,)))
    '240 GB/s over NV12'
    """
    return f"{joined.slowest / 10:g} GB/s over {joined.way}"


def set_text(joined: Joined) -> str:
    """A set in a line: which GPUs, how its slowest pair is joined, on which NUMA nodes.

    >>> set_text(Joined((0, 1), (0, 1), "NV12", 2400, 2400, 99, (0,)))
    'GPU 0, 1: slowest pair 0-1 over NV12, 240 GB/s; NUMA node 0'
    """
    names = ", ".join(map(str, joined.indices))
    if joined.pair is None:
        return f"GPU {names}: no pair"
    numa = ", ".join(map(str, joined.numa_nodes))
    where = f"; NUMA node{'s' if len(joined.numa_nodes) > 1 else ''} {numa}" if numa else ""
    pair = "-".join(map(str, joined.pair))
    return f"GPU {names}: slowest pair {pair} over {joined.way}, {joined.slowest / 10:g} GB/s{where}"


def comparison_lines(compared: Comparison) -> Iterator[str]:
    """A chosen set beside the best: what it loses, and whether that could be had now."""
    chosen, best, free = compared.chosen, compared.best, compared.best_free
    yield f"chosen: {set_text(chosen)}"
    if compared.is_best:
        yield "no other set of its size is better joined on this node"
        return
    if compared.unusable:
        yield f"no pod can get it: {gpus_with_reasons(compared.unusable)}"
    if best is None:
        yield "too few GPUs of this node can be used for a set of its size"
        return
    yield f"best:   {set_text(best)}{_times(chosen, best)}"
    if free is None:
        yield "too few GPUs are free now for a set of its size"
    elif free.worth <= chosen.worth and not compared.unusable:
        yield "no better set is free now"
    elif free.indices != best.indices:
        yield f"free:   {set_text(free)}{_times(chosen, free)}"
    else:
        yield "the best set is free now"


def _times(chosen: Joined, better: Joined) -> str:
    """How many times as fast the slowest pair is; nothing where only the rest differs."""
    if better.worth <= chosen.worth:
        return ""
    if better.slowest == chosen.slowest:
        return " (others are faster)" if better.total > chosen.total else " (as fast, nearer over PCI)"
    return f" ({better.slowest / chosen.slowest:.1f} times as fast)"
