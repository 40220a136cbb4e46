"""The checks of the Pod Security Standards that people meet, each a function of a pod as it is written.

Source: k8s.io/pod-security-admission/policy, 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.admission.written_pod import (
    Finding,
    WrittenPod,
    context_of,
    mapping,
    mappings,
    named_containers,
    names_of,
    plural,
    profile_of,
    quoted,
    setters_of,
    texts,
)
from tonnage.model.json import JsonObject


def host_namespaces(pod: WrittenPod) -> Finding:
    """No network, processes or IPC of the host."""
    used = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name) is True]
    return ("host namespaces", ", ".join(used)) if used else None


def host_ports(pod: WrittenPod) -> Finding:
    """No ports of the host."""
    bad = {
        str(c.get("name", "")): [str(p["hostPort"]) for p in mappings(c.get("ports")) if p.get("hostPort")]
        for c in pod.containers
    }
    names = [name for name, ports in bad.items() if ports]
    ports = sorted({port for container_ports in bad.values() for port in container_ports})
    verb = "uses" if len(names) == 1 else "use"
    detail = f"{named_containers(names)} {verb} {plural('hostPort', len(ports))} {', '.join(ports)}"
    return ("hostPort", detail) if names else None


def host_paths(pod: WrittenPod) -> Finding:
    """No volumes out of the host's file system."""
    names = [
        str(v.get("name", "")) for v in mappings(pod.spec.get("volumes")) if v.get("hostPath") is not None
    ]
    return ("hostPath volumes", f"{plural('volume', len(names))} {quoted(names)}") if names else None


def privileged(pod: WrittenPod) -> Finding:
    """No privileged containers."""
    names = names_of(c for c in pod.containers if context_of(c).get("privileged") is True)
    return (
        ("privileged", f"{named_containers(names)} must not set securityContext.privileged=true")
        if names
        else None
    )


_DEFAULT_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)


def _listed(container: JsonObject, field: str) -> list[str]:
    return texts(mapping(context_of(container).get("capabilities")).get(field))


def _adding(pod: WrittenPod, allowed: frozenset[str]) -> tuple[list[str], str]:
    bad = [c for c in pod.containers if not allowed.issuperset(_listed(c, "add"))]
    more = sorted({capability for c in bad for capability in _listed(c, "add")} - allowed)
    names = names_of(bad)
    return (
        names,
        f"{named_containers(names)} must not include {quoted(more)} in securityContext.capabilities.add",
    )


def capabilities_baseline(pod: WrittenPod) -> Finding:
    """No capability beyond the default ones."""
    names, detail = _adding(pod, _DEFAULT_CAPABILITIES)
    return ("non-default capabilities", detail) if names else None


def capabilities_restricted(pod: WrittenPod) -> Finding:
    """All dropped, and none added but one."""
    if pod.windows:
        return None
    keeping = names_of(
        c
        for c in pod.containers
        if "ALL" not in texts(mapping(context_of(c).get("capabilities")).get("drop"))
    )
    adding, detail = _adding(pod, frozenset({"NET_BIND_SERVICE"}))
    details = (
        [f'{named_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    )
    details += [detail] if adding else []
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def escalation(pod: WrittenPod) -> Finding:
    """Privilege escalation forbidden in every container."""
    if pod.windows:
        return None
    names = names_of(c for c in pod.containers if context_of(c).get("allowPrivilegeEscalation") is not False)
    detail = f"{named_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", detail) if names else None


def non_root(pod: WrittenPod) -> Finding:
    """Every container runs as another user than root."""
    setters = setters_of(pod, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return (
            "runAsNonRoot != true",
            f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false",
        )
    if pod.context.get("runAsNonRoot") is True:
        return None
    names = names_of(c for c in pod.containers if context_of(c).get("runAsNonRoot") is None)
    detail = f"pod or {named_containers(names)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", detail) if names else None


def run_as_user(pod: WrittenPod) -> Finding:
    """Nobody says that it runs as user 0."""
    setters = setters_of(pod, lambda context: context.get("runAsUser") == 0)
    return ("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def unless_own_users(check: Callable[[WrittenPod], Finding]) -> Callable[[WrittenPod], Finding]:
    """The check, which pods with a user namespace of their own pass."""
    return lambda pod: None if pod.own_users else check(pod)


_SECCOMP: Final = ("RuntimeDefault", "Localhost")


def seccomp_baseline(pod: WrittenPod) -> Finding:
    """No seccomp profile that lets everything through."""
    bad = {None, *_SECCOMP}
    setters = setters_of(pod, lambda context: profile_of(context, "seccompProfile") not in bad)
    values = {
        value
        for context in (pod.context, *map(context_of, pod.containers))
        if (value := profile_of(context, "seccompProfile")) is not None and value not in _SECCOMP
    }
    field = "securityContext.seccompProfile.type"
    detail = f"{' and '.join(setters)} must not set {field} to {quoted(sorted(values))}"
    return ("seccompProfile", detail) if setters else None


def seccomp_restricted(pod: WrittenPod) -> Finding:
    """Every container has a seccomp profile, and none lets everything through."""
    if pod.windows:
        return None
    explicit = seccomp_baseline(pod)
    if explicit is not None or profile_of(pod.context, "seccompProfile") in _SECCOMP:
        return explicit
    names = names_of(c for c in pod.containers if context_of(c).get("seccompProfile") is None)
    field = "securityContext.seccompProfile.type"
    detail = f'pod or {named_containers(names)} must set {field} to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", detail) if names else None
