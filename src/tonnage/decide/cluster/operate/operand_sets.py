"""OPR-4: DaemonSets under the names that people of NVIDIA's operator type; their pods follow the agent.

Source: NVIDIA/gpu-operator, assets/state-*/0*_daemonset.yaml (v26.7).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.decide.cluster.operate.dcgm import dcgm_pod
from tonnage.decide.cluster.operate.drift import has_kept
from tonnage.decide.cluster.operate.node_pod import owner_reference
from tonnage.model.actions.cluster import ApplyObject, DeleteObject
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping
from tonnage.model.operands import (
    APPLIED_HASH,
    DCGM,
    DEPLOY,
    LOG_FILE,
    OPERAND_LABEL,
    OPERAND_LOGS,
    OPERANDS,
    READY_FILE,
    Operand,
    OperandImage,
    SeenObject,
)
from tonnage.model.reasons.cluster.operator import OperandNamesTaken, RuntimeClassTaken

KIND: Final = "DaemonSet"
_CLASS: Final = "RuntimeClass"
TOOLKIT: Final = "container-toolkit"
_ANYBODY: Final = 65532
_LINES: Final = "1000"


@dataclass(frozen=True, slots=True)
class OperandSets:
    """What to do, and why names cannot be had, or lead elsewhere."""

    applied: tuple[ApplyObject, ...] = ()
    deleted: tuple[DeleteObject, ...] = ()
    refusal: OperandNamesTaken | RuntimeClassTaken | None = None


def operand_sets(
    policy: GpuPolicy, image: OperandImage, namespace: str, there: Iterable[SeenObject]
) -> OperandSets:
    """How the namespace's DaemonSets follow the policy; one of another's with the same name stays."""
    standing = {owned.name: owned for owned in there}
    changes = set_changes(policy, standing.values())
    bodies = {
        operand.daemon_set: _daemon_set(operand, policy, image, namespace)
        for operand in _due(policy)
        if operand.daemon_set not in changes.others
    }
    applied = tuple(
        ApplyObject.of(body)
        for name, body in bodies.items()
        if name not in standing or _differs(standing[name], body)
    )
    deleted = tuple(DeleteObject(KIND, name, standing[name].uid, namespace) for name in changes.delete)
    refusal = _names_taken(sorted(changes.others), namespace) if changes.others else None
    return OperandSets(applied, deleted, refusal)


def _due(policy: GpuPolicy) -> Iterator[Operand]:
    """The operands that have a DaemonSet."""
    yield from (operand for operand in OPERANDS.values() if operand.part in policy.operands.parts)
    if policy.operands.dcgm is not None:
        yield DCGM


def _names_taken(names: Sequence[str], namespace: str) -> OperandNamesTaken:
    message = (
        f"DaemonSets {', '.join(names)} in {namespace} are another's, so no pod there follows Tonnage's"
        f" agents; {OperandNamesTaken.advice}"
    )
    subject = f"Namespace {namespace}"
    return OperandNamesTaken(subject=subject, message=message, daemon_sets=tuple(names), namespace=namespace)


def _differs(standing: SeenObject, body: JsonObject) -> bool:
    if standing.digest != _digest_in(body):
        return True
    return bool(standing.template) and not has_kept(standing.template, mapping(body, "spec", "template"))


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """Objects of a kind by name: those to make, those of ours to delete, and those that are another's."""

    create: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def set_changes(policy: GpuPolicy, there: Iterable[SeenObject]) -> ObjectChanges:
    """What becomes of DaemonSets under NVIDIA's names, whatever their pods run."""
    return _changes((operand.daemon_set for operand in _due(policy)), there)


def class_changes(policy: GpuPolicy, there: Iterable[SeenObject]) -> ObjectChanges:
    """What becomes of RuntimeClasses."""
    return _changes(policy.runtime_classes, there)


def _changes(names: Iterable[str], there: Iterable[SeenObject]) -> ObjectChanges:
    standing = {owned.name: owned for owned in there}
    due = tuple(names)
    return ObjectChanges(
        tuple(name for name in due if name not in standing),
        tuple(sorted(name for name, owned in standing.items() if owned.part and name not in due)),
        tuple(name for name in due if name in standing and not standing[name].part),
    )


def remaining_sets(namespace: str, there: Iterable[SeenObject]) -> OperandSets:
    """Without a policy: ours go."""
    deleted = (DeleteObject(KIND, owned.name, owned.uid, namespace) for owned in there if owned.part)
    return OperandSets(deleted=tuple(deleted))


def remaining_classes(there: Iterable[SeenObject]) -> OperandSets:
    """Without a policy: ours go."""
    deleted = (DeleteObject(_CLASS, owned.name, owned.uid) for owned in there if owned.part == TOOLKIT)
    return OperandSets(deleted=tuple(deleted))


