"""Requests for certificates that are approved without anybody's doing."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tonnage.twin.apiserver.authentication.users import node_user
from tonnage.twin.controllers.request_approval import REQUEST, RequestApprovalController, rights_of
from tonnage.wire.kinds import CLUSTER_ROLE_BINDING

Cluster = Any
NODE = "system:node:n1"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"


def asked(
    *, name: str = NODE, group: str = "system:nodes", other: str = "", signer: str = SIGNER, **spec: Any
) -> dict[str, Any]:
    names = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, name)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    )
    if other:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(other)]), critical=False)
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), SHA256()).public_bytes(Encoding.PEM)
    usages = ["digital signature", "client auth"]
    return {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": usages, **spec}


async def told(cluster: Cluster, name: str) -> list[str]:
    conditions = (await cluster.api.get(REQUEST, name)).status.get("conditions", [])
    assert all((one["type"], one["reason"]) == ("Approved", "AutoApproved") for one in conditions)
    middle = slice(len("Auto approving "), -len(" after SubjectAccessReview."))
    return [one["message"][middle] for one in conditions]


@pytest.mark.parametrize(
    "spec",
    [
        asked(name="jane"),
        asked(group="devs"),
        asked(other="n1"),
        asked(signer="example.com/x"),
        asked(usages=["client auth"]),
    ],
    ids=["another name", "another group", "names beside", "another signer", "too few usages"],
)
def test_what_is_no_kubelets_request_is_left_to_people(spec: dict[str, Any]) -> None:
    assert rights_of(spec) == []


def test_a_kubelet_that_renews_its_own_needs_less() -> None:
    assert [right for right, _ in rights_of(asked(username=NODE))] == ["selfnodeclient", "nodeclient"]
    assert [right for right, _ in rights_of(asked(username="joe"))] == ["nodeclient"]


async def test_who_has_the_right_is_approved_at_once_or_when_he_gets_it(cluster: Cluster) -> None:
    cluster.start(RequestApprovalController(cluster.api, cluster.clock, cluster.informers).run())
    node = cluster.server.local(user=node_user("n1"))
    for client, name in ((cluster.api, "masters"), (node, "nodes")):
        head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        await client.create(REQUEST, {**head, "metadata": {"name": name}, "spec": asked()})
    await cluster.go_on()
    assert await told(cluster, "masters") == ["kubelet client certificate"]
    assert await told(cluster, "nodes") == []
    role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "Group", "name": "system:nodes"}]
    await cluster.apply(CLUSTER_ROLE_BINDING, "renew", {"roleRef": reference, "subjects": subjects})
    await cluster.go_on()
    assert await told(cluster, "nodes") == ["self kubelet client certificate"]
