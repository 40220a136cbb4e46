"""DetermineEffectiveSecurityContext: as whom a container runs, and whether it may.

Source: Kubernetes 1.35, pkg/securitycontext, pkg/kubelet/kuberuntime/security_context.go.
"""

from __future__ import annotations

from typing import Any

from tonnage.twin.kubelet.containers.images import runs_as_root
from tonnage.wire.objects import Container, Pod


def user_of(pod: Pod, container: Container) -> dict[str, Any]:
    """User and groups. Images are taken to run as root."""
    context, whole = _security_context(pod, container), pod.spec.security_context or {}
    gid = context.get("runAsGroup") or 0
    shared = whole.get("fsGroup")
    groups = [gid, *([] if shared is None else [shared]), *(whole.get("supplementalGroups") or ())]
    return {
        "uid": context.get("runAsUser") or 0,
        "gid": gid,
        "supplementalGroups": list(dict.fromkeys(groups)),
    }


def root_refusal(pod: Pod, container: Container) -> str:
    """Why a container that must not run as root cannot start; empty when it can.

    Of most images nobody knows here whom they run as: those may start.
    """
    context, meta = _security_context(pod, container), pod.metadata
    where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    if not context.get("runAsNonRoot"):
        return ""
    if context.get("runAsUser") == 0:
        return f"container's runAsUser breaks non-root policy {where}"
    if context.get("runAsUser") is None and runs_as_root(container.image):
        return f"container has runAsNonRoot and image will run as root {where}"
    return ""


def _security_context(pod: Pod, container: Container) -> dict[str, Any]:
    """What the container's security context says, else the pod's."""
    return {**(pod.spec.security_context or {}), **(container.security_context or {})}
