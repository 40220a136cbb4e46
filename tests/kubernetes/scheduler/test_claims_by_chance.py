"""Claims and devices by chance on a genuine scheduler: where it puts pods, and what it says."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from support.genuine_scheduler import GenuineScheduler, Verdict, genuine_scheduler
from support.leftovers import own_folder
from support.random_claims import ClaimedClusters
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.documents import snapshot_from_documents

pytestmark = pytest.mark.kubernetes

Body = dict[str, Any]
CLUSTERS: Final = 40
_SETTLES_S: Final = (0.05, 0.6, 3.0)
"""Pauses before the pod is created: the scheduler may not have heard of all the rest after the first."""
LATE: Final = ("1.36", "1.37")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[GenuineScheduler]:
    with own_folder() as folder, genuine_scheduler(folder) as scheduler:
        scheduler.run({"percentageOfNodesToScore": 100})
        yield scheduler


def test_the_engine_decides_and_speaks_as_the_scheduler_of_claims(scheduler: GenuineScheduler) -> None:
    version = chosen_minor(os.environ)
    differing, verdicts = [], Counter[str]()
    for number in range(CLUSTERS):
        random = Random(f"{version}/{number}")
        made = ClaimedClusters(random, late=version in LATE)
        objects = [*made.cluster(random.randrange(1, 5)), *made.asking()]
        for pause in _SETTLES_S:
            snapshot, verdict = _asked(scheduler, objects, version, pause)
            difference = _difference(snapshot, verdict)
            if not difference:
                break
        verdicts["placed" if verdict is not None and verdict.node else "refused"] += 1
        if difference:
            differing.append(f"{number}: {difference}")
    assert not differing, "\n".join(differing)
    assert min(verdicts["placed"], verdicts["refused"]) > CLUSTERS // 10


def _asked(
    scheduler: GenuineScheduler, objects: list[Body], version: str, pause: float
) -> tuple[Snapshot, Verdict | None]:
    """What is there as the server has it, and what its scheduler says of the pod; afterwards nothing is."""
    *others, asking = objects
    there = scheduler.create_all(others)
    try:
        time.sleep(pause)
        raw, verdict = scheduler.judge(asking)
        there.append(raw)
        return snapshot_from_documents(there, server_version=version), verdict
    finally:
        for obj in there:
            if obj["kind"] == "ResourceClaim":
                obj["metadata"]["finalizers"] = ["scheduler"]  # which it has set meanwhile
        scheduler.delete_all(obj for obj in there if obj["kind"] == "Pod")
        scheduler.delete_all(obj for obj in there if obj["kind"] != "Pod")


def _difference(snapshot: Snapshot, verdict: Verdict | None) -> str:
    decision = schedule(snapshot.pods[0], snapshot)
    own = decision.message or decision.chosen
    if verdict is None:
        return "" if decision.held else f"no verdict; the engine: {own}"
    if decision.unmodelled:
        return f"not decided: {decision.unmodelled}"
    if verdict.node:
        totals = {name: row[TOTAL] for name, row in decision.scores.items()}
        best = [name for name in decision.feasible if totals.get(name) == max(totals.values(), default=None)]
        return "" if verdict.node in best else f"placed on {verdict.node}, the engine: {own or best}"
    may = _errors(snapshot) if decision.failed else {decision.message}
    return "" if verdict.message in may else f"{verdict.message!r}, the engine: {own!r}"


def _errors(snapshot: Snapshot) -> set[str]:
    """Nodes are looked at side by side: the pod fails by the error of whichever is first."""
    alone = (replace(snapshot, nodes=(node,)) for node in snapshot.nodes)
    return {schedule(part.pods[0], part).message for part in alone}
