"""Why a workload has not the pods that it should have: those that never came to be, and those that did.

What would refuse a pod now is judged from the objects. Conditions and Events of the owners are quoted where
they are there: they hold what only the server knew, such as a webhook's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.admission.outcome import NOT_ENOUGH
from tonnage.diagnose.explain.explain import explain_creation, for_template
from tonnage.diagnose.explain.nodes.daemon_pods import ways_to_some, why_none
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.explain.workloads.pods import Family, family_of, groups_of, worst_of
from tonnage.diagnose.explain.workloads.workload_state import aside_reasons, refused_before, state_reasons
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.kubernetes.workloads import WorkloadKey, WorkloadState
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.workloads import WorkloadNotActedOn, WorkloadWantsNone
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, PodGroup, Remedy, Subject, Verdict

if TYPE_CHECKING:
    from tonnage.diagnose.explain.workloads.pod_limit import PodLimit

_ADMISSION = (Layer.ADMISSION, Layer.QUOTA)


def find_workload(snapshot: Snapshot, key: WorkloadKey) -> WorkloadState | None:
    """A workload of the snapshot, or None."""
    return next((workload for workload in snapshot.workloads if workload.key == key), None)


def explain_workload(
    workload: WorkloadState, manifest: Manifest, snapshot: Snapshot, *, version: str = ""
) -> Explanation:
    """The explanation of a workload of the cluster; `manifest` is its pod template.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    family = family_of(workload, snapshot)
    return explain_family(family, manifest, snapshot, version=version)


def explain_family(
    family: Family, manifest: Manifest, snapshot: Snapshot, *, version: str = "", custom: bool = False
) -> Explanation:
    """The same of a workload whose pods are known. Patches of a `custom` kind's pods are left out."""
    key = family.head.key
    subject = Subject(key.kind, key.namespace, key.name)
    ground = ground_of(snapshot, version=version)
    controller = f"the controller of {key.kind}" if custom else "kube-controller-manager"
    case = _Case(family, _as_made(manifest, family), ground, version, subject, controller)
    groups = groups_of(family.pods, ground)
    explanation = case.explanation(groups)
    if not custom:
        return case.limited(for_template(explanation, key.kind), groups)
    remedies = tuple(replace(remedy, patch={}) for remedy in explanation.remedies)
    return replace(explanation, remedies=remedies)


def _as_made(manifest: Manifest, family: Family) -> Manifest:
    """The manifest under the name of what makes the pods: of a Deployment its newest ReplicaSet."""
    maker = next(iter(family.made), None)
    kinds = {"ReplicaSet": "ReplicaSet.apps", "Job": "Job.batch"}
    if maker is None or maker.key.kind not in kinds:
        return manifest
    return replace(manifest, kind=kinds[maker.key.kind], name=maker.key.name)