def _daemon_set(operand: Operand, policy: GpuPolicy, image: OperandImage, namespace: str) -> JsonObject:
    settings = policy.operands
    own: JsonObject = {"app": operand.daemon_set, OPERAND_LABEL: operand.part}
    labels: JsonObject = {**settings.labels, **own}
    selector: JsonObject = {"matchLabels": {"app": operand.daemon_set}}
    template: JsonObject = {
        "metadata": {"labels": labels, "annotations": dict(settings.annotations)},
        "spec": dcgm_pod(policy) if operand is DCGM else _pod(operand, policy, image),
    }
    spec: JsonObject = {
        "selector": selector,
        "updateStrategy": dict(settings.update_strategy),
        "template": template,
    }
    metadata: JsonObject = {
        "name": operand.daemon_set,
        "namespace": namespace,
        "labels": labels,
        "annotations": {APPLIED_HASH: _digest(spec, policy.uid)},
        "ownerReferences": [_owner(policy)],
    }
    return {"apiVersion": "apps/v1", "kind": KIND, "metadata": metadata, "spec": spec}


def _pod(operand: Operand, policy: GpuPolicy, image: OperandImage) -> JsonObject:
    folder = f"{OPERAND_LOGS}/{operand.part}"
    tolerations: list[JsonValue] = [dict(toleration) for toleration in policy.operands.tolerations]
    security: JsonObject = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    container: JsonObject = {
        "name": operand.container,
        "image": image.path,
        "command": ["tail"],
        "args": ["-n", _LINES, "-F", f"{folder}/{LOG_FILE}"],
        "readinessProbe": {
            "exec": {"command": ["tail", "-n", "0", f"{folder}/{READY_FILE}"]},
            "periodSeconds": 10,
            "failureThreshold": 1,
        },
        "resources": {"requests": {"cpu": "1m", "memory": "2Mi"}, "limits": {"memory": "16Mi"}},
        "securityContext": security,
        "volumeMounts": [{"name": "part", "mountPath": folder, "readOnly": True}],
    }
    return {
        **image.pull_fields(),
        "nodeSelector": {f"{DEPLOY}{operand.part}": "true"},
        "tolerations": tolerations,
        "priorityClassName": policy.operands.priority_class,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,  # tail, as the first process, does not heed SIGTERM
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _ANYBODY,
            "runAsGroup": _ANYBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "part", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}],
    }


def runtime_classes(policy: GpuPolicy, there: Iterable[SeenObject]) -> OperandSets:
    """The RuntimeClasses that pods of NVIDIA's users name; those that somebody else made stay as they are.

    Nobody can change a handler: one of ours that was made anew with another goes, and comes back.
    """
    standing = {owned.name: owned for owned in there}
    changes = class_changes(policy, standing.values())
    applied = tuple(ApplyObject.of(_runtime_class(name, policy)) for name in changes.create)
    wrong = [owned.name for owned in standing.values() if owned.part and owned.handler != owned.name]
    gone = sorted({*changes.delete, *wrong})
    deleted = tuple(DeleteObject(_CLASS, name, standing[name].uid) for name in gone)
    return OperandSets(applied, deleted, _classes_taken([standing[name] for name in changes.others]))


def _classes_taken(others: Iterable[SeenObject]) -> RuntimeClassTaken | None:
    """Those of others whose handler is not the runtime's of that name."""
    handlers = {owned.name: owned.handler for owned in others if owned.handler != owned.name}
    if not handlers:
        return None
    words = "; ".join(
        f"RuntimeClass {name} is another's and leads to handler {handler}, not {name}"
        for name, handler in handlers.items()
    )
    message = f"{words}; {RuntimeClassTaken.advice}"
    return RuntimeClassTaken(subject="RuntimeClasses", message=message, handlers=handlers)


def _runtime_class(name: str, policy: GpuPolicy) -> JsonObject:
    metadata: JsonObject = {
        "name": name,
        "labels": {OPERAND_LABEL: TOOLKIT},
        "ownerReferences": [_owner(policy)],
    }
    return {"apiVersion": "node.k8s.io/v1", "kind": _CLASS, "metadata": metadata, "handler": name}


def _owner(policy: GpuPolicy) -> JsonObject:
    """The policy, which is the only one that cares for it."""
    return {**owner_reference(policy), "controller": True, "blockOwnerDeletion": False}


def _digest(spec: JsonObject, owner: str) -> str:
    text = json.dumps([spec, owner], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_in(body: Mapping[str, JsonValue]) -> str:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    annotations = metadata["annotations"]
    assert isinstance(annotations, dict)
    return str(annotations[APPLIED_HASH])
