"""Who may approve requests for certificates, and sign them; nobody asks for one of the masters.

Source: plugin/pkg/admission/certificates/{approval,signing,subjectrestriction} (v1.35).
"""

from __future__ import annotations

import base64

from cryptography.x509.oid import NameOID

from tonnage.model.json import JsonObject
from tonnage.model.well_known import CLIENT_SIGNER
from tonnage.twin.apiserver.access import at, text
from tonnage.twin.apiserver.authentication.users import MASTERS
from tonnage.twin.apiserver.objects.problems import quoted
from tonnage.twin.apiserver.objects.validation.signing_requests import request_in
from tonnage.twin.apiserver.rbac.decisions import Authority
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.signing import SIGNING_REQUEST
from tonnage.twin.apiserver.statuses import forbidden


class Signers:
    """An admission plugin that asks for rights on signers."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Check a new request, a decision about one, and a certificate. Raises ApiError 403."""
        if request.resource != SIGNING_REQUEST or obj is None:
            return
        if request.subresource == "approval":
            self._require(request, old, "approve")
        elif request.subresource == "status":
            parts = ("certificate", "conditions")
            if any(at(obj, "status", part) != at(old, "status", part) for part in parts):
                self._require(request, old, "sign")
        elif text(obj, "spec", "signerName") == CLIENT_SIGNER:
            subject = request_in(base64.b64decode(text(obj, "spec", "request"))).subject
            if any(one.value == MASTERS for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
                words = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
                raise forbidden(request.resource, text(obj, "metadata", "name"), words)

    def _require(self, request: Request, old: JsonObject | None, verb: str) -> None:
        signer = text(old, "spec", "signerName")
        group, domain = SIGNING_REQUEST[0], signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            asked = Attributes(request.user, verb, group, "signers", "", "", name)
            if self._authority.decide(asked).allowed:
                return
        deed = f"user not permitted to {verb} requests with signerName {quoted(signer)}"
        raise forbidden(request.resource, request.name, deed)
