"""As whom a container runs, and whether it may.

Source: Kubernetes 1.35, pkg/securitycontext, pkg/kubelet/kuberuntime/security_context.go.
"""

from __future__ import annotations

from typing import Any

from tonnage.twin.kubelet.containers.images import runs_as_root
from tonnage.wire.objects import Container, Pod


def user_of(pod: Pod, container: Container) -> dict[str, Any]:
    """User and groups. Images are taken to run as root."""
    wanted, whole = _wanted(pod, container), pod.spec.security_context or {}
    gid = wanted.get("runAsGroup") or 0
    shared = whole.get("fsGroup")
    groups = [gid, *([] if shared is None else [shared]), *(whole.get("supplementalGroups") or ())]
    return {
        "uid": wanted.get("runAsUser") or 0,
        "gid": gid,
        "supplementalGroups": list(dict.fromkeys(groups)),
    }


def root_refusal(pod: Pod, container: Container) -> str:
    """Why a container that must not run as root cannot start; empty when it can.

    Of most images nobody knows here whom they run as: those may start.
    """
    wanted, meta = _wanted(pod, container), pod.metadata
    where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    if not wanted.get("runAsNonRoot"):
        return ""
    if wanted.get("runAsUser") == 0:
        return f"container's runAsUser breaks non-root policy {where}"
    if wanted.get("runAsUser") is None and runs_as_root(container.image):
        return f"container has runAsNonRoot and image will run as root {where}"
    return ""


def _wanted(pod: Pod, container: Container) -> dict[str, Any]:
    """What the container's security context says, else the pod's."""
    return {**(pod.spec.security_context or {}), **(container.security_context or {})}
