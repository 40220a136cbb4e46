"""What the twin's parts ask of the authority that issues its certificates; `twin.cluster` brings one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tonnage.model.key_pair import KeyPair


class CertificateAuthority(Protocol):
    """Issues certificates for users and servers, by one CA that all its peers trust."""

    @property
    def certificate_pem(self) -> bytes:
        """The CA's own certificate, what clients trust."""
        ...

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        hosts: Sequence[str] = (),
        client: bool = False,
        server: bool = False,
    ) -> KeyPair:
        """A certificate for a user (`client`: name and groups) or a server (`hosts`: names, addresses)."""
        ...
