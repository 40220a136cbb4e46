"""What requests carry, and whom they trust, by what a kubeconfig says of its user and cluster."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tonnage.adapters.certificates import Authority
from tonnage.adapters.kubernetes.kubeconfig import ClusterTarget, target
from tonnage.adapters.kubernetes.transport import open_client, tls_context
from tonnage.model.errors import ConfigError


def _chosen(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> ClusterTarget:
    file = folder / "config"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(document))
    return target(file, None, {})


def _authorization(chosen: ClusterTarget) -> str | None:
    """The header of a request through this client, which a transport in its place receives."""
    headers: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers.append(request.headers.get("Authorization"))
        return httpx2.Response(200)

    async def ask() -> None:
        async with open_client(chosen, "test") as own:
            auth = own.auth
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, auth=auth) as client:
            await client.get("https://c")

    asyncio.run(ask())
    return headers[0]


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({}, None, id="nobody in particular"),
        pytest.param({"token": "abc"}, "Bearer abc", id="a token"),
        pytest.param(
            {"token": "abc", "tokenFile": "file"}, "Bearer of-the-file", id="its file wins over a token"
        ),
        pytest.param({"token": "", "tokenFile": ""}, None, id="empty texts are none"),
        pytest.param(
            {"username": "a", "password": "b"},
            f"Basic {b64encode(b'a:b').decode()}",
            id="a name with a password",
        ),
        pytest.param({"username": "a"}, None, id="a name without a password"),
    ],
)
def test_a_request_says_who_asks(tmp_path: Path, user: dict[str, Any], authorization: str | None) -> None:
    (tmp_path / "file").write_text("of-the-file\n")
    assert _authorization(_chosen(tmp_path, user)) == authorization


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, str]:
    """Files in the kubeconfig's folder by their names there, and as base64 by `base64 of` these."""
    authority = Authority.generate(datetime.now(UTC))
    pair = authority.issue("somebody", client=True)
    files = {
        "ca.crt": authority.certificate_pem,
        "client.crt": pair.certificate_pem,
        "client.key": pair.key_pem,
        "broken": b"no certificate",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    texts = {f"base64 of {name}": b64encode(content).decode() for name, content in files.items()}
    return {name: name for name in files} | texts | {"absent": "absent", "no base64": "?"}


def _named(entries: dict[str, str], fields: dict[str, str]) -> dict[str, str]:
    return {field: entries[name] for field, name in fields.items()}


@pytest.mark.parametrize(
    ("cluster", "user", "authorities"),
    [
        pytest.param({"certificate-authority": "ca.crt"}, {}, 1, id="an authority's file"),
        pytest.param({"certificate-authority-data": "base64 of ca.crt"}, {}, 1, id="an authority"),
        pytest.param(
            {"certificate-authority": "absent", "certificate-authority-data": "base64 of ca.crt"},
            {}, 1, id="an authority wins over a file",
        ),
        pytest.param(
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "client.crt", "client-key": "client.key"},
            1, id="a client's certificate in files",
        ),
        pytest.param(
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "client.crt", "client-key-data": "base64 of client.key"},
            1, id="a certificate's file with its key",
        ),
        pytest.param({"insecure-skip-tls-verify": True}, {}, 0, id="nobody is asked"),
    ],
)  # fmt: skip
def test_certificates_are_taken_from_files_and_from_the_kubeconfig(
    tmp_path: Path, entries: dict[str, str], cluster: dict[str, Any], user: dict[str, str], authorities: int
) -> None:
    named = {key: entries.get(str(name), name) for key, name in cluster.items()}
    chosen = _chosen(tmp_path, _named(entries, user), named)
    tls = tls_context(chosen.cluster, chosen.user, trust_env=False)
    assert len(tls.get_ca_certs()) == authorities
    assert (tls.verify_mode is ssl.CERT_NONE) == bool(cluster.get("insecure-skip-tls-verify"))


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"certificate-authority": "absent"}, {}, id="a file that is not there"),
        pytest.param({"certificate-authority": "broken"}, {}, id="a file without a certificate"),
        pytest.param({"certificate-authority-data": "no base64"}, {}, id="an authority that is no base64"),
        pytest.param({}, {"client-certificate": "client.crt"}, id="a certificate without a key"),
        pytest.param(
            {}, {"client-certificate": "client.crt", "client-key": "ca.crt"}, id="a key that is none"
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_kubeconfigs_place(
    tmp_path: Path, entries: dict[str, str], cluster: dict[str, str], user: dict[str, str]
) -> None:
    chosen = _chosen(tmp_path, _named(entries, user), _named(entries, cluster))
    with pytest.raises(ConfigError, match="the kubeconfig's credentials cannot be used") as refused:
        open_client(chosen, "test")
    assert refused.value.problems[0].where == str(tmp_path / "config")


def test_an_authentication_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="auth-provider not supported"):
        open_client(_chosen(tmp_path, {"auth-provider": {"name": "gcp"}}), "test")
