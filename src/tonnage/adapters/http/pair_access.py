"""TLS by a key pair that lies in memory: everybody may ask, and no file has the key."""

from __future__ import annotations

import os
import ssl

from tonnage.adapters.http.server import OpenAccess
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.key_pair import KeyPair


class PairAccess(OpenAccess):
    """Open to all who speak TLS."""

    def __init__(self, pair: KeyPair) -> None:
        """Raises ConfigError: certificate and key cannot be used."""
        self.context = _context(pair)


def _context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python reads a pair from files alone, and the root of a container is read-only.
    file = os.memfd_create("tonnage-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(pair.certificate_pem.strip() + b"\n" + pair.key_pem)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = (error.reason if isinstance(error, ssl.SSLError) else "") or "it is not PEM"
        remedy = "see that both are PEM and belong together; the key has no passphrase"
        raise ConfigError(Problem("certificate and key cannot be used", "", reason, remedy)) from None
    finally:
        os.close(file)
    return context
