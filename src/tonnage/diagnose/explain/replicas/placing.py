"""The pods of several manifests, placed in the order in which the scheduler takes them.

Pods of one manifest are alike: once one finds no place, the others find none either until something changes,
so they are not tried. That bounds the work by what the cluster has room for, whatever the replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tonnage.decide.kubernetes.kubelet.admission import Aligned, NotAligned, ask_kubelet, needs_of
from tonnage.decide.kubernetes.kubelet.device_holders import with_holder
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.explain.replicas.series import PodSeries
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.simulate.changed_cluster import Fork, Memory
from tonnage.diagnose.simulate.placements import Placed, Scene, scene_of
from tonnage.diagnose.simulate.workload_changes import belongs
from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.reason import Reason


@dataclass(frozen=True, slots=True)
class Shortage:
    """The first pod of a series without a place: `moment` is the cluster that it met.

    `refusal`: the API server's. `unknown`: what keeps its place from being known. `nodes`: of a DaemonSet,
    those that have no room. `fails`: it has a node, whose kubelet does not let it in.
    """

    index: int
    moment: Snapshot
    refusal: Reason | None = None
    unknown: tuple[str, ...] = ()
    preempts: bool = False
    nodes: tuple[str, ...] = ()
    fails: bool = False


@dataclass(slots=True)
class SeriesFate:
    """What became of the pods of a series: nodes by index, and the first that found none."""

    series: PodSeries
    nodes: dict[int, str] = field(default_factory=dict)
    shortage: Shortage | None = None


@dataclass(slots=True)
class Queue:
    """A cluster on which series of pods are placed. `placed` are the pods that found a node, by key.

    `gpu`: what nodes with a strict topology manager would report of their devices by now.
    """

    base: Snapshot
    fork: Fork
    scene: Scene
    placed: dict[tuple[str, str], tuple[Pod, SeriesFate, int]] = field(default_factory=dict)
    gone: set[tuple[str, str]] = field(default_factory=set)
    gpu: dict[str, GpuStatus] = field(default_factory=dict)
    _moment: Snapshot | None = None

    def moment(self) -> Snapshot:
        """The cluster as it is now, with the pods that were placed."""
        if self._moment is None:
            base, purse = self.base, self.fork.purse
            if not self.placed and not self.gone:
                self._moment = base
            else:
                quotas = [quota for quotas in purse.quotas.values() for quota in quotas]
                others = (quota for quota in base.quotas if quota.namespace not in purse.quotas)
                stay = (pod for pod in base.pods if pod.key not in self.gone)
                self._moment = replace(
                    base,
                    pods=(*stay, *(pod for pod, _, _ in self.placed.values())),
                    quotas=(*others, *quotas),
                    claims=tuple(self.scene.view.supply.claims.values()),
                    gpu={**base.gpu, **self.gpu},
                )
        return self._moment

    def run(self, series: Sequence[PodSeries]) -> list[SeriesFate]:
        """Place all of them: by priority, then as they come; ordered StatefulSets a pod at a time."""
        fates = [SeriesFate(entry) for entry in series]
        turns = [(0, -fate.series.pod.priority, place) for place, fate in enumerate(fates)]
        heapq.heapify(turns)
        while turns:
            index, priority, place = heapq.heappop(turns)
            fate = fates[place]
            if not fate.series.manifest.in_order:
                self._all_of(fate)
            elif index < fate.series.count and self._next(fate, index):
                heapq.heappush(turns, (index + 1, priority, place))
        return fates

    def _all_of(self, fate: SeriesFate) -> None:
        series = fate.series
        if series.nodes is None:
            for index in range(series.count):
                if not self._next(fate, index):
                    return
            return
        short = [index for index in range(series.count) if not self._next(fate, index)]
        if short and fate.shortage is not None:
            nodes = tuple(series.nodes[index] for index in short)
            fate.shortage = replace(fate.shortage, nodes=nodes)

    def _next(self, fate: SeriesFate, index: int) -> bool:
        """Try one pod; whether it has a place, or will have one once others have gone for it."""
        series, purse = fate.series, self.fork.purse
        pod = series.at(index)
        refusal = purse.refusal(pod)
        if refusal is not None:
            self._falls_short(fate, Shortage(index, self.base, refusal))
            return False
        made, claims = self._claimed(pod)
        if purse.claim_refusal(claims) is not None:  # the pod is made, and waits for its claims
            self._released(pod, ())
            self._falls_short(fate, Shortage(index, self.base))
            return False
        self._register(claims)
        node = series.nodes[index] if series.nodes is not None else ""
        placed = self.scene.place_on(made, node) if node else self.scene.place(made)
        if placed.node is None or placed.victims:
            self._released(pod, claims)  # what it met is the cluster without it
            preempts = bool(placed.victims)
            self._falls_short(fate, Shortage(index, self.base, None, placed.unknown, preempts), claims)
        if placed.node is None:
            return False
        if not placed.victims and not self._let_in(made, placed.node):
            self.scene.withdraw(made, placed.node)
            self._released(pod, claims)
            self._falls_short(fate, Shortage(index, self.base, fails=True), claims)
            return False
        if placed.victims:
            purse.refusal(pod)
            purse.claim_refusal(claims)
        self._take(fate, index, made, placed)
        return True

    def _let_in(self, pod: Pod, name: str) -> bool:
        """Whether nothing says that the node's kubelet refuses the pod; which devices it gives is kept."""
        status = self.gpu.get(name) or self.base.gpu.get(name)
        if status is None or not needs_of(pod):
            return True
        answer = ask_kubelet(pod, self.scene.node_before(pod, name), status)
        if isinstance(answer, NotAligned):
            return False
        if isinstance(answer, Aligned) and answer.devices:
            self.gpu[name] = with_holder(status, pod, answer.devices)
        return True

    def _claimed(self, pod: Pod) -> tuple[Pod, tuple[ResourceClaim, ...]]:
        """The pod with the claims that its templates make."""
        made, there = with_made_claims(pod, Snapshot(claim_templates=self.base.claim_templates))
        return made, there.claims

    def _register(self, claims: tuple[ResourceClaim, ...]) -> None:
        """The scene learns of claims that are made."""
        self.scene.view.allocator.put(claims)

    def _released(self, pod: Pod, claims: tuple[ResourceClaim, ...]) -> None:
        """Nothing of the pod is charged to quotas any more."""
        self.fork.purse.free(pod)
        self.fork.purse.free_claims(claims)

    def _falls_short(
        self, fate: SeriesFate, shortage: Shortage, without: tuple[ResourceClaim, ...] = ()
    ) -> None:
        """The first of a series without a place, on the cluster as it is now; `without`: claims that come
        with it.
        """
        if fate.shortage is None:
            moment = self.moment()
            if without and moment is not self.base:
                keys = {claim.key for claim in without}
                claims = tuple(claim for claim in moment.claims if claim.key not in keys)
                moment = replace(moment, claims=claims)
            fate.shortage = replace(shortage, moment=moment)

    def _take(self, fate: SeriesFate, index: int, pod: Pod, placed: Placed) -> None:
        """The pod has its node, and who went for it has none any more."""
        displaced = []
        for victim in placed.victims:
            self.gone.add(victim.key)
            own = self.placed.pop(victim.key, None)
            if own is not None:
                own[1].nodes.pop(own[2], None)
                displaced.append(own[1:])
        if not placed.victims:
            fate.nodes[index] = str(placed.node)
        self.placed[pod.key] = replace(pod, node_name=str(placed.node)), fate, index
        self._moment = None
        for other, number in displaced:
            self._falls_short(other, Shortage(number, self.base))


