"""Why a workload has not the pods that it should have: those that never came to be, and those that did.

What would refuse a pod now is judged from the objects. Conditions and Events of the owners are quoted where
they are there: they hold what only the server knew, such as a webhook's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.admission.outcome import NOT_ENOUGH
from tonnage.diagnose.explain.explain import explain_new, for_template
from tonnage.diagnose.explain.nodes.daemon_pods import ways_to_some, why_none
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.explain.workloads.pods import Family, family_of, groups_of, worst_of
from tonnage.diagnose.explain.workloads.state import aside_reasons, refused_before, state_reasons
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.kubernetes.workloads import Workload, WorkloadKey
from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason
from tonnage.model.reasons.workloads import WorkloadNotActedOn, WorkloadWantsNone
from tonnage.model.verdict import Explanation, PodGroup, Remedy, Subject, Verdict

_ADMISSION = (Layer.ADMISSION, Layer.QUOTA)


def find_workload(snapshot: Snapshot, key: WorkloadKey) -> Workload | None:
    """A workload of the snapshot, or None."""
    return next((one for one in snapshot.workloads if one.key == key), None)


def explain_workload(
    workload: Workload, manifest: Manifest, snapshot: Snapshot, *, version: str = ""
) -> Explanation:
    """The explanation of a workload of the cluster; `manifest` is its pod template.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    subject = Subject(workload.key.kind, workload.key.namespace, workload.key.name)
    family = family_of(workload, snapshot)
    ground = ground_of(snapshot, version=version)
    case = _Case(family, _as_made(manifest, family), ground, version, subject)
    groups = groups_of(family.pods, ground)
    return for_template(case.explanation(groups), workload.key.kind)


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

    def explanation(self, groups: tuple[PodGroup, ...]) -> Explanation:
        """What is told of the whole."""
        head = self.family.head
        missing = self._missing()
        states = tuple(self._for_no_node(state) for state in state_reasons(self.family))
        cause = self._why_missing(missing) if missing and not states else None
        bad = tuple(group for group in groups if group.told.verdict is not Verdict.FITS)
        asides = tuple(aside_reasons(self.family))
        told = [state.message for state in states]
        told += [f"{missing} of {head.wanted} pods are not there: {cause.message}"] if cause else []
        told += [f"{_counted(group, len(self.family.pods))}: {group.told.message}" for group in bad[:2]]
        verdicts = [group.told.verdict for group in bad]
        verdicts += [cause.verdict] if cause else []
        verdicts += [Verdict.NEVER if state.lasting else Verdict.NOT_NOW for state in states]
        first = cause or (bad[0].told if bad else None)
        return Explanation(
            subject=self.subject,
            verdict=worst_of(verdicts),
            layer=states[0].layer if states else first.layer if first else None,
            phase="",
            needs=cause.needs if cause else groups[0].told.needs if groups else {},
            message="; ".join(told) or self._well(groups),
            upstream_message=first.upstream_message if first else "",
            nodes=first.nodes if first else (),
            classes=first.classes if first else (),
            reasons=(*states, *(first.reasons if first else ()), *asides),
            remedies=self._remedies(states, first, bad if cause else ()),
            pods=groups,
        )

    def _for_no_node(self, state: Reason) -> Reason:
        """Of a DaemonSet that no node is for: which nodes, and why."""
        if not isinstance(state, WorkloadWantsNone) or self.subject.kind != "DaemonSet":
            return state
        why = why_none(self.manifest.pod, self.ground.view)
        if not why:
            return state
        message = f"none of the nodes is one for its pods: {why}"
        return replace(state, message=message)

    def _missing(self) -> int:
        wanted = self.family.head.wanted
        return 0 if wanted is None else max(0, wanted - len(self.family.living))

    def _well(self, groups: tuple[PodGroup, ...]) -> str:
        head, living = self.family.head, len(self.family.living)
        if head.wanted is None and not groups:
            return "nothing stands against it; it has made no pods yet"
        wanted = head.wanted if head.wanted is not None else len(self.family.pods)
        if head.condition("Complete"):
            return f"ended well: {head.numbers.get('succeeded', 0)} pods succeeded"
        return f"{living} of {wanted} pods have a place"

    def _remedies(
        self, states: tuple[Reason, ...], first: Explanation | None, bad: tuple[PodGroup, ...]
    ) -> tuple[Remedy, ...]:
        """Changes of the template that help the pods that are there stand before what is not enough."""
        daemons = any(isinstance(s, WorkloadWantsNone) for s in states) and self.subject.kind == "DaemonSet"
        own = tuple(ways_to_some(self.manifest.pod, self.ground.view)) if daemons else ()
        effect = "" if daemons else "pods are made again"
        own = own or tuple(Remedy(state.remedy, effect) for state in states if state.remedy)
        found = first.remedies if first else ()
        weak = tuple(remedy for remedy in found if remedy.effect.startswith(NOT_ENOUGH))
        strong = tuple(remedy for remedy in found if remedy not in weak)
        known = {remedy.action for remedy in found}
        there = {
            remedy.action: replace(remedy, effect=f"for the pods that are there: {remedy.effect}")
            for group in bad
            for remedy in group.told.remedies
            if remedy.patch and remedy.action not in known
        }
        return (*own, *strong, *there.values(), *weak)

    def _why_missing(self, missing: int) -> Explanation:
        """What a new pod would meet; where that is nothing, what the owners say that it met."""
        snapshot = self.ground.view.snapshot
        made, there = with_made_claims(self.manifest.pod, snapshot)
        manifest = replace(self.manifest, pod=made)
        found = explain_new(manifest, self.subject, there, self.version, self.ground)
        said = refused_before(self.family, snapshot)
        if found.layer in _ADMISSION and found.verdict is not Verdict.FITS:
            return replace(found, upstream_message=said.text) if said and said.alike(found) else found
        reasons = tuple(self._silence(said.reasons() if said else ()))
        verdict = Verdict.UNKNOWN if isinstance(reasons[0], WorkloadNotActedOn) else Verdict.NOT_NOW
        told = [reason.message for reason in reasons]
        fits = found.verdict is Verdict.FITS
        told += [] if fits else [f"once they are there, {found.verdict}: {found.message}"]
        own = tuple(Remedy(reason.remedy, "") for reason in reasons if reason.remedy)
        return replace(
            found,
            verdict=verdict,
            layer=reasons[0].layer,
            message="; ".join(told),
            upstream_message=said.text if said else "",
            reasons=(*reasons, *found.reasons),
            remedies=own if fits else (*own, *found.remedies),
            nodes=() if fits else found.nodes,
            classes=() if fits else found.classes,
        )

    def _silence(self, said: tuple[Reason, ...]) -> Iterator[Reason]:
        """What the owners say; else that nothing does."""
        yield from said
        if not said:
            head = self.family.head
            yield WorkloadNotActedOn(
                subject=str(self.subject),
                message="nothing that can be seen stands against its pods, and they are not made"
                + ("" if head.seen else ": its controller has not looked at it as it is now"),
                remedy="look at kube-controller-manager: does it run, what does it log? "
                f"kubectl describe {head.key.kind.lower()} {head.key.name} -n {head.key.namespace}",
                source="status and conditions of the workload",
            )


def _counted(group: PodGroup, whole: int) -> str:
    if len(group.names) == 1:
        return f"pod {group.names[0]}"
    return f"{len(group.names)} of {whole} pods"
