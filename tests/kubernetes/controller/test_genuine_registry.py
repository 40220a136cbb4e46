"""The contract of registries over Debian's docker-registry."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import ssl
from collections.abc import Iterator

import httpx2
import pytest

from support.images import REGISTRY, kept_file
from support.registry_contract import (
    ADDRESS,
    LOGIN,
    NAME,
    TAG,
    RegistryContract,
    ServedRegistry,
    credentials,
)
from tonnage.adapters.child_process import ChildProcess

pytestmark = pytest.mark.kubernetes

PASSWORDS = "user:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
"""`user:secret`, as htpasswd writes it."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRegistry]:
    """With one image."""
    folder = tmp_path_factory.mktemp("registry")
    certificate, key, authority = credentials(folder)
    (folder / "passwords").write_text(PASSWORDS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "auth": {"htpasswd": {"realm": "tests", "path": str(folder / "passwords")}},
        "http": {"addr": f"0.0.0.0:{port}", "tls": {"certificate": str(certificate), "key": str(key)}},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    process = ChildProcess(
        kept_file(*REGISTRY),
        ["serve", str(folder / "config.yml")],
        log=folder / "registry.log",
        environment=os.environ,
    )
    try:
        asyncio.run(_push(process, f"https://{ADDRESS}:{port}", authority))
        yield ServedRegistry(port, authority)
    finally:
        asyncio.run(process.end(5.0))


async def _push(process: ChildProcess, url: str, authority: str) -> None:
    """Wait for the registry, and push an image without layers."""
    headers = {"Authorization": f"Basic {LOGIN}"}
    trusted = ssl.create_default_context(cadata=authority)
    async with (
        asyncio.timeout(60),
        httpx2.AsyncClient(verify=trusted, trust_env=False, headers=headers) as http,
    ):
        while not await _answers(http, url):
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


async def _answers(http: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/v2/")).status_code == 200
    except httpx2.TransportError:
        return False


class TestDebiansRegistry(RegistryContract):
    @pytest.fixture
    def served(self, registry: ServedRegistry) -> ServedRegistry:
        return registry
