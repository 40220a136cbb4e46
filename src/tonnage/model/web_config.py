"""How a page is served: by TLS, to whom, and with which headers; without any of it to everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ClientCertificate(StrEnum):
    """What a client must show of itself, in Go's words (crypto/tls: ClientAuthType)."""

    NONE = "NoClientCert"
    VERIFIED_IF_GIVEN = "VerifyClientCertIfGiven"
    VERIFIED = "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of a server's TLS, and what it asks. `versions` are the oldest and the newest: `TLS12`, `TLS13`.

    `ciphers` are for TLS 1.2, by OpenSSL's names; none: those that Python takes.
    """

    certificate: str
    key: str
    client_ca: str = ""
    client: ClientCertificate = ClientCertificate.NONE
    versions: tuple[str, str] = ("TLS12", "TLS13")
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A web config of Prometheus' programs. `users` have bcrypt hashes by name; `headers` go with answers."""

    tls: TlsFiles | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
