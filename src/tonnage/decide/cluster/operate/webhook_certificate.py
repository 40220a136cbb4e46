"""The certificate of the webhook: made, trusted, renewed before it ends, without a moment of distrust.

An authority issues one certificate, and its key is thrown away: whoever reads the Secret can pose as the
webhook for as long as that one lasts, and can issue nothing. To renew it, the next authority is trusted
beside this one first, and the next certificate is served afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from tonnage.model.key_pair import KeyPair
from tonnage.model.serving_certificate import CertificateFacts

LIFETIME: Final = timedelta(days=90)
RENEWED_BEFORE: Final = timedelta(days=30)
SETTLED_S: Final = 60.0
"""By then every API server has heard of a change of trust."""
_END: Final = b"-----END CERTIFICATE-----"


class CertificateStep(Enum):
    """What is to be done next. Each leaves a state in which what is served is trusted, but for the first."""

    ISSUE = auto()
    """Begin anew: there is no certificate, or none that anybody would trust."""
    TRUST = auto()
    """Tell the API server which authorities to trust."""
    PREPARE = auto()
    """Put the next certificate beside the one in use, and its authority with those that are trusted."""
    TURN = auto()
    """Serve the next one: its authority is trusted by now."""


@dataclass(frozen=True, slots=True)
class StoredCertificate:
    """What the Secret holds: authorities as PEM, the pair that is served, and the one to follow it."""

    authorities: bytes = b""
    current: KeyPair | None = None
    following: KeyPair | None = None
    facts: CertificateFacts | None = None
    """Of the pair that is served."""


@dataclass(frozen=True, slots=True)
class WebhookTrust:
    """By which name the API server calls, which authorities each webhook trusts, and for how long by now."""

    host: str
    bundles: tuple[bytes, ...]
    since_s: float


def next_step(stored: StoredCertificate, trust: WebhookTrust, now: datetime) -> CertificateStep | None:
    """The next step; None: nothing is to be done, or not yet."""
    facts = stored.facts
    if stored.current is None or facts is None or facts.ends <= now or trust.host not in facts.hosts:
        return CertificateStep.ISSUE
    if any(bundle != stored.authorities for bundle in trust.bundles):
        return CertificateStep.TRUST
    if stored.following is not None:
        return CertificateStep.TURN if trust.since_s >= SETTLED_S else None
    return CertificateStep.PREPARE if facts.ends - now < RENEWED_BEFORE else None


def after_step(
    step: CertificateStep, stored: StoredCertificate, issued: tuple[bytes, KeyPair] | None
) -> StoredCertificate:
    """What the Secret is to hold. `issued` is a new authority and pair, where the step needs one."""
    if issued is not None:
        authority, pair = issued
        if step is CertificateStep.PREPARE:
            both = authority.rstrip() + b"\n" + _first(stored.authorities)
            return StoredCertificate(both, stored.current, pair, stored.facts)
        return StoredCertificate(authority, pair)
    return StoredCertificate(stored.authorities, stored.following)


def _first(bundle: bytes) -> bytes:
    """The newest authority of a bundle, which issued what is served."""
    head, end, _ = bundle.partition(_END)
    return head.lstrip() + end + b"\n" if end else b""
