"""Requests for certificates.

Source: pkg/apis/certificates/validation, pkg/apis/core/validation (ValidateSignerName), v1.35.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mapping, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, duplicate, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found

_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only",
    "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment",
    "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SHORTEST_S: Final = 600
_HEAD: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----\s")


def signing_request(obj: JsonObject) -> Found:
    """A CertificateSigningRequest; the signature of what it holds is not looked at."""
    spec = mapping(obj, "spec")
    held = text(spec, "request")
    if not _HEAD.search(base64.b64decode(held)):
        yield invalid("spec.request", held, "PEM block type must be CERTIFICATE REQUEST")
    usages = texts(spec, "usages")
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield unsupported(f"spec.usages[{index}]", usage, _USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)
    signer = text(spec, "signerName")
    if signer == _LEGACY:
        words = "the legacy signerName is not allowed via this API version"
        yield invalid("spec.signerName", signer, words)
    else:
        yield from _signer(signer, "spec.signerName")
    seconds = number(spec, "expirationSeconds", default=_SHORTEST_S)
    if seconds < _SHORTEST_S:
        words = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, words)


def _signer(name: str, path: str) -> Found:
    """A domain and a path below it, one complaint for each."""
    domain, _, rest = name.partition("/")
    if not name:
        yield required(path)
    elif name.count("/") != 1:
        words = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, words)
    else:
        yield from _parts(domain, names.dns_label, path)
        if "." not in domain:
            yield invalid(path, domain, "should be a domain with at least two segments separated by dots")
        yield from _parts(rest, names.dns_subdomain, path)


def _parts(shown: str, rule: Callable[[str], names.Complaints], path: str) -> Found:
    for label in shown.split("."):
        wrong = rule(label)
        if wrong:
            yield from complaints(path, shown, (f'validating label "{label}": {why}' for why in wrong))
            return
