"""What a request for a certificate must be like to be a kubelet's, or that of any client.

Source: k8s.io/kubernetes pkg/apis/certificates/helpers.go, pkg/controller/certificates/signer (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cryptography.x509 import (
    CertificateSigningRequest,
    DNSName,
    ExtensionNotFound,
    GeneralName,
    IPAddress,
    RFC822Name,
    SubjectAlternativeName,
    UniformResourceIdentifier,
)
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tonnage.model.well_known import CLIENT_SIGNER

KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVER: Final = "kubernetes.io/kubelet-serving"
_SIGNATURE: Final = "digital signature"
_ENCIPHERMENT: Final = "key encipherment"
_NODE: Final = "system:node:"
_OTHER_NAMES: Final[tuple[tuple[type[GeneralName], str], ...]] = (
    (DNSName, "DNS"),
    (RFC822Name, "Email"),
    (IPAddress, "IP"),
    (UniformResourceIdentifier, "URI"),
)


def common_name(request: CertificateSigningRequest) -> str:
    """The name of whom the certificate is to be of; the last one, if there are several."""
    return next(iter(reversed(_named(request, NameOID.COMMON_NAME))), "")


def fault_of(request: CertificateSigningRequest, signer: str, usages: list[str]) -> str:
    """Why a signer of Kubernetes does not sign it, empty if it does."""
    found: tuple[str, ...] = ()
    name = (
        "" if common_name(request).startswith(_NODE) else f"subject common name does not begin with {_NODE}"
    )
    if signer == CLIENT_SIGNER:
        found = (_client_fault(usages),)
    elif signer == KUBELET_CLIENT:
        found = (_group_fault(request), _extra_fault(request), name, _usage_fault(usages, "client auth"))
    elif signer == KUBELET_SERVER:
        lacking = "" if _has(request, DNSName, IPAddress) else "DNS or IP subjectAltName is required"
        extra = _extra_fault(request, DNSName, IPAddress)
        found = (_group_fault(request), lacking, extra, _usage_fault(usages, "server auth"), name)
    return next(filter(None, found), "")


def _extra_fault(request: CertificateSigningRequest, *allowed: type[GeneralName]) -> str:
    for kind, word in _OTHER_NAMES:
        if kind not in allowed and _has(request, kind):
            return f"{word} subjectAltNames are not allowed"
    return ""


def _client_fault(usages: list[str]) -> str:
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _group_fault(request: CertificateSigningRequest) -> str:
    found = _named(request, NameOID.ORGANIZATION_NAME)
    return "" if found == ["system:nodes"] else "subject organization is not system:nodes"


def _usage_fault(usages: Iterable[str], own: str) -> str:
    least = {_SIGNATURE, own}
    wanted = sorted(least | {_ENCIPHERMENT})
    fits = set(usages) in (least, set(wanted))
    return "" if fits else f"usages did not match [{' '.join(wanted)}]"


def _named(request: CertificateSigningRequest, oid: ObjectIdentifier) -> list[str]:
    return [str(one.value) for one in request.subject.get_attributes_for_oid(oid)]


def _has(request: CertificateSigningRequest, *kinds: type[GeneralName]) -> bool:
    try:
        names = request.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return False
    return any(isinstance(name, kinds) for name in names)
