"""Certificates for servers of ours."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from tonnage.model.key_pair import KeyPair
from tonnage.model.serving_certificate import CertificateFacts


class CertificateIssuer(Protocol):
    """Issues and reads them."""

    def issue(self, host: str, now: datetime, lifetime: timedelta) -> tuple[bytes, KeyPair]:
        """An authority's certificate as PEM, and a server's by it; nobody has the authority's key."""
        ...

    def facts(self, pem: bytes) -> CertificateFacts | None:
        """What the first certificate of a PEM says; None: there is none."""
        ...
