"""Certificates of the twin hold in a real TLS handshake."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.connections import connection
from tonnage.adapters.certificates import Authority
from tonnage.model.key_pair import KeyPair


def _context(folder: Path, ca: Authority, pair: KeyPair | None, purpose: ssl.Purpose) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cadata=ca.certificate_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if pair is not None:
        path = folder / f"{purpose.shortname}.pem"
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(path)
    return context


async def _peer_subject(
    folder: Path, ca: Authority, server_ca: Authority, hosts: list[str], pair: KeyPair | None = None
) -> object:
    """Who the server sees: the holder of `pair`, by default of one that the authority made itself."""
    server = _context(
        folder, ca, server_ca.issue("kube-apiserver", hosts=hosts, server=True), ssl.Purpose.CLIENT_AUTH
    )
    server.verify_mode = ssl.CERT_REQUIRED
    pair = pair or ca.issue("kube-apiserver-kubelet-client", organizations=["system:masters"], client=True)
    client = _context(folder, ca, pair, ssl.Purpose.SERVER_AUTH)
    seen: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(writer.get_extra_info("peercert")["subject"])
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        async with connection(asyncio.open_connection("127.0.0.1", port, ssl=client)) as (reader, _):
            assert await reader.read() == b""
            return await seen


async def test_mutual_tls_by_address_shows_name_and_groups(tmp_path: Path) -> None:
    ca = Authority.generate(datetime.now(UTC))
    subject = await _peer_subject(tmp_path, ca, ca, ["127.0.0.1", "localhost"])
    assert subject == (
        (("organizationName", "system:masters"),),
        (("commonName", "kube-apiserver-kubelet-client"),),
    )


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    ours, theirs = (Authority.generate(datetime.now(UTC)) for _ in range(2))
    with pytest.raises(ssl.SSLCertVerificationError):
        await _peer_subject(tmp_path, ours, theirs, ["127.0.0.1"])


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    ca = Authority.generate(datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        await _peer_subject(tmp_path, ca, ca, ["10.0.0.1"])


async def test_a_kept_authority_issues_what_its_clients_still_trust(tmp_path: Path) -> None:
    ca = Authority.generate(datetime.now(UTC))
    again = Authority.load(KeyPair(ca.certificate_pem, ca.key_pem))
    assert await _peer_subject(tmp_path, ca, again, ["127.0.0.1"])


def test_keys_never_show_in_a_representation() -> None:
    pair = Authority.generate(datetime.now(UTC)).issue("node", client=True)
    assert b"PRIVATE KEY" in pair.key_pem
    assert "PRIVATE" not in repr(pair)
