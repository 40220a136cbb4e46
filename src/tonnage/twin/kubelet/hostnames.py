"""GeneratePodHostNameAndDomain: what a pod's containers think they are called.

Source: Kubernetes 1.35, pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain).
"""

from __future__ import annotations

from typing import Final

from tonnage.wire.objects import Pod

_LONGEST: Final = 63
_DOMAIN: Final = "svc.cluster.local"


def hostname_of(pod: Pod) -> str:
    """The name that `hostname` prints."""
    return whole_hostname_of(pod) if pod.spec.set_hostname_as_fqdn else _short(pod)


def whole_hostname_of(pod: Pod) -> str:
    """The name that `hostname -f` prints, with the domain if the pod has one."""
    spec = pod.spec
    if not spec.subdomain or spec.host_network or spec.hostname_override:
        return _short(pod)
    return f"{_short(pod)}.{spec.subdomain}.{pod.metadata.namespace}.{_DOMAIN}"


def _short(pod: Pod) -> str:
    spec = pod.spec
    if spec.host_network:
        return spec.node_name
    name = spec.hostname_override or spec.hostname or pod.metadata.name
    return name if len(name) <= _LONGEST else name[:_LONGEST].rstrip("-.")
