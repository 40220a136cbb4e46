"""Requests for certificates.

Source: pkg/apis/certificates/validation, pkg/apis/core/validation (ValidateSignerName), v1.35.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

from cryptography.x509 import (
    CertificateSigningRequest,
    load_der_x509_csr,
    load_pem_x509_certificate,
)

from tonnage.model.json import JsonObject
from tonnage.model.well_known import LEGACY_SIGNER
from tonnage.twin.apiserver.access import mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.conditions import STATES
from tonnage.twin.apiserver.objects.validation.fields import Found
from tonnage.twin.apiserver.signing import DECISIONS, conditions_of

_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only",
    "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment",
    "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_SHORTEST_S: Final = 600
_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\n]*?)-----\s*\n(.*?)^-----END \1-----", re.DOTALL | re.MULTILINE
)
_ENDED: Final = (*DECISIONS, "Failed")
_CONDITIONS: Final = "status.conditions"


def request_in(held: bytes) -> CertificateSigningRequest:
    """The request in a PEM block. Raises ValueError with the server's words."""
    block = _BLOCK.search(held)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return load_der_x509_csr(base64.b64decode(block[2]))
    except ValueError:
        raise ValueError("x509: malformed certificate request") from None


def signing_request(obj: JsonObject) -> Found:
    """A CertificateSigningRequest."""
    spec = mapping(obj, "spec")
    held = text(spec, "request")
    try:
        if not request_in(base64.b64decode(held)).is_signature_valid:
            yield invalid("spec.request", held, "crypto/rsa: verification error")
    except ValueError as error:
        yield invalid("spec.request", spec.get("request"), str(error))
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
    if signer == LEGACY_SIGNER:
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


def approval_update(obj: JsonObject, old: JsonObject) -> Found:
    """A change of `approval`, which alone says who has decided what."""
    yield from signing_request(obj)
    yield from _conditions(obj, old)
    yield from _removals(obj, old)


def status_update(obj: JsonObject, old: JsonObject) -> Found:
    """A change of `status`, which alone has the certificate, once."""
    yield from signing_request(obj)
    yield from _conditions(obj, old)
    given, known = text(obj, "status", "certificate"), text(old, "status", "certificate")
    if given != known and (wrong := _fault_of(base64.b64decode(given))):
        yield invalid("status.certificate", "<certificate data>", wrong)
    yield from _removals(obj, old)
    for name in DECISIONS:
        now, was = conditions_of(obj, name), conditions_of(old, name)
        if len(now) > len(was):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{name}"')
    if known and given != known:
        yield forbidden("status.certificate", "updates may not modify existing certificate content")


def _conditions(obj: JsonObject, old: JsonObject) -> Found:
    """Every type once, decisions never taken back, and one of both at most; old faults are let be."""
    known = [text(one, "type") for one in mappings(old, "status", "conditions")]
    seen: list[str] = []
    for index, one in enumerate(mappings(obj, "status", "conditions")):
        name, state, path = text(one, "type"), text(one, "status"), f"{_CONDITIONS}[{index}]"
        if not name and "" not in known:
            yield required(f"{path}.type")
        allowed = ("True",) if name in _ENDED else STATES
        if not state:
            yield required(f"{path}.status")
        elif state not in allowed:
            yield unsupported(f"{path}.status", state, allowed)
        both = set(DECISIONS) - {name}
        if name in DECISIONS and both & set(seen) and not set(DECISIONS) <= set(known):
            yield invalid(_CONDITIONS, name, "Approved and Denied conditions are mutually exclusive")
        if name in seen and len(known) == len(set(known)):
            yield duplicate(f"{path}.type", name)
        seen.append(name)


def _removals(obj: JsonObject, old: JsonObject) -> Found:
    for name in _ENDED:
        if len(conditions_of(obj, name)) < len(conditions_of(old, name)):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{name}"')


def _fault_of(held: bytes) -> str:
    """What is wrong with the certificates of a status; nothing with none."""
    blocks = list(_BLOCK.finditer(held))
    for block in blocks:
        if block[1] != b"CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block[1].decode(errors="replace")}"'
        if b":" in block[2]:
            return "no PEM block headers are permitted"
        try:
            load_pem_x509_certificate(block[0])
        except ValueError:
            return "x509: malformed certificate"
    return "must contain at least one CERTIFICATE PEM block" if held and not blocks else ""
