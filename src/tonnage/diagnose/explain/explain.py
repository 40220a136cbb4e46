"""Why a pod is where it is, or would be: layer by layer, computed from the objects alone.

Neither Events nor what a scheduler wrote into the pod's conditions decide anything: the answer is the same
with all of them deleted. Where it is another than theirs, that is told.
"""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.cluster.hami import SCHEDULER as HAMI
from tonnage.decide.cluster.hami import without_parts
from tonnage.decide.kubernetes.scheduler import sampling
from tonnage.decide.kubernetes.versions import profile_for
from tonnage.decide.kubernetes.view import as_kept
from tonnage.diagnose.case import Case, ManifestFieldError, device_needs
from tonnage.diagnose.cluster_view import Ground, Grounds, SharedGround, ground_of
from tonnage.diagnose.explain.admission.outcome import (
    Attempt,
    claim_quota_remedies,
    explain_forbidden,
    explain_no_namespace,
    explain_unserved,
    webhook_notes,
    with_claim_limits,
)
from tonnage.diagnose.explain.admission.refused_manifests import explain_refused, explain_unreadable
from tonnage.diagnose.explain.admission.refused_objects import ObjectRefusal, explain_answer, refusal_of
from tonnage.diagnose.explain.bound.bound_pods import explain_bound
from tonnage.diagnose.explain.bound.scheduled_pods import explain_placed
from tonnage.diagnose.explain.nodes.alignment import aligned_remedies
from tonnage.diagnose.explain.nodes.claims import devices_for
from tonnage.diagnose.explain.nodes.undecided_nodes import Unpromised, unpromised
from tonnage.diagnose.explain.nodes.verdicts import unread_amounts
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.missing_kinds import cluster_unseen, nodes_not_given, unread_kinds
from tonnage.diagnose.remedies.claim_remedies import claim_remedies
from tonnage.diagnose.remedies.remedies import one_of_each, remedies_for
from tonnage.diagnose.remedies.scheduler_names import served
from tonnage.diagnose.rules.devices.numa import candidates_of, kubelet_takes
from tonnage.diagnose.rules.order import MANIFEST_RULES, RULES
from tonnage.diagnose.wording import own, summary
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiServer
from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.pods import (
    ConditionDiffers,
    LabelOfNobody,
)
from tonnage.model.reasons.pod.scheduling import NodeAffinityMismatch
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, Placement, Remedy, Subject, Verdict

_MOST_TIES = 4


def explain(pod: Pod, snapshot: Snapshot, *, version: str = "") -> Explanation:
    """The explanation of a pod of the cluster.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    subject = Subject("Pod", pod.namespace, pod.name)
    if pod.node_name or pod.finished:
        return explain_placed(pod, subject, snapshot)
    return _explain_waiting(pod, subject, ground_of(snapshot, version=version))


def explain_waiting_pod(ground: Ground, pod: Pod, *, with_remedies: bool = True) -> Explanation:
    """The explanation of a pod that waits, on a cluster that was made ready before.

    Not `with_remedies`: without them, which take longer than the rest.
    """
    return _explain_waiting(pod, Subject("Pod", pod.namespace, pod.name), ground, with_remedies=with_remedies)


def explain_manifest(manifest: Manifest, snapshot: Snapshot, *, version: str = "") -> Explanation:
    """What would become of one pod of a manifest: first the API server's validation, then the rest.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    return explain_alone(manifest, SharedGround(snapshot, version), None)


def explain_alone(manifest: Manifest, shared: SharedGround, server: ApiServer | None) -> Explanation:
    """The same, where the cluster is shared. `server`: the API server's own rules, where they are at hand."""
    kind = manifest.kind.split(".")[0]
    part = manifest.pod_set.part if manifest.pod_set is not None else ""
    subject = Subject(kind, manifest.pod.namespace, manifest.name, part)
    pod, snapshot = with_made_claims(manifest.pod, shared.snapshot)
    refusal = refusal_of(manifest, subject, server, _ruled(manifest))
    explanation = _explain_creation(
        replace(manifest, pod=pod), subject, snapshot, Grounds(shared), refusal=refusal
    )
    if manifest.pod_set is not None:
        return _of_custom_kind(explanation)
    return explanation if kind == "Pod" else for_template(explanation, kind)


