"""PodSecurity: the level that a namespace enforces, and what a pod violates of it.

Exemptions of the server's own configuration cannot be seen; a namespace without the label is judged by none.

Source: k8s.io/pod-security-admission (policy/registry.go, api/helpers.go), 1.34 to 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.kubernetes.admission import security_checks as usual
from tonnage.decide.kubernetes.admission import security_options as rare
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal, subject_of
from tonnage.decide.kubernetes.admission.written_pod import Finding, WrittenPod, written_pod
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.reasons.pod.admission import PodSecurityViolation

PREFIX: Final = "pod-security.kubernetes.io/"
ENFORCE: Final = f"{PREFIX}enforce"
_MINOR: Final = re.compile(r"v1\.([0-9]{1,3})")
_LEVELS: Final = ("privileged", "baseline", "restricted")

_Check = Callable[[WrittenPod], Finding]


@dataclass(frozen=True, slots=True)
class PodSecurityLevel:
    """What a namespace demands of its pods in one mode; shown as `restricted:latest`."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def strictness(self) -> int:
        """0 of privileged, 2 of restricted."""
        return _LEVELS.index(self.level)


@dataclass(frozen=True, slots=True)
class PodSecurityPolicy:
    """A namespace's demands: what it refuses, what its audit log notes, of what it warns.

    `unread`: labels of no meaning, each with its value and what it must be; they count as the strictest that
    is enforced, and as nothing of which is warned.
    """

    enforce: PodSecurityLevel = field(default_factory=PodSecurityLevel)
    audit: PodSecurityLevel = field(default_factory=PodSecurityLevel)
    warn: PodSecurityLevel = field(default_factory=PodSecurityLevel)
    unread: tuple[tuple[str, str, str], ...] = ()


def policy_of(labels: Labels) -> PodSecurityPolicy:
    """What the labels of a namespace demand.

    >>> str(policy_of({"pod-security.kubernetes.io/enforce": "baseline"}).warn)
    'baseline:latest'
    """
    unread: list[tuple[str, str, str]] = []
    levels: dict[str, PodSecurityLevel] = {}
    for mode in ("enforce", "audit", "warn"):
        level = labels.get(f"{PREFIX}{mode}", "privileged")
        if level not in _LEVELS:
            unread.append((f"{PREFIX}{mode}", level, f"must be one of {', '.join(_LEVELS)}"))
            level = "restricted" if mode == "enforce" else "privileged"
        version = labels.get(f"{PREFIX}{mode}-version", "latest")
        if version != "latest" and not _MINOR.fullmatch(version):
            unread.append((f"{PREFIX}{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = "latest"
        levels[mode] = PodSecurityLevel(level, version)
    enforced, warned = levels["enforce"], levels["warn"]
    if f"{PREFIX}warn" not in labels and labels.get(ENFORCE) in _LEVELS[1:]:
        has_version = f"{PREFIX}warn-version" in labels
        warned = PodSecurityLevel(enforced.level, warned.version if has_version else enforced.version)
    return PodSecurityPolicy(enforced, levels["audit"], warned, tuple(unread))


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
    def listed(self) -> str:
        """What is violated, with its details."""
        return ", ".join(
            f"{violation} ({detail})" if detail else violation for violation, detail in self.violations
        )

    def refusal_of(self, manifest: Manifest) -> AdmissionRefusal:
        """The refusal of a manifest that violates it."""
        namespace = manifest.pod.namespace
        violations = "; ".join(
            f"{violation}: {detail}" if detail else violation for violation, detail in self.violations
        )
        reason = PodSecurityViolation(
            subject=subject_of(manifest),
            message=f"the namespace {namespace} enforces pod security {self.policy}, and the pod violates "
            f"it: {violations}",
            remedy=f"set what is named in the pod, or relax the label {ENFORCE} of the namespace",
            source="API server, PodSecurity admission",
            policy=self.policy,
            violations=tuple(violation for violation, _ in self.violations),
        )
        return AdmissionRefusal(self.text, reason)

    @property
    def text(self) -> str:
        """The server's words."""
        return f'violates PodSecurity "{self.policy}": {self.listed}'


def violation(template: JsonObject, labels: Labels, *, minor: int) -> Insecure | None:
    """What a pod, or the pods of a template, violate in a namespace with these labels.

    `minor`: of the API server. A level or version that cannot be read counts as the strictest and latest.
    """
    return against(template, policy_of(labels).enforce, minor=minor)


def against(template: JsonObject, demand: PodSecurityLevel, *, minor: int) -> Insecure | None:
    """What a pod, or the pods of a template, violate of a demand."""
    if demand.level == "privileged":
        return None
    match = _MINOR.fullmatch(demand.version)
    pod = written_pod(template)
    checks = _checks(demand.level, min(int(match[1]), minor) if match else minor)
    violations = tuple(finding for check in checks if (finding := check(pod)) is not None)
    return Insecure(demand.level, demand.version, violations) if violations else None


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
