"""Kinds that could not be read, where an answer would need them: nothing is guessed in their place."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.volumes import NAME as VOLUMES
from tonnage.decide.kubernetes.volumes import UNBOUND
from tonnage.diagnose.case import Case, device_needs
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Verdict

OF_CLAIMS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_OPEN = (Verdict.FITS, Verdict.NOT_NOW)


def unread_kinds(case: Case, verdict: Verdict, *, new: bool) -> Iterator[tuple[Reason, bool]]:
    """Each kind that was not read and bears on the verdict, and whether the verdict hangs on it.

    `new`: the pod is a manifest, which the API server has yet to accept.
    """
    snapshot = case.view.snapshot
    for kind in sorted(snapshot.unread_in(case.pod.namespace)):
        match kind:
            case "Node" if not (case.decision.held or case.decision.gates):
                yield _reason(case, kind, "Tonnage cannot tell where it could run"), True
            case "Pod" if verdict in _OPEN:
                yield _reason(case, kind, "Tonnage cannot tell what the nodes have free"), True
            case "Namespace" if any(_by_labels(pod) for pod in (case.pod, *snapshot.pods)):
                yield _reason(case, kind, "an affinity term chooses namespaces by their labels"), True
            case "NodeGPUStatus" if verdict in _OPEN and any(n > 1 for n in device_needs(case.pod).values()):
                message = "a node's device plugin may give out one of a shared resource at most"
                yield _reason(case, kind, message, Layer.PLUGIN), True
            case kind if kind in OF_CLAIMS and case.pod.claims:
                yield _reason(case, kind, "its resource claims cannot be judged without them"), True
            case "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass" if case.pod.volumes:
                yield _reason(case, kind, "it has volumes"), True
            case "PriorityClass" if new and case.pod.priority_class and verdict is not Verdict.FITS:
                yield _reason(case, kind, "Tonnage cannot tell which pods it may preempt"), False
            case "PodDisruptionBudget" if case.decision.victims:
                yield _reason(case, kind, "pods other than those named may have to end"), False
            case "ReplicaSet" | "StatefulSet" | "ReplicationController" | "Service" if (
                len(case.decision.feasible) > 1
            ):
                yield _reason(case, kind, "it may be spread differently over the nodes that fit"), False
            case _ if new:
                yield from _before_it_exists(case, kind, verdict)
            case _:
                pass
    yield from _not_given(case, new=new)


def nodes_not_given(case: Case) -> bool:
    """Whether some list of objects has no node, so that nobody can say that there are none."""
    snapshot = case.view.snapshot
    return not snapshot.nodes and "Node" not in snapshot.missing | snapshot.complete


def _not_given(case: Case, *, new: bool) -> Iterator[tuple[Reason, bool]]:
    """Kinds that a pod names one of, and of which some list of objects has none at all."""
    pod, snapshot = case.pod, case.view.snapshot
    listed = snapshot.missing | snapshot.complete
    if nodes_not_given(case) and not (case.decision.held or case.decision.gates):
        yield _reason(case, "Node", "Tonnage cannot tell where it could run"), True
    if new and pod.runtime_class and not snapshot.runtime_classes and "RuntimeClass" not in listed:
        message = (
            f"Tonnage cannot tell whether its runtime class {pod.runtime_class} exists, and what it adds"
        )
        yield _reason(case, "RuntimeClass", message, Layer.ADMISSION), True
    if new and pod.priority and not snapshot.priority_classes and "PriorityClass" not in listed:
        message = "it sets a priority, which only its class may do"
        yield _reason(case, "PriorityClass", message, Layer.ADMISSION), True
    if case.decision.halted_by == VOLUMES:
        yield from _volumes_not_given(case, listed)
    accounts = any(space == pod.namespace for space, _ in snapshot.service_accounts)
    own = pod.service_account not in ("", "default")
    if new and own and not accounts and "ServiceAccount" not in listed:
        message = f"Tonnage cannot tell whether its service account {pod.service_account} exists"
        yield _reason(case, "ServiceAccount", message, Layer.ADMISSION), False
    named = pod.priority_class and not pod.priority_class.startswith("system-")
    if new and named and not snapshot.priority_classes and "PriorityClass" not in listed:
        message = f"Tonnage cannot tell whether its priority class {pod.priority_class} exists"
        yield _reason(case, "PriorityClass", message, Layer.ADMISSION), False


def _volumes_not_given(case: Case, listed: frozenset[str]) -> Iterator[tuple[Reason, bool]]:
    """The first kind on which it hangs that the pod's volume claims stop it."""
    snapshot, text = case.view.snapshot, case.decision.conflict
    if not snapshot.volume_claims:
        kind, message = "PersistentVolumeClaim", "Tonnage cannot tell whether its volume claims exist"
    elif text == UNBOUND and not snapshot.storage_classes:
        kind, message = "StorageClass", "Tonnage cannot tell when its volume claims are bound"
    elif text.startswith("persistentvolume ") and not snapshot.volumes:
        kind, message = "PersistentVolume", "Tonnage cannot tell whether its volumes exist"
    else:
        return
    if kind not in listed:
        yield _reason(case, kind, message), True


