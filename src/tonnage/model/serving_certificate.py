"""A server's certificate: what is known of it, and what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """When a certificate ends, and the names of servers that it is for."""

    ends: datetime
    hosts: tuple[str, ...]
