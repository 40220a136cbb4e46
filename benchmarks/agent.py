"""Our device plugin beside the least that one in Python can be, and beside NVIDIA's where that is named.

All sides of a figure are asked in turn in one run, over the same pretended driver and by the same client.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.plugin_kubelet import p50, p99
from benchmarks.plugin_sides import (
    Running,
    Start,
    beside_a_cluster,
    made_node,
    ran_before,
    running,
    sides,
    tonnage,
)

MANY_CALLS = 10_000
IDLE_S = 60.0
SETTLE_S = 15.0
"""Until then an agent still asks kubelet more often: its ledger may be of before the start."""

_TURN = 25
"""Calls in a row to one side, before the next has its turn."""
_TAILS = {"tonnage": " (wanted: under 3)"}

Figures = dict[str, list[float]]


def measure(rounds: int) -> Figures:
    """Milliseconds, megabytes and per cent of a core; the units are in the names."""
    there = sides()
    figures = _starts(there, rounds)
    figures |= restarts(there, rounds)
    for gpus, replicas, calls in ((8, 1, 1000), (16, 1, 300), (8, 48, 500), (64, 512, 30)):
        figures |= answers(there, rounds, gpus, replicas, calls)
    return figures | _weights(there)


def _starts(there: dict[str, Start], rounds: int) -> Figures:
    """From the start of the process to Register."""
    first: list[float] = []
    again: Figures = {name: [] for name in there}
    for _ in range(rounds):
        for name, start in there.items():
            with made_node(8) as node:
                if start is tonnage:
                    first.append(ran_before(node))
                with running(name, start, node) as side:
                    again[name].append(side.start_ms)
    wanted = {"tonnage": " (wanted: under 400)"}
    figures = {
        f"start to Register, {name}, ms{wanted.get(name, '')}": values for name, values in again.items()
    }
    figures["start to Register, tonnage for the first time on a node, ms"] = first
    return figures


def restarts(there: dict[str, Start], rounds: int) -> Figures:
    """From kubelet's new socket to Register. The floor does not notice."""
    figures: Figures = {}
    for name, start in there.items():
        if name == "Python floor":
            continue
        with made_node(8) as node, running(name, start, node):
            time.sleep(1)
            figures[f"kubelet restarts: socket to Register, {name}, ms (wanted: under 50)"] = _until_never(
                node.kubelet.restarted, rounds
            )
            figures[f"  and its folder was made anew, {name}, ms"] = _until_never(
                partial(node.kubelet.restarted, folder_made_anew=True), rounds
            )
    return figures


def _until_never(restarted: Callable[[], float], rounds: int) -> list[float]:
    """Milliseconds; who did not come back once is not waited for again."""
    took: list[float] = []
    while len(took) < rounds and not (took and math.isinf(took[-1])):
        took.append(restarted() * 1000)
    return took


def answers(there: dict[str, Start], rounds: int, gpus: int, replicas: int, calls: int) -> Figures:
    """Allocate of one and, where there is more than one size to prefer, the preference."""
    what = f"{gpus} GPUs" if replicas == 1 else f"{gpus} GPUs of {replicas} replicas"
    sizes = (1, 4) if gpus == 8 and replicas == 1 else (3, 8) if replicas == 1 else (1, 8, 48)
    figures: Figures = {}
    slow: dict[tuple[str, int], list[float]] = {}
    with _all_running(there, gpus, replicas) as at_work:
        for number in range(rounds + 1):
            if number == 1:
                figures.clear()  # the first round warms up
            for name, took in _allocated(at_work, calls).items():
                _note(figures, f"Allocate, {what}, {name}", took)
                tail = figures.setdefault(f"Allocate, {what}, {name}: p99 by p50{_TAILS.get(name, '')}", [])
                tail.append(p99(took) / p50(took))
            for side, size in ((side, size) for size in sizes for side in at_work):
                took = slow.get((side.name, size)) or side.asking.prefer(max(calls // 10, 10), size=size)
                if len(took) == 1:  # so slow that it is asked once
                    slow[side.name, size] = took
                _note(figures, f"preferred {size}, {what}, {side.name}", took)
    return dict(sorted(figures.items(), key=lambda each: each[0].partition(",")[0]))


def _allocated(at_work: list[Running], calls: int) -> Figures:
    """Milliseconds by side, asked by turns: what else the machine does slows none more than the others."""
    took: Figures = {side.name: [] for side in at_work}
    for _ in range(0, calls, _TURN):
        for side in at_work:
            took[side.name] += side.asking.allocate(_TURN)
    return took


def _note(figures: Figures, name: str, took: list[float]) -> None:
    figures.setdefault(f"{name}: p50, ms", []).append(p50(took))
    figures.setdefault(f"{name}: p99, ms", []).append(p99(took))


def _weights(there: dict[str, Start]) -> Figures:
    """Memory and processor time at rest, all sides at once, and memory after many calls.

    Wanted of ours: under 0.3 % and 80 MB. Asking an API server that does not answer is not rest.
    """
    figures: Figures = {}
    with ExitStack() as stack:
        there = there | {
            "tonnage": stack.enter_context(beside_a_cluster()),
            "tonnage without a cluster": lambda node: tonnage(node, "--standalone"),
            "tonnage, its API server is dead": there["tonnage"],
        }
        at_work = stack.enter_context(_all_running(there, 8, 1))
        time.sleep(SETTLE_S)
        before = {side.name: side.processor_s() for side in at_work}
        time.sleep(IDLE_S)
        for side in at_work:
            busy = (side.processor_s() - before[side.name]) / IDLE_S * 100
            figures[f"idle, {side.name}: per cent of a core"] = [busy]
            figures[f"  resident memory, MB ({side.name})"] = [side.resident_mb()]
        for side in at_work:
            side.asking.allocate(MANY_CALLS)
            figures[f"  after {MANY_CALLS} calls, MB ({side.name})"] = [side.resident_mb()]
    return figures


@contextmanager
def _all_running(there: dict[str, Start], gpus: int, replicas: int) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        nodes = {name: stack.enter_context(made_node(gpus, replicas)) for name in there}
        yield [stack.enter_context(running(name, start, nodes[name])) for name, start in there.items()]
