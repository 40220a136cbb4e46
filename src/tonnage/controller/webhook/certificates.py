"""The Secret with the webhook's certificate, and the trust in it: kept by the replica that leads."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.options import WebhookOptions
from tonnage.decide.cluster.operate.webhook_certificate import (
    LIFETIME,
    SETTLED_S,
    CertificateStep,
    StoredCertificate,
    WebhookTrust,
    after_step,
    next_step,
)
from tonnage.loop.informer import Informer, Key
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import ApplyObject
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.model.key_pair import KeyPair
from tonnage.ports.certificates import CertificateIssuer
from tonnage.wire.kinds import SECRET, VALIDATING_WEBHOOKS
from tonnage.wire.objects import Secret
from tonnage.wire.policies import ValidatingWebhooks

_LOG: Final = logging.getLogger(__name__)
_ALL: Final = "certificate"
_AGAIN_S: Final = 3600.0
_PAIR: Final = ("tls.crt", "tls.key")
_FOLLOWING: Final = ("next.crt", "next.key")
_AUTHORITIES: Final = "ca.crt"


class CertificateLoop:
    """Issues, renews, and says whom to trust. The Secret and the configuration are the chart's."""

    def __init__(self, context: ControllerContext, names: WebhookOptions, issuer: CertificateIssuer) -> None:
        self._context = context
        self._names = names
        self._issuer = issuer
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._trusted: tuple[bytes, ...] = ()
        self._trusted_at_s = context.clock.monotonic()
        self._secrets: Informer[Secret] = Informer(
            *(context.api, SECRET, context.clock),
            namespace=context.namespace,
            field_selector=f"metadata.name={names.secret}",
            on_change=self._changed,
        )
        self._configurations: Informer[ValidatingWebhooks] = Informer(
            *(context.api, VALIDATING_WEBHOOKS, context.clock),
            field_selector=f"metadata.name={names.configuration}",
            on_change=self._changed,
        )

    async def run(self) -> None:
        """Look until cancelled."""
        self._context.refused.watch((self._secrets, self._configurations))
        async with asyncio.TaskGroup() as group:
            for copy in (self._secrets, self._configurations):
                group.create_task(copy.run())
            for copy in (self._secrets, self._configurations):
                await copy.synced()
            self._queue.add(_ALL)
            await work(self._queue, self._reconcile)

    async def look_once(self) -> None:
        """Nothing: a certificate is for whoever serves."""

    def _changed(self, _key: Key) -> None:
        self._queue.add(_ALL)

    async def _reconcile(self, _key: str) -> float:
        context, names = self._context, self._names
        context.counters.turned("webhook-certificate")
        configuration = self._configurations.get(names.configuration)
        secret = self._secrets.get(names.secret, context.namespace)
        if configuration is None or not configuration.webhooks or secret is None:
            return _AGAIN_S  # the chart makes both, and a release that is being withdrawn has neither
        stored, trust, now = self._stored(secret), self._trust_of(configuration), context.clock.now()
        step = next_step(stored, trust, now)
        if step is None:
            return SETTLED_S if stored.following is not None else _AGAIN_S
        if step is CertificateStep.TRUST:
            await self._have_trusted(configuration, stored.authorities)
            return SETTLED_S
        issues = step in (CertificateStep.ISSUE, CertificateStep.PREPARE)
        issued = self._issuer.issue(trust.host, now, LIFETIME) if issues else None
        await self._store(after_step(step, stored, issued))
        _LOG.info("webhook certificate: step=%s host=%s", step.name.lower(), trust.host)
        return _AGAIN_S

    def _trust_of(self, configuration: ValidatingWebhooks) -> WebhookTrust:
        bundles = tuple(
            decoded(text(webhook, "clientConfig", "caBundle")) for webhook in configuration.webhooks
        )
        now_s = self._context.clock.monotonic()
        if bundles != self._trusted:
            self._trusted, self._trusted_at_s = bundles, now_s
        service = text(configuration.webhooks[0], "clientConfig", "service", "name")
        host = f"{service}.{self._context.namespace}.svc"
        return WebhookTrust(host, bundles, now_s - self._trusted_at_s)

    def _stored(self, secret: Secret) -> StoredCertificate:
        held = secret.data
        current = pair_of(held)
        return StoredCertificate(
            decoded(held.get(_AUTHORITIES, "")),
            current,
            pair_of(held, _FOLLOWING),
            None if current is None else self._issuer.facts(current.certificate_pem),
        )

    async def _store(self, stored: StoredCertificate) -> None:
        pairs: dict[str, JsonValue] = {_AUTHORITIES: _encoded(stored.authorities)}
        for names, pair in ((_PAIR, stored.current), (_FOLLOWING, stored.following)):
            if pair is not None:
                pairs |= dict(
                    zip(names, (_encoded(pair.certificate_pem), _encoded(pair.key_pem)), strict=True)
                )
        body: JsonObject = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"name": self._names.secret, "namespace": self._context.namespace},
            "data": pairs,
        }
        await self._context.performer.perform(ApplyObject.of(body))

    async def _have_trusted(self, configuration: ValidatingWebhooks, authorities: bytes) -> None:
        bundle = {"caBundle": _encoded(authorities)}
        webhooks: list[JsonValue] = [
            {"name": webhook["name"], "clientConfig": dict(bundle)} for webhook in configuration.webhooks
        ]
        body: JsonObject = {
            "apiVersion": VALIDATING_WEBHOOKS.api_version,
            "kind": VALIDATING_WEBHOOKS.kind,
            "metadata": {"name": configuration.metadata.name},
            "webhooks": webhooks,
        }
        await self._context.performer.perform(ApplyObject.of(body))


def pair_of(held: Mapping[str, str], names: tuple[str, str] = _PAIR) -> KeyPair | None:
    """The pair of a Secret's data; None: it has none."""
    certificate, key = (decoded(held.get(name, "")) for name in names)
    return KeyPair(certificate, key) if certificate and key else None


def decoded(encoded: str) -> bytes:
    """What is written there in Base64; empty for what is none."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