def _before_it_exists(case: Case, kind: str, verdict: Verdict) -> Iterator[tuple[Reason, bool]]:
    """The same for kinds that only the API server asks about, once."""
    match kind:
        case "ResourceQuota" if verdict in _OPEN:
            yield _reason(case, kind, "a quota may refuse it", Layer.QUOTA), True
        case "LimitRange" if verdict in _OPEN:
            yield _reason(case, kind, "a limit range may refuse or change it", Layer.ADMISSION), True
        case "RuntimeClass" if case.pod.runtime_class:
            yield _reason(case, kind, "it names a runtime class", Layer.ADMISSION), True
        case "ServiceAccount" if case.pod.service_account not in ("", "default"):
            yield _reason(case, kind, "it names a service account", Layer.ADMISSION), True
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            yield _reason(case, kind, "a webhook may change or refuse it", Layer.ADMISSION), False
        case "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding":
            yield _reason(case, kind, "a policy may refuse it", Layer.ADMISSION), False
        case _:
            pass


def _by_labels(pod: Pod) -> bool:
    """Whether an inter-pod term of the pod selects namespaces by label."""
    weighed = (preferred.term for preferred in pod.affinity.pods_preferred)
    terms = (*pod.affinity.pods, *pod.affinity.anti, *weighed)
    return any(term.namespace_selector is not None for term in terms)


def has_read(kind: str, snapshot: Snapshot, namespace: str) -> bool:
    """Whether all objects of a kind in a namespace are here."""
    return kind not in snapshot.missing | snapshot.unserved or snapshot.scopes.get(kind) == namespace


def unread_text(kind: str, snapshot: Snapshot) -> str:
    """That objects of a kind are not here, and whether the API server refused them.

    >>> unread_text("Node", Snapshot(forbidden=frozenset({"Node"})))
    'Node objects were not read (forbidden)'
    >>> unread_text("Pod", Snapshot(forbidden=frozenset({"Pod"}), scopes={"Pod": "ml"}))
    'Pod objects outside namespace ml were not read (forbidden)'
    """
    if kind in snapshot.unserved:
        return f"the API server has no {kind} at version resource.k8s.io/v1"
    if kind not in snapshot.forbidden:
        return f"objects of kind {kind} were not read"
    scope = snapshot.scopes.get(kind)
    return f"{kind} objects{f' outside namespace {scope}' if scope else ''} were not read (forbidden)"


def unread_remedy(kind: str, snapshot: Snapshot) -> str:
    """Who could give them."""
    if kind in snapshot.unserved:
        return "upgrade to Kubernetes 1.34, or ask for devices by resource name (nvidia.com/gpu)"
    if kind in snapshot.forbidden:
        return "ask an administrator for the role that tonnage access prints"
    return f"add the objects of kind {kind}, or get the right to list them in all namespaces"


def cluster_unseen(snapshot: Snapshot) -> bool:
    """Whether what the nodes are, or what runs on them, is not known: then nothing can be counted."""
    return bool(snapshot.missing & {"Node", "Pod"})


def _reason(case: Case, kind: str, message: str, layer: Layer = Layer.SCHEDULER) -> Reason:
    snapshot = case.view.snapshot
    return KindNotRead(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"{unread_text(kind, snapshot)}: {message}",
        remedy=unread_remedy(kind, snapshot),
        source="the API server's refusal",
        layer=layer,
        kind=kind,
    )
