"""What the controller's webhook is sent, and what its Secret holds."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from tonnage.adapters.certificates import ServingCertificates
from tonnage.adapters.http.admission_page import admission_page
from tonnage.adapters.http.pair_access import PairAccess
from tonnage.adapters.http.server import Handler, HttpRequest, Response
from tonnage.controller.webhook.certificates import pair_of
from tonnage.diagnose.lint.admission import judge_claims
from tonnage.model.errors import ConfigError


def review(data: bytes) -> None:
    """Whatever is sent gets an answer: 400 with words, or a review."""
    page = admission_page(judge_claims, lambda _kind, _outcome: None)
    answer = asyncio.run(_answered(page.handler, data))
    if answer.status == 200:
        response = json.loads(answer.body)["response"]
        assert response["uid"]
        assert response["allowed"] or response["status"]["message"]
    else:
        assert answer.status == 400
        assert answer.body


async def _answered(handler: Handler, data: bytes) -> Response:
    return await handler(HttpRequest("POST", "/", body=data))


def certificate(data: bytes) -> None:
    """A Secret that anybody may have filled: a pair that can be used, or none."""
    text = data.decode("latin-1")
    certificate, _, key = text.partition("\n")
    pair = pair_of({"tls.crt": certificate, "tls.key": key})
    if pair is None:
        return
    ServingCertificates().facts(pair.certificate_pem)
    with suppress(ConfigError):
        PairAccess(pair)
