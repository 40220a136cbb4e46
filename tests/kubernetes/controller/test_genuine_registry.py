"""The contract of registries over Debian's docker-registry."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from support.images import REGISTRY, kept_file
from support.registry_contract import (
    ADDRESS,
    LOGIN,
    NAME,
    TAG,
    RegistryContract,
    ServedRegistry,
    credentials,
    listening,
    secret_for,
)
from tonnage.adapters.certificates import Authority
from tonnage.adapters.child_process import ChildProcess
from tonnage.adapters.http.registry import HttpRegistry
from tonnage.model.drivers.images import TagState
from tonnage.model.json import JsonObject, JsonValue

pytestmark = pytest.mark.kubernetes

PASSWORDS = "user:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
"""`user:secret`, as htpasswd writes it."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRegistry]:
    """With one image, by TLS and with a password."""
    folder = tmp_path_factory.mktemp("registry")
    certificate, key, authority = credentials(folder)
    (folder / "passwords").write_text(PASSWORDS)
    auth: JsonObject = {"htpasswd": {"realm": "tests", "path": str(folder / "passwords")}}
    tls: JsonObject = {"certificate": str(certificate), "key": str(key)}
    with running(folder, auth, tls=tls) as (process, port):
        trusted = ssl.create_default_context(cadata=authority)
        asyncio.run(_push(process, f"https://{ADDRESS}:{port}", f"Basic {LOGIN}", trusted))
        yield ServedRegistry(port, authority)


def free_port() -> int:
    """Free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(folder: Path, auth: JsonObject, **http: JsonValue) -> Iterator[tuple[ChildProcess, int]]:
    """The registry and its port."""
    port = free_port()
    config: JsonObject = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "auth": auth,
        "http": {"addr": f"0.0.0.0:{port}", **http},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    process = ChildProcess(
        kept_file(*REGISTRY),
        ["serve", str(folder / "config.yml")],
        log=folder / "registry.log",
        environment=os.environ,
    )
    try:
        yield process, port
    finally:
        asyncio.run(process.end(5.0))


async def _push(
    process: ChildProcess, url: str, authorization: str, trusted: ssl.SSLContext | bool = True
) -> None:
    """Wait for the registry, and push an image without layers."""
    headers = {"Authorization": authorization}
    async with (
        asyncio.timeout(60),
        httpx2.AsyncClient(verify=trusted, trust_env=False, headers=headers) as http,
    ):
        while not await _is_there(http, url):
            process.check()
            await asyncio.sleep(0.05)
        config = b"{}"
        digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
        begun = await http.post(f"{url}/v2/{NAME}/blobs/uploads/")
        place = httpx2.URL(begun.headers["Location"]).copy_merge_params({"digest": digest})
        assert (await http.put(place, content=config)).status_code == 201
        blob = {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest,
            "size": len(config),
        }
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": blob, "layers": []}
        where = f"{url}/v2/{NAME}/manifests/{TAG}"
        body = json.dumps(manifest)
        pushed = await http.put(where, content=body, headers={"Content-Type": MANIFEST})
        assert pushed.status_code == 201, pushed.text


async def _is_there(http: httpx2.AsyncClient, url: str) -> bool:
    try:
        await http.get(f"{url}/v2/")
    except httpx2.TransportError:
        return False
    return True


class TestDebiansRegistry(RegistryContract):
    @pytest.fixture
    def served(self, registry: ServedRegistry) -> ServedRegistry:
        return registry


class Issuer:
    """Issues tokens for one repository to everybody, as registries do of what is public."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.generate(datetime.now(UTC))
        pair = authority.issue("issuer", server=True)
        self._key_pem, self._certificate = pair.key_pem, pair.certificate_pem.decode()
        self.bundle = folder / "issuers.pem"
        self.bundle.write_bytes(authority.certificate_pem)
        self.seen: list[str] = []

    def token(self, *actions: str) -> str:
        """As the registry's documents have it: JSON Web Token, signed, with the certificate in its head."""
        key = serialization.load_pem_private_key(self._key_pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = "".join(self._certificate.splitlines()[1:-1])
        now = int(datetime.now(UTC).timestamp())
        access = [{"type": "repository", "name": NAME, "actions": list(actions)}]
        times = {"nbf": now - 60, "iat": now - 60, "exp": now + 600}
        claims = {"iss": "issuer", "sub": "", "aud": "registry", "jti": "1", "access": access, **times}
        head = {"typ": "JWT", "alg": "ES256", "x5c": [certificate]}
        signed = f"{_base64(json.dumps(head).encode())}.{_base64(json.dumps(claims).encode())}"
        numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = b"".join(number.to_bytes(32, "big") for number in numbers)
        return f"{signed}.{_base64(signature)}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        body = json.dumps({"token": self.token("pull")})
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n{body}".encode())
        await writer.drain()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_registry_that_sends_for_a_token(tmp_path: Path) -> None:
    """To another host, which may be asked, but is not told the registry's secret."""
    issuer = Issuer(tmp_path)
    token: JsonObject = {
        "realm": f"http://127.0.0.1:{free_port()}/token",
        "service": "registry",
        "issuer": "issuer",
        "rootcertbundle": str(issuer.bundle),
    }
    with running(tmp_path, {"token": token}) as (process, port):
        asyncio.run(_ask_with_token(issuer, str(token["realm"]), process, f"127.0.0.1:{port}"))
    assert len(issuer.seen) == 2
    assert f"scope=repository%3A{NAME.replace('/', '%2F')}%3Apull" in issuer.seen[0]
    assert "authorization" not in str(issuer.seen).lower()


async def _ask_with_token(issuer: Issuer, realm: str, process: ChildProcess, host: str) -> None:
    issuers = realm.split("/")[2]
    async with asyncio.timeout(90), listening(issuer.serve, port=int(issuers.partition(":")[2])):
        await _push(process, f"http://{host}", f"Bearer {issuer.token('pull', 'push')}")
        registry = HttpRegistry([host, issuers])
        there = await registry.ask(f"{host}/{NAME}:{TAG}", (secret_for(host),))
        missing = await registry.ask(f"{host}/{NAME}:1", (secret_for(host),))
        elsewhere = await HttpRegistry([host]).ask(f"{host}/{NAME}:{TAG}", ())
    assert (there.state, missing.state) == (TagState.EXISTS, TagState.MISSING)
    assert "wants credentials that no pull secret of the policy has" in elsewhere.why