def queue_on(view: ClusterView, manifests: Iterable[Manifest] = ()) -> Queue:
    """The queue before a cluster. Pods of the workloads that the manifests replace make way."""
    fork = Fork(view, Memory())
    former = [pod for pod in view.snapshot.pods if any(_is_of(manifest, pod) for manifest in manifests)]
    fork.end(former)
    scene = scene_of(fork)
    base = view.snapshot
    if former:
        keys = {pod.key for pod in former}
        left = {claim.key for claim in scene.view.snapshot.claims}
        fork.purse.free_claims(claim for claim in base.claims if claim.key not in left)
        quotas = [quota for quotas in fork.purse.quotas.values() for quota in quotas]
        others = (quota for quota in base.quotas if quota.namespace not in fork.purse.quotas)
        base = replace(
            base,
            pods=tuple(pod for pod in base.pods if pod.key not in keys),
            quotas=(*others, *quotas),
            claims=scene.view.snapshot.claims,
        )
    return Queue(base, fork, scene)


def _is_of(manifest: Manifest, pod: Pod) -> bool:
    """Whether a pod of the cluster is of the manifest's workload; of custom kinds, labels say so too."""
    if pod.namespace != manifest.pod.namespace:
        return False
    labels = manifest.pod_set.labels if manifest.pod_set is not None else {}
    if labels and labels.items() <= pod.labels.items():
        return True
    return belongs(pod, manifest.kind.split(".")[0].lower(), manifest.name)
