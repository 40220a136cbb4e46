"""The engine and a genuine kube-scheduler asked about the same pods on the same nodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from support.genuine_scheduler import GenuineScheduler, RefusedError, Verdict
from support.random_manifests import surroundings
from tonnage.decide.kubernetes.scheduler.sampling import candidates
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule_on
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL
from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.scheduler_profile import SchedulerProfile
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
_SETTLES_S: Final = (0.03, 0.6, 5.0)
"""Pauses before a pod is created: the scheduler may not have heard of all the rest after the first."""
_EVICTS_S: Final = 30.0
_AT_FIRST_S: Final = 0.1


@dataclass(slots=True)
class Duel:
    """Clusters one after the other; what differed, and how often what was decided."""

    scheduler: GenuineScheduler
    version: str
    profiles: Mapping[str, SchedulerProfile] = field(default_factory=dict)
    samples: bool = False
    """The scheduler may look at a part of the nodes."""
    found: list[str] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    said: set[str] = field(default_factory=set)
    """Every refusal of the scheduler's."""
    _around: list[Body] = field(init=False)
    _given: list[Body] = field(init=False, default_factory=list)
    _there: list[Body] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        spaces = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {}}}
        made = [obj for obj in surroundings() if obj["metadata"]["name"] != "default"]
        self._around = [*self.scheduler.create_all(made), spaces]

    def stage(self, objects: Iterable[Body]) -> None:
        """Set up a cluster, what the server takes of it; pods come last."""
        self._given = given = list(objects)
        self._there = []
        for pods in (False, True):
            part = [obj for obj in given if (obj["kind"] == "Pod") is pods]
            self._there += [obj for obj in self.scheduler.try_all(part) if obj is not None]
        time.sleep(_AT_FIRST_S)

    def clear(self) -> None:
        """Remove the cluster, pods first."""
        for pods in (True, False):
            self.scheduler.delete_all(obj for obj in self._there if (obj["kind"] == "Pod") is pods)

    def judge(self, pod: Body, name: str) -> bool:
        """Ask both about a pod; False when it changed the cluster for good: pods were evicted."""
        differences = ["never asked"]
        for pause in _SETTLES_S:
            time.sleep(pause)
            try:
                raw, verdict = self.scheduler.judge(pod)
            except RefusedError:
                self.count["invalid"] += 1
                return True
            view, own = self._read(raw)
            decision = schedule_on(own, view)
            differences = self._differences(view, own, decision, verdict)
            self.scheduler.delete(raw)
            if not differences:
                break
            if verdict is not None and verdict.nominated:  # Pods are gone: once more from the beginning.
                self.clear()
                self.stage(self._given)
        self.count[_kind_of(verdict)] += 1
        self.said.add(verdict.message if verdict is not None else "")
        self.count["scored"] += bool(verdict and verdict.scores)
        self.found += [f"{name}: {difference}" for difference in differences]
        return verdict is None or not verdict.nominated

    def _read(self, raw: Body) -> tuple[ClusterView, Pod]:
        documents = [*self._around, *self._there, raw]
        snapshot = snapshot_from_documents(documents, server_version=self.version)
        snapshot = replace(snapshot, schedulers=self.profiles)
        return view_of(snapshot), next(pod for pod in snapshot.pods if pod.uid == raw["metadata"]["uid"])

    def _differences(
        self, view: ClusterView, pod: Pod, decision: SchedulingDecision, verdict: Verdict | None
    ) -> list[str]:
        if verdict is None:
            return [] if decision.held else [f"no verdict; the engine: {decision.chosen or decision.message}"]
        if decision.unmodelled:
            return [f"not decided: {decision.unmodelled}"]
        if verdict.node:
            return self._as_to_the_node(view, decision, verdict)
        if verdict.reason == "SchedulingGated":
            return [] if decision.gates else ["the engine knows of no gate"]
        found = []
        if decision.message != verdict.message:
            found.append(f"{verdict.message!r}, the engine: {decision.message or decision.chosen!r}")
        equals = {decision.nominated or "", *decision.equals}
        if verdict.nominated not in equals:
            found.append(f"nominated {verdict.nominated!r}, the engine: {decision.nominated!r}")
        elif verdict.nominated and verdict.nominated == decision.nominated:
            found += self._as_to_victims(decision)
        return found

    def _as_to_the_node(self, view: ClusterView, decision: SchedulingDecision, verdict: Verdict) -> list[str]:
        node = verdict.node
        if node not in decision.feasible:
            return [f"placed on {node}, the engine: {decision.message or decision.feasible}"]
        if self.samples:
            may = candidates(view, decision.scores) if decision.scores else decision.feasible
            return [] if node in may else [f"placed on {node}, by the engine on one of {may}"]
        rows = {name: {p: s for p, s in row.items() if p != TOTAL} for name, row in decision.scores.items()}
        found = [
            f"{name} is rated {verdict.scores.get(name)}, by the engine {rows.get(name)}"
            for name in sorted(rows.keys() | verdict.scores.keys())
            if rows.get(name) != verdict.scores.get(name)
        ]
        totals = {name: row[TOTAL] for name, row in decision.scores.items()}
        if not found and totals and totals[node] != max(totals.values()):
            found.append(f"placed on {node}, which is not among the best of {totals}")
        return found

    def _as_to_victims(self, decision: SchedulingDecision) -> list[str]:
        """Pods that went; one that is leaving for long may make the scheduler take more the next time."""
        staying = [obj for obj in self._there if obj["kind"] == "Pod" and not _leaves(obj)]
        wanted = {victim.key for victim in decision.victims if not victim.status.terminating}
        more = any(victim.status.terminating for victim in decision.victims)
        ends = time.monotonic() + _EVICTS_S
        while True:
            gone = {_key(obj) for obj in staying if not self.scheduler.exists(obj)}
            if gone == wanted or (more and gone >= wanted):
                return []
            if time.monotonic() > ends:
                return [f"evicted {sorted(gone)}, by the engine {sorted(wanted)}"]
            time.sleep(0.02)


def _kind_of(verdict: Verdict | None) -> str:
    if verdict is None:
        return "silent"
    if verdict.node:
        return "placed"
    if verdict.reason == "SchedulingGated":
        return "gated"
    return "nominated" if verdict.nominated else "refused"


def _key(obj: Body) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _leaves(obj: Body) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
