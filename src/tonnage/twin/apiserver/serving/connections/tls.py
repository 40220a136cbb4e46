"""TLS contexts out of key pairs that live in memory."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from tonnage.model.key_pair import KeyPair


def server_context(pair: KeyPair, client_ca_pem: bytes = b"") -> ssl.SSLContext:
    """A context for listening; clients may show a certificate of `client_ca_pem`, if that is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if client_ca_pem:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_ca_pem.decode())
    _load(context, pair)
    return context


def client_context(ca_pem: bytes, pair: KeyPair) -> ssl.SSLContext:
    """A context for dialling kubelets: they must show a certificate of the CA.

    Their host names are not checked, as upstream does not: a node's address is what its kubelet says it is.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=ca_pem.decode())
    _load(context, pair)
    return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    # OpenSSL reads keys from files only; this one is gone before anybody could ask for it.
    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(path)
