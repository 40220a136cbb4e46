"""Who may ask a page, and by which TLS: a web config at work. Imported by who serves by one."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import ssl
from collections import OrderedDict
from pathlib import Path
from typing import Final

import bcrypt

from tonnage.adapters.http.server import HttpRequest, Response, lines
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.web_config import ClientCertificate, TlsFiles, WebConfig

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    ClientCertificate.NONE: ssl.CERT_NONE,
    ClientCertificate.VERIFIED_IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientCertificate.VERIFIED: ssl.CERT_REQUIRED,
}
_NOBODY: Final = b"$2b$10$YiNdfMZ4NG91JqpAXQ1HMOhHMmSuqlAWPzhlNd1JVWKbvnmSiUPtW"
"""A hash of nobody's password: an unknown user takes as long as a known one."""
_REMEMBERED: Final = 100
_LONGEST: Final = 72
"""Bytes of a password that bcrypt looks at."""


class WebAccess:
    """One web config: TLS for the server, the judge of each request, headers for each answer."""

    def __init__(self, config: WebConfig, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.headers = config.headers
        self._users = config.users
        self._lock = asyncio.Lock()
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()

    async def refusal(self, request: HttpRequest) -> Response | None:
        """The answer to who may not ask; None for who may."""
        if not self._users:
            return None
        user, password = credentials(request.headers.get("authorization", ""))
        if user and await self._is_right(user, password):
            return None
        return lines(401, "Unauthorized", headers={"www-authenticate": "Basic"})

    async def _is_right(self, user: str, password: bytes) -> bool:
        """Hashing takes a tenth of a second, so what was judged lately is remembered, by a keyed digest."""
        key = hashlib.blake2b(user.encode() + b"\0" + password, key=self._secret).digest()
        if key in self._right:
            return True
        if key in self._wrong:
            return False
        async with self._lock:  # who guesses has one processor at most
            hashed = self._users.get(user)
            compared = _NOBODY if hashed is None else hashed.encode()
            matches = await asyncio.to_thread(bcrypt.checkpw, password[:_LONGEST], compared)
        right = matches and hashed is not None
        remembered = self._right if right else self._wrong
        remembered[key] = None
        if len(remembered) > _REMEMBERED:
            remembered.popitem(last=False)
        return right


class ClosedAccess(WebAccess):
    """Nobody may ask: the web config cannot be used, and without it the page would be open to everybody."""

    def __init__(self) -> None:
        super().__init__(WebConfig(), None)

    async def refusal(self, request: HttpRequest) -> Response | None:
        del request
        return lines(503, "the web config cannot be used; see the agent's log")


def tls_context(files: TlsFiles, certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """The server's TLS, with the files where they lie. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = (_VERSIONS[version] for version in files.versions)
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        remedy = "see that both can be read, are PEM, and belong together; the key has no passphrase"
        where = f"{certificate}, {key}"
        raise ConfigError(Problem("the certificate cannot be used", where, _why(error), remedy)) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError(
                Problem("the clients' CA cannot be used", str(client_ca), _why(error))
            ) from None
    context.verify_mode = _VERIFY[files.client]
    if files.ciphers:
        context.set_ciphers(":".join(files.ciphers))
    return context


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "it is not PEM"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def credentials(header: str) -> tuple[str, bytes]:
    """User and password of the header; of another one nobody's."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return user.decode("utf-8"), password
    except (binascii.Error, ValueError):
        return "", b""