def explain_creation(
    manifest: Manifest, subject: Subject, snapshot: Snapshot, version: str, ground: Ground | None = None
) -> Explanation:
    """What becomes of a manifest, step by step as the API server has them; patches are of the pod.

    `ground`: the cluster, when it was made ready before.
    """
    return _explain_creation(manifest, subject, snapshot, Grounds(SharedGround(snapshot, version), ground))


def _explain_creation(
    manifest: Manifest,
    subject: Subject,
    snapshot: Snapshot,
    grounds: Grounds,
    *,
    with_remedies: bool = True,
    refusal: ObjectRefusal | None = None,
) -> Explanation:
    """`refusal`: what the API server's own rules have against the manifest, which no change here touches."""
    attempt = Attempt(
        manifest, snapshot, profile_for(grounds.shared.version or snapshot.server_version).minor
    )
    # As the API server goes about it, which says the first refusal alone: it decodes, looks for kind and
    # namespace, lets admission change the pod, validates, and asks at last the admission that only judges.
    if any(problem.remedy for problem in manifest.pod.problems):
        return explain_unreadable(manifest, subject)
    if refusal is not None and not refusal.decoded:
        return explain_answer(subject, refusal.answer)

    def explained_again(changed: Manifest, cluster: Snapshot) -> Explanation:
        return _explain_creation(changed, subject, cluster, grounds, with_remedies=False, refusal=refusal)

    unserved = explain_unserved(attempt, subject) or explain_no_namespace(attempt, subject, explained_again)
    if unserved is not None:
        return unserved
    admission = attempt.admission
    if admission.early and not manifest.pod.owner:
        return explain_forbidden(attempt, subject, admission, explained_again)
    written = admission.manifest if manifest.kind == "Pod" else manifest
    changed = written.amounts != manifest.amounts
    beyond = refusal.fields(amounts_changed=changed) if refusal is not None else ()
    errors = [*_ruled(written), *beyond] or _ruled(admission.manifest)
    if errors:
        ground = grounds.of(snapshot)
        then = (lambda changed: explained_again(changed, snapshot)) if with_remedies else None
        words = refusal.words if refusal is not None and not changed else ""
        return explain_refused(manifest, subject, errors, ground.view, then, words=words)
    if admission.refusals:
        return explain_forbidden(attempt, subject, admission, explained_again)
    ground = grounds.of(snapshot)
    admitted = _explain_admitted(admission.manifest.pod, subject, ground, with_remedies=with_remedies)
    admitted = replace(admitted, reasons=(*admitted.reasons, *webhook_notes(manifest, snapshot)))
    helps = claim_quota_remedies(attempt, admission.claims, explained_again) if with_remedies else ()
    return with_claim_limits(admitted, admission.claims, helps)


def _ruled(manifest: Manifest) -> list[ManifestFieldError]:
    """What the rules about manifests say against one."""
    return [error for rule in MANIFEST_RULES for error in rule.errors(manifest)]


def _explain_admitted(pod: Pod, subject: Subject, ground: Ground, *, with_remedies: bool) -> Explanation:
    """What becomes of a pod that the API server takes: the scheduler's matter, if it names no node itself."""

    def by_scheduler(free: Pod) -> Explanation:
        return _explain_waiting(free, subject, ground, new=True, with_remedies=with_remedies)

    return explain_bound(pod, subject, ground.view, by_scheduler) if pod.node_name else by_scheduler(pod)


def find_pod(snapshot: Snapshot, namespace: str, name: str) -> Pod | None:
    """A pod of the snapshot, or None."""
    return next((pod for pod in snapshot.pods if pod.key == (namespace, name)), None)


