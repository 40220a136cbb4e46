"""More checks of the Pod Security Standards: the rarer options of security contexts, probes and volumes.

Source: k8s.io/pod-security-admission/policy, 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
)
from tonnage.model.json import JsonObject

_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS: Final = (
    (0, "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem net.ipv4.tcp_wmem"),
    (37, "net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_notsent_lowat"),
)
"""Safe ones, by the minor that they came with."""


def app_armor(pod: WrittenPod) -> Finding:
    """No AppArmor profile that lets everything through, by field or by annotation."""
    allowed = {None, "RuntimeDefault", "Localhost"}
    setters = setters_of(pod, lambda context: profile_of(context, "appArmorProfile") not in allowed)
    contexts = (pod.context, *map(context_of, pod.containers))
    values = sorted(
        {p for context in contexts if (p := profile_of(context, "appArmorProfile")) not in allowed and p}
    )
    noted = sorted(
        f'{key}="{value}"'
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR)
        and str(value) not in ("", "runtime/default")
        and not str(value).startswith("localhost/")
    )
    setters += [plural("annotation", len(noted))] if noted else []
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted([*values, *noted])}"
    return (plural("forbidden AppArmor profile", len(values) + len(noted)), detail) if setters else None


def selinux(*more: str) -> Callable[[WrittenPod], Finding]:
    """The check that SELinux options are left alone but for container types and `more`."""
    allowed = _SELINUX_TYPES | set(more)

    def check(pod: WrittenPod) -> Finding:
        def options(context: JsonObject) -> JsonObject:
            return mapping(context.get("seLinuxOptions"))

        def bad(context: JsonObject) -> bool:
            own = options(context)
            return str(own.get("type", "")) not in allowed or any(own.get(k) for k in ("user", "role"))

        setters = setters_of(pod, bad)
        all_options = [options(context) for context in (pod.context, *map(context_of, pod.containers))]
        types = sorted({str(row.get("type", "")) for row in all_options} - allowed)
        faults = [f"{plural('type', len(types))} {quoted(types)}"] if types else []
        faults += [
            f"{name} may not be set" for name in ("user", "role") if any(row.get(name) for row in all_options)
        ]
        detail = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(faults)}"
        return ("seLinuxOptions", detail) if setters else None

    return check


def proc_mount(pod: WrittenPod) -> Finding:
    """The usual masks over /proc."""
    allowed = (None, "Default")
    bad = [c for c in pod.containers if context_of(c).get("procMount") not in allowed]
    kinds = sorted({str(context_of(c).get("procMount")) for c in bad})
    detail = f"{named_containers(names_of(bad))} must not set securityContext.procMount to {quoted(kinds)}"
    return ("procMount", detail) if bad else None


def safe_sysctls(minor: int) -> frozenset[str]:
    """Sysctls that are a pod's own and of no harm to others, as of a minor release.

    Source: Kubernetes 1.35, pkg/kubelet/sysctl/safe_sysctls.go, which has the same.
    """
    return frozenset(name for since, names in _SYSCTLS if since <= minor for name in names.split())


def sysctls(minor: int) -> Callable[[WrittenPod], Finding]:
    """The check that only sysctls are set that are safe as of a minor release."""
    allowed = safe_sysctls(minor)

    def check(pod: WrittenPod) -> Finding:
        names = [str(sysctl.get("name", "")) for sysctl in mappings(pod.context.get("sysctls"))]
        bad = [name for name in names if name not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def host_process(pod: WrittenPod) -> Finding:
    """No processes of a Windows host."""
    setters = setters_of(pod, lambda c: mapping(c.get("windowsOptions")).get("hostProcess") is True)
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", detail) if setters else None


def volume_types(pod: WrittenPod) -> Finding:
    """Only volumes of the cluster's own making."""
    bad = [v for v in mappings(pod.spec.get("volumes")) if not any(v.get(t) is not None for t in _VOLUMES)]
    names = [str(volume.get("name", "")) for volume in bad]
    kinds = sorted({_type_of(volume) for volume in bad})
    detail = f"{plural('volume', len(names))} {quoted(names)} {_verb(names)} "
    detail += f"{plural('restricted volume type', len(kinds))} {quoted(kinds)}"
    return ("restricted volume types", detail) if bad else None


def _type_of(volume: JsonObject) -> str:
    return next((key for key, value in volume.items() if key != "name" and value is not None), "unknown")


def _verb(names: list[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def probe_hosts(pod: WrittenPod) -> Finding:
    """Probes and hooks that ask the container itself."""
    by_container = {str(c.get("name", "")): set(_hosts(c)) for c in pod.containers}
    names = sorted(name for name, hosts in by_container.items() if hosts)
    hosts = sorted({host for group in by_container.values() for host in group})
    containers = named_containers(names)
    detail = f"{containers} {_verb(names)} {plural('probe or lifecycle host', len(hosts))} {quoted(hosts)}"
    return ("probe or lifecycle host", detail) if names else None


def _hosts(container: JsonObject) -> Iterator[str]:
    hooks = mapping(container.get("lifecycle"))
    handlers = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
    for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
        for way in ("httpGet", "tcpSocket"):
            host = mapping(mapping(handler).get(way)).get("host")
            if host:
                yield str(host)
