"""What is told of the manifests of a file, of each with all of its pods.

Each is explained by itself first, as one pod; then all pods are placed, and what that changes is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.cluster_view import SharedGround
from tonnage.diagnose.explain.explain import explain_alone
from tonnage.diagnose.explain.nodes.daemon_pods import daemon_pod, why_none
from tonnage.diagnose.explain.replicas.placing import Queue, SeriesFate, Shortage, queue_on
from tonnage.diagnose.explain.replicas.remedies import for_all, remedies_of
from tonnage.diagnose.explain.replicas.room import ClusterCapacity, nodes_to_add, room_for
from tonnage.diagnose.explain.replicas.series import PodSeries, series_of
from tonnage.diagnose.explain.replicas.words import all_fit, in_turn, short_of
from tonnage.model.kubernetes.api_answer import ApiServer
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.verdict import Explanation, Placement, PodCounts, PodGroup, Remedy, Subject, Verdict

_MOST_NAMES = 100
_MOST_SERIES = 32
"""Workloads that are placed anew for each remedy of each; of more, a remedy is tried with one pod."""
_ADMISSION = (Layer.ADMISSION, Layer.QUOTA)


def explain_together(
    manifests: Sequence[Manifest], snapshot: Snapshot, *, version: str = "", server: ApiServer | None = None
) -> tuple[Explanation, ...]:
    """What would become of all pods of the manifests, if all of them were created at once.

    They are placed as the scheduler takes them: by priority, then as they stand in the file. `server`: the
    API server's own rules, where they are at hand.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    queue = queue_on(view_of(snapshot, version=version), manifests)
    shared = SharedGround(queue.base, version)
    alone = [explain_alone(_as_daemon(manifest), shared, server) for manifest in manifests]
    placed = [
        (number, series_of(manifest, queue.scene.view))
        for number, manifest in enumerate(manifests)
        if _comes(manifest, alone[number])
    ]
    all_series = [series for _, series in placed]
    fates = dict(zip((number for number, _ in placed), queue.run(all_series), strict=True))
    grounds: dict[int, SharedGround] = {}
    explanations = []
    for number, (manifest, single) in enumerate(zip(manifests, alone, strict=True)):
        fate = fates.get(number)
        if fate is None:
            explanations.append(single)
            continue
        answer = _Answer(manifest, single, fate, queue, version, server, all_series)
        explanations.append(answer.explanation(grounds))
    return tuple(explanations)


def _as_daemon(manifest: Manifest) -> Manifest:
    """The manifest with what the controller adds to its pods."""
    if not manifest.kind.startswith("DaemonSet"):
        return manifest
    return replace(manifest, pod=daemon_pod(manifest.pod))


def _comes(manifest: Manifest, alone: Explanation) -> bool:
    """Whether pods come to be that look for a node."""
    refused = alone.verdict is not Verdict.FITS and alone.layer in _ADMISSION
    return not refused and not manifest.pod.node_name and not manifest.pod.problems