def _explain_waiting(
    pod: Pod, subject: Subject, ground: Ground, *, new: bool = False, with_remedies: bool = True
) -> Explanation:
    """What the scheduler decides, what the rules make of it, the verdict, its layer, and remedies, in turn.

    `new`: the pod is a manifest. Not `with_remedies`: without them.
    """
    original = pod = as_kept(pod, ground.view.profile)
    if pod.scheduler_name == HAMI:
        # Nodes offer no parts of GPUs: the pod is judged without them, and the rule on HAMi adds them.
        pod = replace(pod, containers=without_parts(pod))
    decision, nodes, classes = ground.decide(pod)
    tried = not (decision.gates or decision.held or decision.conflict)
    candidates = (
        sampling.candidates(ground.view, decision.scores, ground.view.settings(pod).percent)
        if decision.scores
        else ()
    )
    case = Case(
        pod, ground.view, decision, classes() if tried else (), original, candidates, ground.remarkable
    )
    reasons = tuple(reason for rule in RULES for reason in rule.reasons(case))
    verdict = _verdict(case, reasons)
    unread = sorted(unread_kinds(case, verdict, new=new), key=lambda entry: not entry[1])
    reasons = (*(reason for reason, _ in unread), *reasons)
    undecided = any(decides for _, decides in unread)
    if undecided:
        verdict = Verdict.UNKNOWN
    open_everywhere = undecided or decision.failed or bool(decision.unmodelled)
    layer = None if verdict is Verdict.FITS else _layer(case, verdict, reasons)
    remedies: tuple[Remedy, ...] = ()
    if with_remedies and verdict is not Verdict.FITS and case.classes and not decision.unmodelled:
        remedies = (
            (*remedies_for(case, ground), *claim_remedies(case.classes))
            if decision.chosen is None
            else (*one_of_each(case, ground, reasons), *_aligned(case, reasons))
        )
        remedies = served(remedies, case, ground, reasons)
    placement = _placement(case)
    return Explanation(
        subject=subject,
        verdict=verdict,
        layer=layer,
        phase=pod.status.phase,
        needs=device_needs(original),
        message=_message(case, placement, verdict, reasons),
        upstream_message=_upstream_message(case),
        nodes=(Unpromised(nodes) if open_everywhere else nodes) if tried else (),
        classes=unpromised(case.classes) if open_everywhere else case.classes,
        placement=placement,
        reasons=reasons,
        remedies=_with_last_words(remedies, reasons, case, verdict),
    )


def _upstream_message(case: Case) -> str:
    """The scheduler's words; where it sees what is not seen here, those that it wrote into the pod."""
    decision, written = case.decision, case.pod.status.unschedulable_message
    if cluster_unseen(case.view.snapshot) and not (decision.gates or decision.held):
        return written
    return "" if _counts_unread(case) else decision.message


def _counts_unread(case: Case) -> bool:
    """Whether the scheduler's words would count a node by an amount that nobody can read."""
    return nodes_not_given(case) or any(
        node_class.first.verdict is Verdict.UNKNOWN
        and unread_amounts(case.view.nodes[node_class.first.node].node)
        for node_class in case.classes
    )


def _aligned(case: Case, reasons: tuple[Reason, ...]) -> tuple[Remedy, ...]:
    """What would make a kubelet take a pod that the scheduler puts on a node of other alignment."""
    if not any(isinstance(reason, TopologyAffinity) for reason in reasons):
        return ()
    return tuple(aligned_remedies(case.pod, str(case.decision.chosen), case.view))


def _of_custom_kind(explanation: Explanation) -> Explanation:
    """The same without strategic merge patches, which such kinds do not take, and a refusal's own words.

    What the API server says depends on the definition of the kind and on what its controller makes.
    """
    remedies = tuple(replace(remedy, patch={}) for remedy in explanation.remedies)
    words = "" if explanation.layer is Layer.ADMISSION else explanation.upstream_message
    return replace(explanation, remedies=remedies, upstream_message=words)


def for_template(explanation: Explanation, kind: str) -> Explanation:
    """The same with patches of the workload, which has its pod in a template."""

    def around(patch: JsonObject) -> JsonObject:
        inner: JsonObject = {"spec": {"template": patch}}
        return {"spec": {"jobTemplate": inner}} if kind == "CronJob" else inner

    remedies = tuple(
        replace(remedy, patch=around(remedy.patch)) if remedy.patch else remedy
        for remedy in explanation.remedies
    )
    return replace(explanation, remedies=remedies)


