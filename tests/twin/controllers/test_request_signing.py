"""Certificates for requests that are approved."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tonnage.model.well_known import CLIENT_SIGNER, LEGACY_SIGNER
from tonnage.twin.controllers.kubelet_requests import KUBELET_CLIENT, KUBELET_SERVER, fault_of
from tonnage.twin.controllers.request_approval import REQUEST
from tonnage.twin.controllers.request_signing import RequestSigningController
from tonnage.twin.pki import Authority

Cluster = Any
KEY = ec.generate_private_key(ec.SECP256R1())
SIGNED = ["digital signature"]
USAGES = "usages did not match [{} digital signature key encipherment]"


def request(name: str = "system:node:n", group: str = "system:nodes", dns: str = "") -> Any:
    names = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    return builder.sign(KEY, SHA256())


@pytest.mark.parametrize(
    ("signer", "asked", "usages", "told"),
    [
        (CLIENT_SIGNER, request("jane", "devs"), ["client auth", *SIGNED], ""),
        (CLIENT_SIGNER, request(), ["server auth"], "invalid usage for client certificate: server auth"),
        (CLIENT_SIGNER, request(), SIGNED, "missing required usage for client certificate: client auth"),
        (KUBELET_CLIENT, request(), ["client auth", *SIGNED], ""),
        (KUBELET_CLIENT, request(group="devs"), [], "subject organization is not system:nodes"),
        (KUBELET_CLIENT, request(dns="n"), [], "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT, request("jane"), [], "subject common name does not begin with system:node:"),
        (KUBELET_CLIENT, request(), ["client auth"], USAGES.format("client auth")),
        (KUBELET_SERVER, request(dns="n"), ["server auth", "key encipherment", *SIGNED], ""),
        (KUBELET_SERVER, request(), ["server auth"], "DNS or IP subjectAltName is required"),
        (
            KUBELET_SERVER,
            request(dns="n"),
            ["server auth"],
            USAGES.replace("{} ", "").replace("]", " server auth]"),
        ),
        (LEGACY_SIGNER, request("jane"), ["any"], ""),
    ],
)
def test_what_a_signer_signs_and_why_not(signer: str, asked: Any, usages: list[str], told: str) -> None:
    assert fault_of(asked, signer, usages) == told


async def answered(cluster: Cluster, signer: str, **spec: Any) -> Any:
    held = request("jane", "devs", "jane.example.com").public_bytes(Encoding.PEM)
    body = {
        "request": base64.b64encode(held).decode(),
        "signerName": signer,
        "usages": ["client auth"],
        **spec,
    }
    await cluster.apply(REQUEST, "mine", {"spec": body})
    approved = {"type": "Approved", "status": "True", "reason": "R", "message": "M"}
    await cluster.go_on()
    before = (await cluster.api.get(REQUEST, "mine")).status
    assert "certificate" not in before, "nobody has approved it"
    await cluster.api.patch(REQUEST, "mine", {"status": {"conditions": [approved]}}, subresource="approval")
    await cluster.go_on()
    return (await cluster.api.get(REQUEST, "mine")).status


@pytest.fixture
async def authority(cluster: Cluster) -> Authority:
    authority = Authority.generate(cluster.clock.now())
    controller = RequestSigningController(cluster.api, cluster.clock, cluster.informers, authority)
    cluster.start(controller.run())
    return authority


async def test_an_approved_request_gets_the_certificate_that_it_asks_for(
    cluster: Cluster, authority: Authority
) -> None:
    status = await answered(cluster, CLIENT_SIGNER, expirationSeconds=3600)
    found = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))
    assert found.subject == request("jane", "devs").subject
    assert found.not_valid_after_utc - found.not_valid_before_utc == timedelta(seconds=3600 + 300)
    purposes = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == ["jane.example.com"]


@pytest.mark.usefixtures("authority")
async def test_what_no_signer_signs_fails_or_is_left_alone(cluster: Cluster) -> None:
    status = await answered(cluster, KUBELET_CLIENT)
    assert [one["type"] for one in status["conditions"]] == ["Approved", "Failed"]
    assert status["conditions"][1]["message"] == "subject organization is not system:nodes"
    await cluster.api.delete(REQUEST, "mine")
    assert len((await answered(cluster, "example.com/mine"))["conditions"]) == 1