@dataclass(frozen=True, slots=True)
class _Answer:
    manifest: Manifest
    alone: Explanation
    fate: SeriesFate
    queue: Queue
    version: str
    server: ApiServer | None
    all_series: Sequence[PodSeries]

    @property
    def series(self) -> PodSeries:
        return self.fate.series

    @property
    def _subject(self) -> Subject:
        return self.alone.subject

    def explanation(self, grounds: dict[int, SharedGround]) -> Explanation:
        """The whole answer. `grounds`: clusters that were made ready, by the identity of their snapshot."""
        series, shortage = self.series, self.fate.shortage
        if series.count == 0:
            return self._none_asked()
        if self._settled_alone():
            return self._none_fits() if series.count > 1 else self.alone
        if shortage is None:
            return self._all_fit()
        return self._some_fit(shortage, grounds)

    def _settled_alone(self) -> bool:
        """Whether a pod by itself meets what keeps all of them: what is placed before changes nothing."""
        alone, shortage = self.alone, self.fate.shortage
        if alone.verdict is Verdict.FITS:
            return False
        elsewhere = alone.placement.node is not None  # it has a node whose kubelet or driver refuses it
        first = shortage is not None and shortage.index == 0 and shortage.moment is self.queue.base
        return elsewhere or (first and not self.fate.nodes)

    def _none_asked(self) -> Explanation:
        if self.series.kind != "DaemonSet":
            return replace(self.alone, verdict=Verdict.FITS, layer=None, message="it asks for no pods")
        why = why_none(self.manifest.pod, self.queue.scene.view)
        message = "no node matches its pods" + (f": {why}" if why else "")
        return replace(self.alone, verdict=Verdict.NEVER, layer=Layer.SCHEDULER, message=message)

    def _none_fits(self) -> Explanation:
        series, alone = self.series, self.alone
        names = tuple(series.names(0, min(series.count, _MOST_NAMES)))
        group = PodGroup(names, _bare(alone), series.count - len(names))
        message = f"none of the {series.count:,} pods fits: {alone.message}"
        remedies = tuple(for_all(alone.remedies, series.count, 0, self._fit_after, self._untried))
        return replace(alone, message=message, remedies=remedies, pods=(group,), counts=self._counts())

    def _all_fit(self) -> Explanation:
        series, alone, fate = self.series, self.alone, self.fate
        node = fate.nodes[min(fate.nodes)]
        if series.count == 1 and series.nodes is None:
            if alone.verdict is Verdict.FITS and node in (alone.placement.node, *alone.placement.candidates):
                return alone
            return self._fits(replace(alone, placement=Placement(node)), f"fits {node}")
        return replace(
            self._fits(replace(alone, placement=Placement(node)), all_fit(fate)),
            pods=(self._placed_group(),),
            counts=self._counts(),
        )

    def _fits(self, explanation: Explanation, message: str) -> Explanation:
        asides = tuple(reason for reason in explanation.reasons if reason.is_note)
        return replace(
            explanation,
            verdict=Verdict.FITS,
            layer=None,
            message=message,
            upstream_message="",
            reasons=asides,
            remedies=(),
        )

    def _some_fit(self, shortage: Shortage, grounds: dict[int, SharedGround]) -> Explanation:
        series, fate = self.series, self.fate
        first = self._of_first(shortage, grounds)
        room = self._room(first)
        lasting = room is not None and room.pods < series.count
        verdict = Verdict.NEVER if lasting else first.verdict
        if series.count == 1:
            others = self.alone.verdict is Verdict.FITS
            message = f"what comes before it leaves no room: {first.message}" if others else first.message
            return replace(first, verdict=verdict, message=message)
        waits = series.count - len(fate.nodes)
        sentence = short_of(fate, first, room if lasting else None)
        names = tuple(
            name
            for index in range(min(series.count, _MOST_NAMES + len(fate.nodes)))
            if index not in fate.nodes
            for name in (series.name(index),)
        )[:_MOST_NAMES]
        group = PodGroup(names, _bare(first), waits - len(names))
        there = len(fate.nodes)
        more = (
            nodes_to_add(series, self.queue.base, room, self.version, self._together())
            if room is not None and lasting
            else None
        )
        own = tuple(for_all(first.remedies, series.count, there, self._fit_after, self._untried))
        remedies = remedies_of(series, there, own, more)
        placed = (self._placed_group(),) if fate.nodes else ()
        return replace(
            first,
            verdict=verdict,
            message=sentence,
            remedies=remedies,
            pods=(group, *placed),
            counts=self._counts(),
        )

    def _of_first(self, shortage: Shortage, grounds: dict[int, SharedGround]) -> Explanation:
        """What is told of the first pod without a place, on the cluster that it met."""
        moment = shortage.moment
        if shortage.nodes:
            only = set(shortage.nodes)
            moment = replace(moment, nodes=tuple(node for node in moment.nodes if node.name in only))
        if shortage.unknown:
            return replace(
                self.alone,
                verdict=Verdict.UNKNOWN,
                layer=Layer.SCHEDULER,
                message="; ".join(shortage.unknown),
            )
        ground = grounds.setdefault(id(moment), SharedGround(moment, self.version))
        waiting = replace(self.manifest, replicas=self.series.count - len(self.fate.nodes))
        first = explain_alone(_as_daemon(waiting), ground, self.server)
        if first.verdict is not Verdict.FITS:
            return first
        message = in_turn(shortage)
        return replace(first, verdict=Verdict.NOT_NOW, layer=Layer.SCHEDULER, message=message)

    def _room(self, first: Explanation) -> ClusterCapacity | None:
        """The room for the whole, where its pods do not end and only others' or its own are in the way."""
        if self.series.ends or self.series.nodes is not None or first.verdict is not Verdict.NOT_NOW:
            return None
        return room_for(self.series, self.queue.base, self.version, self._together())

    def _together(self) -> Sequence[PodSeries]:
        """All pods of the object, where it is of a kind with several templates."""
        if self.manifest.pod_set is None:
            return ()
        own = self.manifest.document
        return [series for series in self.all_series if series.manifest.document is own]

    @property
    def _untried(self) -> str:
        """Why remedies are tried with one pod alone, as the end of their effects."""
        workloads = len(self.all_series)
        return (
            f"; tried with one pod, as there are {workloads:,} workloads" if workloads > _MOST_SERIES else ""
        )

    def _fit_after(self, remedy: Remedy) -> int | None:
        """How many pods have a place after a remedy, with all others of the files; None if not tried."""
        series, changed = self.series, remedy.changed
        if changed is None or series.nodes is not None or len(self.all_series) > _MOST_SERIES:
            return None
        if isinstance(changed, Snapshot):
            return self._fit_on(changed)
        pod = replace(changed, claims=self.manifest.pod.claims)
        view = self.queue.scene.view
        instead = replace(series_of(replace(self.manifest, pod=pod), view), manifest=self.manifest)
        others = [instead if other is series else other for other in self.all_series]
        fates = queue_on(view_of(self.queue.base, version=self.version)).run(others)
        return _counted(next(fate for fate in fates if fate.series is instead))

    def _fit_on(self, snapshot: Snapshot) -> int | None:
        """The same where the cluster is changed, which has the pods that found a place."""
        series, there = self.series, len(self.fate.nodes)
        left = replace(series, count=series.count - there)
        renamed = replace(self.manifest, name=f"{self.manifest.name}-more")
        [fate] = queue_on(view_of(snapshot, version=self.version)).run([replace(left, manifest=renamed)])
        more = _counted(fate)
        return there + more if more is not None else None

    def _counts(self) -> PodCounts:
        nodes = dict(sorted(Counter(self.fate.nodes.values()).items()))
        return PodCounts(self.series.count, len(self.fate.nodes), nodes)

    def _placed_group(self) -> PodGroup:
        fate = self.fate
        indexes = sorted(fate.nodes)[:_MOST_NAMES]
        names = tuple(self.series.name(index) for index in indexes)
        answer = self._fits(_bare(self.alone), all_fit(fate).partition(": ")[2])
        answer = replace(answer, phase="", placement=Placement(fate.nodes[indexes[0]]))
        return PodGroup(names, answer, len(fate.nodes) - len(names))


def _counted(fate: SeriesFate) -> int | None:
    """How many pods have a place; None where that is not known."""
    return None if fate.shortage is not None and fate.shortage.unknown else len(fate.nodes)


def _bare(explanation: Explanation) -> Explanation:
    """The answer of a pod without what its workload's has already."""
    return replace(explanation, nodes=(), classes=(), remedies=(), reasons=(), upstream_message="")