def _verdict(case: Case, reasons: tuple[Reason, ...]) -> Verdict:
    """The verdict of the cluster; the first question that has an answer decides."""
    decision = case.decision
    settled = next((reason for reason in reasons if reason.settles), None)
    if settled is not None:
        return Verdict.NEVER if settled.lasting else Verdict.NOT_NOW
    if decision.unmodelled or any(reason.unforeseeable for reason in reasons):
        return Verdict.UNKNOWN
    if any(reason.refuses_on(decision.chosen) for reason in reasons):
        return Verdict.NEVER
    if decision.chosen is not None:
        chosen = decision.chosen
        answers = {kubelet_takes(case, name) for name in candidates_of(case)}
        if len(answers) > 1:
            return Verdict.UNKNOWN  # whether kubelet takes it hangs on which equal node the scheduler takes
        return next(node_class.first.verdict for node_class in case.classes if chosen in node_class.members)
    if decision.gates or decision.held or decision.nominated is not None:
        return Verdict.NOT_NOW
    if decision.failed:
        return Verdict.NEVER
    against = [reason for reason in reasons if not reason.is_note]
    if not case.classes and against and not any(reason.lasting for reason in against):
        return Verdict.NOT_NOW
    verdicts = {node_class.first.verdict for node_class in case.classes}
    return next((v for v in (Verdict.NOT_NOW, Verdict.UNKNOWN) if v in verdicts), Verdict.NEVER)


def _layer(case: Case, verdict: Verdict, reasons: tuple[Reason, ...]) -> Layer:
    """The layer to look at: below the scheduler, when it only passes on what the nodes do not offer."""
    leading = next((reason.layer for reason in reasons if reason.leads), None)
    if leading is not None:
        return leading
    hopeful = [node_class.first for node_class in case.classes if node_class.first.verdict is verdict]
    layers = {node_verdict.reasons[0].layer for node_verdict in hopeful if node_verdict.reasons}
    return layers.pop() if len(layers) == 1 else Layer.SCHEDULER


def _placement(case: Case) -> Placement:
    pod, decision, view = case.pod, case.decision, case.view
    victims = tuple(own(f"{v.namespace}/{v.name}", pod.namespace) for v in decision.victims)
    nominated = decision.nominated or (pod.status.nominated_node if decision.keeps_nomination else "")
    return Placement(
        decision.chosen,
        decision.scores,
        nominated or None,
        victims,
        case.candidates if len(case.candidates) > 1 else (),
        devices_for(pod, view.nodes[decision.chosen], view) if decision.chosen else {},
    )


def _message(case: Case, placement: Placement, verdict: Verdict, reasons: tuple[Reason, ...]) -> str:
    if verdict is Verdict.FITS:
        return f"fits {_places(placement, case)}"
    against = [reason.message for reason in reasons if not reason.is_note]
    return "; ".join(against[:2]) if against else summary(case.classes)


def _places(placement: Placement, case: Case) -> str:
    """The chosen node, the others that may be taken instead, and how many more would do."""
    feasible, size = (
        len(case.decision.feasible),
        sampling.sample_size(len(case.view.nodes), case.view.settings(case.pod).percent),
    )
    candidates = placement.candidates
    names = " or ".join(sorted(candidates)[:_MOST_TIES]) + (" or …" if len(candidates) > _MOST_TIES else "")
    more = f"; {others} more would fit" if (others := feasible - max(1, len(candidates))) else ""
    if feasible > size:
        of = f"; the scheduler takes the best of the first {size} nodes that fit, from where it last stopped"
        return (f"one of {len(candidates)} nodes: {names}" if candidates else str(placement.node)) + more + of
    return (f"{names} (equal scores)" if candidates else str(placement.node)) + more


def _with_last_words(
    remedies: tuple[Remedy, ...], reasons: tuple[Reason, ...], case: Case, verdict: Verdict
) -> tuple[Remedy, ...]:
    """When nothing that can be tried helps, what the reasons themselves advise."""
    if remedies or verdict is Verdict.FITS:
        return remedies
    labels = any(
        all(isinstance(r, NodeAffinityMismatch) for r in node_class.first.reasons if r.lasting)
        for node_class in case.classes
    )
    idle = (ConditionDiffers,) if labels else (ConditionDiffers, LabelOfNobody)
    actions = (r.remedy for r in reasons if not isinstance(r, idle))
    return tuple(Remedy(action, "") for action in dict.fromkeys(actions) if action)
