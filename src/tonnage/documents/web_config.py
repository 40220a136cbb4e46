"""The web config of Prometheus' programs: TLS, basic authentication, headers.

Source: prometheus/exporter-toolkit, docs/web-configuration.md.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, field_validator, model_validator

from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.source import Document, DocumentFieldError, parse_document
from tonnage.model.web_config import ClientCertificate, TlsFiles, WebConfig

_HASH: Final = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
_COSTS: Final = range(4, 16)
_VERSIONS: Final = ("TLS10", "TLS11", "TLS12", "TLS13")
_OLD: Final = ("TLS10", "TLS11")
_HEADERS: Final = (
    *("Strict-Transport-Security", "X-Content-Type-Options", "X-Frame-Options"),
    *("X-XSS-Protection", "Content-Security-Policy"),
)
_CIPHERS: Final = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Of TLS 1.2, by their names in Go; others are not safe."""
_ALWAYS: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Of TLS 1.3, which has them whatever is written."""
_UNVERIFIED: Final = ("RequestClientCert", "RequireAnyClientCert")
_MOST_USERS: Final = 1000
_LONGEST: Final = 4096

Text = Annotated[str, Field(max_length=_LONGEST)]


class _Snake(Document):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=None)


class TlsServerConfig(_Snake):
    """`tls_server_config`."""

    cert_file: Text = ""
    key_file: Text = ""
    client_auth_type: str = ""
    client_ca_file: Text = ""
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: Annotated[list[str], Field(max_length=64)] = Field(default_factory=list)
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[str] = Field(default_factory=list)

    @field_validator("client_auth_type")
    @classmethod
    def _client(cls, value: str) -> str:
        kinds = [kind.value for kind in ClientCertificate]
        if value in _UNVERIFIED:
            why = "a certificate that is not verified proves nothing"
            remedy = "write RequireAndVerifyClientCert with client_ca_file"
            raise DocumentFieldError(f"{value} is not supported", why=why, remedy=remedy)
        if value and value not in kinds:
            raise DocumentFieldError(f"unknown client_auth_type {value[:60]!r}", remedy=nearest(value, kinds))
        return value

    @field_validator("min_version", "max_version")
    @classmethod
    def _version(cls, value: str) -> str:
        if value in _OLD:
            raise DocumentFieldError(
                f"{value} is not supported", why="it is broken", remedy="write TLS12 or TLS13"
            )
        if value not in _VERSIONS:
            raise DocumentFieldError(f"unknown version {value[:20]!r}", remedy="write TLS12 or TLS13")
        return value

    @field_validator("cipher_suites")
    @classmethod
    def _ciphers(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in (*_CIPHERS, *_ALWAYS):
                remedy = nearest(name[:60], [*_CIPHERS])
                raise DocumentFieldError(f"{name[:60]!r} is not a safe cipher suite", remedy=remedy)
        return value

    @field_validator("curve_preferences")
    @classmethod
    def _curves(cls, value: list[str]) -> list[str]:
        if value:
            raise DocumentFieldError("curve_preferences is not supported", remedy="remove it")
        return value

    @model_validator(mode="after")
    def _complete(self) -> TlsServerConfig:
        for name, file in (("cert_file", self.cert_file), ("key_file", self.key_file)):
            if not file:
                raise DocumentFieldError(f"{name} is missing", remedy="name a file in PEM")
        verifies = self.client_auth_type.startswith(("Verify", "RequireAndVerify"))
        if verifies != bool(self.client_ca_file):
            raise DocumentFieldError(
                "client_auth_type and client_ca_file belong together",
                remedy="write both or neither",
            )
        if self.min_version > self.max_version:
            raise DocumentFieldError("min_version is newer than max_version", remedy="swap them")
        return self


class HttpServerConfig(_Snake):
    """`http_server_config`. HTTP/2 is never spoken, whatever `http2` says."""

    http2: bool = True
    headers: dict[str, Text] = Field(default_factory=dict)

    @field_validator("headers")
    @classmethod
    def _allowed(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if name not in _HEADERS:
                raise DocumentFieldError(
                    f"header {name[:60]!r} cannot be set", remedy=nearest(name, [*_HEADERS])
                )
            if not (text.isascii() and text.isprintable()):
                raise DocumentFieldError(f"header {name} has characters that no header may have")
        return value


class WebConfigDocument(_Snake):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = Field(default_factory=HttpServerConfig)
    basic_auth_users: Annotated[dict[str, Any], Field(max_length=_MOST_USERS)] = Field(default_factory=dict)

    @field_validator("basic_auth_users")
    @classmethod
    def _hashes(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The value is never repeated: it may be a password that somebody wrote in place of its hash."""
        for user, hashed in value.items():
            match = _HASH.fullmatch(hashed) if isinstance(hashed, str) else None
            if match is None:
                remedy = "write what `htpasswd -nBC 10 NAME` prints after the colon"
                raise DocumentFieldError(f"the password of {user[:60]!r} is not a bcrypt hash", remedy=remedy)
            if ":" in user:
                raise DocumentFieldError(f"user {user[:60]!r} has a colon in the name")
            if int(match[1]) not in _COSTS:
                raise DocumentFieldError(
                    f"the hash of {user[:60]!r} has cost {match[1]}",
                    why="each scrape would wait for seconds"
                    if int(match[1]) > 4
                    else "no hash costs less than 4",
                    remedy="make it with a cost of 10",
                )
        return value


def read_web_config(text: str, source: str) -> WebConfig:
    """The settings. Raises ConfigError: each problem with its place."""
    if not text.strip():
        return WebConfig()
    document = parse_document(text, WebConfigDocument, source=source)
    return WebConfig(
        _tls(document.tls_server_config), document.basic_auth_users, document.http_server_config.headers
    )


def _tls(config: TlsServerConfig | None) -> TlsFiles | None:
    if config is None:
        return None
    return TlsFiles(
        certificate=config.cert_file,
        key=config.key_file,
        client_ca=config.client_ca_file,
        client=ClientCertificate(config.client_auth_type or ClientCertificate.NONE),
        versions=(config.min_version, config.max_version),
        ciphers=tuple(_CIPHERS[name] for name in config.cipher_suites if name in _CIPHERS),
    )