@dataclass(frozen=True, slots=True)
class _Case:
    family: Family
    manifest: Manifest
    ground: Ground
    version: str
    subject: Subject
    controller: str

    def explanation(self, groups: tuple[PodGroup, ...]) -> Explanation:
        """What is told of the whole."""
        head = self.family.head
        missing = self._missing()
        states = tuple(self._for_no_node(state) for state in state_reasons(self.family))
        cause = self._why_missing(missing) if missing and not states else None
        bad = tuple(group for group in groups if not group.explanation.verdict.good)
        asides = tuple(aside_reasons(self.family))
        sentences = [state.message for state in states]
        sentences += [f"{missing} of {head.desired} pods do not exist: {cause.message}"] if cause else []
        good = len(self.family.living) - sum(group.count for group in bad)
        if bad and good > 0 and not cause and head.desired is not None:
            sentences.append(f"{good} of {head.desired} pods {'has' if good == 1 else 'have'} a place")
        sentences += [
            f"{_counted(group, len(self.family.pods))}: {group.explanation.message}" for group in bad[:2]
        ]
        verdicts = [group.explanation.verdict for group in bad]
        verdicts += [cause.verdict] if cause else []
        verdicts += [Verdict.NEVER if state.lasting else Verdict.NOT_NOW for state in states]
        verdicts = verdicts or [group.explanation.verdict for group in groups]
        first = cause or (bad[0].explanation if bad else None)
        return Explanation(
            subject=self.subject,
            verdict=worst_of(verdicts),
            layer=states[0].layer if states else first.layer if first else None,
            phase="",
            needs=cause.needs if cause else groups[0].explanation.needs if groups else {},
            message="; ".join(sentences) or self._well(groups),
            upstream_message=first.upstream_message if first else "",
            nodes=first.nodes if first else (),
            classes=first.classes if first else (),
            reasons=(*states, *(first.reasons if first else ()), *asides),
            remedies=self._remedies(states, first, bad if cause else ()),
            pods=groups,
        )

    def limited(self, explanation: Explanation, groups: tuple[PodGroup, ...]) -> Explanation:
        """The answer where the cluster never has room for all pods at a time."""
        limit = self._limit(groups, explanation.remedies)
        if limit is None:
            return explanation
        message = f"{explanation.message}; {limit.sentence}"
        return replace(explanation, verdict=Verdict.NEVER, message=message, remedies=limit.remedies)

    def _limit(self, groups: tuple[PodGroup, ...], own: tuple[Remedy, ...]) -> PodLimit | None:
        """What keeps pods from running side by side that wait for one another."""
        bad = tuple(group for group in groups if not group.explanation.verdict.good)
        alike = all(group.explanation.verdict is Verdict.NOT_NOW for group in bad)
        if self._missing() or not bad or not alike or bad[0].explanation.layer is not Layer.SCHEDULER:
            return None
        try:
            from tonnage.diagnose.explain.workloads.pod_limit import pod_limit
        except ModuleNotFoundError:  # the agent's image leaves it out
            return None
        there = len(self.family.living) - sum(group.count for group in bad)
        return pod_limit(self.manifest, self.family, self.ground.view, there, own, self.version)

    def _for_no_node(self, state: Reason) -> Reason:
        """Of a DaemonSet that no node is for: which nodes, and why."""
        if not isinstance(state, WorkloadWantsNone) or self.subject.kind != "DaemonSet":
            return state
        why = why_none(self.manifest.pod, self.ground.view)
        if not why:
            return state
        message = f"no node matches its pods: {why}"
        return replace(state, message=message)

    def _missing(self) -> int:
        desired = self.family.head.desired
        return 0 if desired is None else max(0, desired - len(self.family.living))

    def _well(self, groups: tuple[PodGroup, ...]) -> str:
        head, living = self.family.head, len(self.family.living)
        if head.desired is None and not groups:
            return "nothing prevents its pods; it has created none yet"
        desired = head.desired if head.desired is not None else len(self.family.pods)
        if head.condition("Complete"):
            return f"completed: {head.succeeded} pods succeeded"
        return f"{living} of {desired} pods have a place"

    def _remedies(
        self, states: tuple[Reason, ...], first: Explanation | None, bad: tuple[PodGroup, ...]
    ) -> tuple[Remedy, ...]:
        """Changes of the template that help the pods that are there stand before what is not enough."""
        daemons = any(isinstance(s, WorkloadWantsNone) for s in states) and self.subject.kind == "DaemonSet"
        own = tuple(ways_to_some(self.manifest.pod, self.ground.view)) if daemons else ()
        effect = "" if daemons else "pods are created again"
        own = own or tuple(Remedy(state.remedy, effect) for state in states if state.remedy)
        remedies = first.remedies if first else ()
        weak = tuple(remedy for remedy in remedies if remedy.effect.startswith(NOT_ENOUGH))
        strong = tuple(remedy for remedy in remedies if remedy not in weak)
        actions = {remedy.action for remedy in remedies}
        there = {
            remedy.action: replace(remedy, effect=f"for the pods that exist: {remedy.effect}")
            for group in bad
            for remedy in group.explanation.remedies
            if remedy.patch and remedy.action not in actions
        }
        return (*own, *strong, *there.values(), *weak)

    def _why_missing(self, missing: int) -> Explanation:
        """What a new pod would meet; where that is nothing, what the owners say that it met."""
        snapshot = self.ground.view.snapshot
        made, there = with_made_claims(self.manifest.pod, snapshot)
        manifest = replace(self.manifest, pod=made, replicas=missing)
        explanation = explain_creation(manifest, self.subject, there, self.version, self.ground)
        refusal_before = refused_before(self.family, snapshot)
        if explanation.layer in _ADMISSION and explanation.verdict is not Verdict.FITS:
            return (
                replace(explanation, upstream_message=refusal_before.text)
                if refusal_before and refusal_before.alike(explanation)
                else explanation
            )
        reasons = tuple(self._silence(refusal_before.reasons() if refusal_before else ()))
        verdict = Verdict.UNKNOWN if isinstance(reasons[0], WorkloadNotActedOn) else Verdict.NOT_NOW
        sentences = [reason.message for reason in reasons]
        fits = explanation.verdict is Verdict.FITS
        sentences += [] if fits else [f"once they exist, {explanation.verdict}: {explanation.message}"]
        own = tuple(Remedy(reason.remedy, "") for reason in reasons if reason.remedy)
        return replace(
            explanation,
            verdict=verdict,
            layer=reasons[0].layer,
            message="; ".join(sentences),
            upstream_message=refusal_before.text if refusal_before else "",
            reasons=(*reasons, *explanation.reasons),
            remedies=own if fits else (*own, *explanation.remedies),
            nodes=() if fits else explanation.nodes,
            classes=() if fits else explanation.classes,
        )

    def _silence(self, earlier: tuple[Reason, ...]) -> Iterator[Reason]:
        """What the owners say; else that nothing does."""
        yield from earlier
        if not earlier:
            head = self.family.head
            yield WorkloadNotActedOn(
                subject=str(self.subject),
                message="nothing visible prevents its pods, and they are not created"
                + ("" if head.observed else ": its controller has not processed its current version"),
                remedy=f"check that {self.controller} runs, and read its log: "
                f"kubectl describe {head.key.kind.lower()} {head.key.name} -n {head.key.namespace}",
                source="status and conditions of the workload",
            )


def _counted(group: PodGroup, whole: int) -> str:
    if len(group.names) == 1:
        return f"pod {group.names[0]}"
    return f"{len(group.names)} of {whole} pods"
