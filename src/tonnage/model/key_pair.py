"""A certificate with its key, as servers and clients need it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key, both PEM. The key is a secret: never log it."""

    certificate_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        return "KeyPair(...)"
