"""The entries of a kubeconfig that say where a cluster is and who asks, as far as Tonnage needs them.

Source: k8s.io/client-go/tools/clientcmd/api/v1 (v1.35).
"""

from __future__ import annotations

from typing import Any

import msgspec


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """An API server, and by which authority its certificate is judged."""

    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class ContextEntry(msgspec.Struct, frozen=True):
    """A cluster and a user by their names."""

    cluster: str
    user: str | None = None
    namespace: str | None = None


class EnvironmentEntry(msgspec.Struct, frozen=True):
    """A variable that a credential program gets."""

    name: str
    value: str


class CredentialProgram(msgspec.Struct, frozen=True, rename="camel"):
    """A program that gives out tokens: `exec`."""

    api_version: str
    command: str
    env: list[EnvironmentEntry] | None = None
    args: list[str] | None = None
    install_hint: str | None = None


class UserEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """What proves who asks. Data wins over a file, and a token over what comes after it here."""

    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    token: str | None = None
    exec: CredentialProgram | None = None
    username: str | None = None
    password: str | None = None
    auth_provider: dict[str, Any] | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
