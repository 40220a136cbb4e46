"""How the server says that it is well: as a whole, check by check, and one check alone.

The checks have the names of a genuine server's, whose parts the twin has in one.

Source: k8s.io/apiserver pkg/server/healthz, pkg/server/hooks.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ROOTS: Final = ("healthz", "livez", "readyz")
_HOOKS: Final = (
    "start-apiserver-admission-initializer", "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer", "priority-and-fairness-filter",
    "storage-object-count-tracker-hook", "start-apiextensions-informers", "start-apiextensions-controllers",
    "crd-informer-synced", "start-system-namespaces-controller",
    "start-cluster-authentication-info-controller", "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector", "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers", "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes", "priority-and-fairness-config-producer",
    "bootstrap-controller", "start-kubernetes-service-cidr-controller", "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller", "apiservice-status-remote-available-controller",
    "apiservice-registration-controller", "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
)  # fmt: skip
_LATER_HOOKS: Final = ("apiservice-openapi-controller", "apiservice-openapiv3-controller")


def checks(root: str) -> list[str]:
    """The checks of `healthz`, `livez` or `readyz`, in their order."""
    ready = root == "readyz"
    return [
        *("ping", "log", "etcd"),
        *(("etcd-readiness", "informer-sync") if ready else ()),
        *(f"poststarthook/{name}" for name in _HOOKS),
        "autoregister-completion",
        *(f"poststarthook/{name}" for name in _LATER_HOOKS),
        *(("shutdown",) if ready else ()),
    ]


def health_answer(root: str, *, verbose: bool, excluded: Sequence[str] = ()) -> str:
    """The answer of one of the roots."""
    if not verbose:
        return "ok"
    names = checks(root)
    lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in names]
    strange = [f'"{name}"' for name in sorted(set(excluded) - set(names))]
    if strange:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {','.join(strange)}")
    return "\n".join([*lines, f"{root} check passed\n"])
