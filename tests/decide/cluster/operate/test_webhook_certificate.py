"""The steps of the webhook's certificate: at each of them what is served is trusted, but for the first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tonnage.decide.cluster.operate.webhook_certificate import (
    LIFETIME,
    RENEWED_BEFORE,
    SETTLED_S,
    CertificateStep,
    StoredCertificate,
    WebhookTrust,
    after_step,
    next_step,
)
from tonnage.model.key_pair import KeyPair
from tonnage.model.serving_certificate import CertificateFacts

HOST = "hook.tonnage-system.svc"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
SETTLED = SETTLED_S


def authority(number: int) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n%d\n-----END CERTIFICATE-----\n" % number


def pair(number: int) -> KeyPair:
    return KeyPair(b"pair %d" % number, b"key")


def stored(number: int, *, ends: datetime = BEGUN + LIFETIME, host: str = HOST) -> StoredCertificate:
    return StoredCertificate(authority(number), pair(number), None, CertificateFacts(ends, (host,)))


def step(held: StoredCertificate, bundle: bytes, now: datetime = BEGUN, since_s: float = SETTLED) -> object:
    return next_step(held, WebhookTrust(HOST, (bundle,), since_s), now)


def test_it_is_issued_where_there_is_none_that_could_be_trusted() -> None:
    assert step(StoredCertificate(), b"") is CertificateStep.ISSUE
    unreadable = StoredCertificate(authority(1), pair(1))
    assert step(unreadable, authority(1)) is CertificateStep.ISSUE
    assert step(stored(1, ends=BEGUN), authority(1)) is CertificateStep.ISSUE
    assert step(stored(1, host="other.svc"), authority(1)) is CertificateStep.ISSUE
    assert after_step(CertificateStep.ISSUE, stored(1), (authority(2), pair(2))) == StoredCertificate(
        authority(2), pair(2)
    )


def test_then_it_is_trusted_and_nothing_more_is_to_be_done() -> None:
    assert step(stored(1), b"") is CertificateStep.TRUST
    assert step(stored(1), authority(2)) is CertificateStep.TRUST
    assert step(stored(1), authority(1)) is None


def test_the_next_one_is_trusted_for_a_while_before_it_is_served() -> None:
    late = BEGUN + LIFETIME - RENEWED_BEFORE
    assert step(stored(1), authority(1), late) is None
    late += timedelta(seconds=1)
    assert step(stored(1), authority(1), late) is CertificateStep.PREPARE
    both = after_step(CertificateStep.PREPARE, stored(1), (authority(2), pair(2)))
    assert (both.current, both.following) == (pair(1), pair(2))
    assert both.authorities == authority(2) + authority(1)
    assert step(both, authority(1), late) is CertificateStep.TRUST
    assert step(both, both.authorities, late, SETTLED - 1) is None
    assert step(both, both.authorities, late) is CertificateStep.TURN
    turned = after_step(CertificateStep.TURN, both, None)
    assert (turned.current, turned.following, turned.authorities) == (pair(2), None, both.authorities)


def test_authorities_of_long_ago_are_not_trusted_for_ever() -> None:
    both = StoredCertificate(authority(2) + authority(1), pair(2))
    third = after_step(CertificateStep.PREPARE, both, (authority(3), pair(3)))
    assert third.authorities == authority(3) + authority(2)
