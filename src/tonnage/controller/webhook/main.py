"""The webhook: what it is made of."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tonnage.adapters.certificates import ServingCertificates
from tonnage.adapters.http.address import Address
from tonnage.adapters.http.admission_page import admission_page
from tonnage.adapters.http.pages import probe_page
from tonnage.adapters.http.pair_access import PairAccess
from tonnage.adapters.http.server import HttpServer, PageAccess
from tonnage.controller.context import ControllerContext
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.options import WebhookOptions
from tonnage.controller.webhook.certificates import CertificateLoop
from tonnage.controller.webhook.served_pair import ServedPair
from tonnage.model.admission import ObjectJudge
from tonnage.model.errors import ConfigError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader

_LOG: Final = logging.getLogger(__name__)
_PAGE: Final = "/validate-claim-configs"


class WebhookServer:
    """Judges objects at a socket that listens; until it has a certificate who asks waits in line."""

    def __init__(
        self,
        options: WebhookOptions,
        judge: ObjectJudge,
        counters: ControllerCounters,
        copies: tuple[KubernetesReader, Clock, str],
    ) -> None:
        """`copies`: whom to ask for the Secret, by which clock, and in which namespace it is."""
        self._counters = counters
        self._judge = judge
        self._issuer = ServingCertificates()
        self._pair = ServedPair(*copies, options.secret)
        self._issues = bool(options.configuration)
        self._serves = False

    async def run(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        host, port = listening.getsockname()[:2]
        _LOG.info("webhook served: address=%s", Address(host, port))
        routes = {
            _PAGE: admission_page(self._judge, self._counters.reviewed),
            "/healthz": probe_page(lambda: ()),
        }
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pair.run())
            group.create_task(HttpServer(listening, routes, accesses=self._accesses).run())

    def missing(self) -> tuple[str, ...]:
        """Why nobody is answered yet, a line each; a certificate that the leader issues is not waited for.

        A Deployment ends older replicas once this one is ready. Until then one of them leads, and issues
        nothing if it was started without the webhook.
        """
        if self._serves or self._issues:
            return ()
        return ("webhook: its Secret has no certificate that can be used",)

    def end_s(self) -> Iterator[float]:
        """When what is served ends, in seconds since 1970."""
        pair = self._pair.current()
        facts = self._issuer.facts(pair.certificate_pem) if pair is not None else None
        if facts is not None:
            yield facts.ends.timestamp()

    async def _accesses(self) -> AsyncIterator[PageAccess]:
        async for pair in self._pair.pairs():
            try:
                access = PairAccess(pair)
            except ConfigError as error:
                _LOG.error("webhook certificate refused: problem=%s", error)  # the one before stays
                continue
            self._serves = True
            _LOG.info("webhook certificate in force")
            yield access


def certificate_loop(context: ControllerContext, options: WebhookOptions) -> CertificateLoop | None:
    """What keeps the certificate, where that is nobody else's."""
    return CertificateLoop(context, options, ServingCertificates()) if options.configuration else None
