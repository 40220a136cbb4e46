"""Pod Security admission: the level that a namespace enforces, and what a pod violates of it.

Exemptions of the server's own configuration cannot be seen; a namespace without the label is judged by none.

Source: k8s.io/pod-security-admission (policy/registry.go, api/helpers.go), 1.34 to 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonnage.decide.cluster.admission import security_checks as usual
from tonnage.decide.cluster.admission import security_options as rare
from tonnage.decide.cluster.admission.written_pod import Finding, WrittenPod, written_pod
from tonnage.model.json import JsonObject
from tonnage.model.selectors import Labels

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_VERSION: Final = f"{ENFORCE}-version"
_MINOR: Final = re.compile(r"v1\.([0-9]{1,3})")
_LEVELS: Final = ("privileged", "baseline", "restricted")

_Check = Callable[[WrittenPod], Finding]


@dataclass(frozen=True, slots=True)
class Insecure:
    """A pod that violates the level its namespace enforces: each violation with its detail."""

    level: str
    version: str
    violations: tuple[tuple[str, str], ...]

    @property
    def policy(self) -> str:
        """`restricted:latest`."""
        return f"{self.level}:{self.version}"

    @property
    def text(self) -> str:
        """The server's words."""
        told = ", ".join(f"{what} ({detail})" if detail else what for what, detail in self.violations)
        return f'violates PodSecurity "{self.policy}": {told}'


def violation(template: JsonObject, labels: Labels, *, minor: int) -> Insecure | None:
    """What a pod, or the pods of a template, violate in a namespace with these labels.

    `minor`: of the API server. A level or version that cannot be read counts as the strictest and latest.
    """
    if ENFORCE not in labels:
        return None
    level = labels[ENFORCE] if labels[ENFORCE] in _LEVELS else "restricted"
    if level == "privileged":
        return None
    match = _MINOR.fullmatch(labels.get(_VERSION, ""))
    version = match[0] if match else "latest"
    pod = written_pod(template)
    checks = _checks(level, min(int(match[1]), minor) if match else minor)
    found = tuple(finding for check in checks if (finding := check(pod)) is not None)
    return Insecure(level, version, found) if found else None


def _checks(level: str, minor: int) -> tuple[_Check, ...]:
    """The checks of a level as of a minor release: those of baseline by name, then those of restricted."""
    restricted = level == "restricted"
    own_users = minor >= 35
    baseline: tuple[tuple[bool, _Check], ...] = (
        (True, rare.app_armor),
        (not (restricted and minor >= 22), usual.capabilities_baseline),
        (True, usual.host_namespaces),
        (not restricted, usual.host_paths),
        (True, usual.host_ports),
        (minor >= 34, rare.probe_hosts),
        (True, usual.privileged),
        (
            not (restricted and own_users),
            usual.unless_own_users(rare.proc_mount) if own_users else rare.proc_mount,
        ),
        (True, rare.selinux("container_engine_t") if minor >= 31 else rare.selinux()),
        (minor >= 19 and not restricted, usual.seccomp_baseline),
        (True, rare.sysctls(minor)),
        (True, rare.host_process),
    )
    strict: tuple[tuple[bool, _Check], ...] = (
        (minor >= 8, usual.escalation),
        (minor >= 22, usual.capabilities_restricted),
        (own_users, rare.proc_mount),
        (True, rare.volume_types),
        (True, usual.unless_own_users(usual.non_root) if own_users else usual.non_root),
        (minor >= 23, usual.unless_own_users(usual.run_as_user) if own_users else usual.run_as_user),
        (minor >= 19, usual.seccomp_restricted),
    )
    rows = (*baseline, *strict) if restricted else baseline
    return tuple(check for applies, check in rows if applies)
