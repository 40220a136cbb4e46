"""Tokens of service accounts: JSON web tokens, signed with an elliptic-curve key (ES256).

Source: pkg/serviceaccount/claims.go and jwt.go (v1.35), RFC 7515, RFC 7519.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tonnage.model.json import JsonObject, JsonValue

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
LONGEST: Final = 16 << 10
"""Bytes of a token that is looked at."""
_HALF: Final = 32
_SIGNED: Final = ec.ECDSA(hashes.SHA256())


class TokenKey:
    """The key that signs: the one of a PEM that was kept, or one that is made when it is first needed."""

    def __init__(self, pem: bytes = b"") -> None:
        self._pem = pem

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        if not self._pem:
            return ec.generate_private_key(ec.SECP256R1())
        key = serialization.load_pem_private_key(self._pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of service accounts is not an elliptic-curve key")
        return key

    @property
    def pem(self) -> bytes:
        """The private key, a secret, to be kept with a cluster's state."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @cached_property
    def key_id(self) -> str:
        """What the head of a token names the key by."""
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return _packed(hashlib.sha256(public).digest())

    @cached_property
    def published(self) -> JsonObject:
        """The public key, as a set of JSON web keys."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_packed(coordinate.to_bytes(_HALF, "big")) for coordinate in (numbers.x, numbers.y))
        key: JsonObject = {"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256"}
        return {"keys": [{**key, "x": x, "y": y}]}

    def configuration(self, host: str) -> JsonObject:
        """What OpenID clients read first."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"https://{host}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def sign(self, claims: JsonObject) -> str:
        """A token that makes these claims."""
        head: JsonObject = {"alg": "ES256", "kid": self.key_id}
        content = f"{_packed(msgspec.json.encode(head))}.{_packed(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(content.encode(), _SIGNED))
        return f"{content}.{_packed(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def claims(self, token: str) -> JsonObject | None:
        """The claims of a token that this key has signed; None for every other text."""
        parts = token.split(".")
        if len(token) > LONGEST or len(parts) != 3:
            return None
        head, signature = _object(parts[0]), _unpacked(parts[2])
        if head is None or head.get("alg") != "ES256" or head.get("kid") != self.key_id:
            return None
        if signature is None or len(signature) != 2 * _HALF:
            return None
        numbers = (int.from_bytes(half, "big") for half in (signature[:_HALF], signature[_HALF:]))
        try:
            content = f"{parts[0]}.{parts[1]}".encode()
            self._key.public_key().verify(encode_dss_signature(*numbers), content, _SIGNED)
        except InvalidSignature:
            return None
        return _object(parts[1])


def audiences_of(claims: JsonObject) -> Sequence[str]:
    """Whom a token is for: one name, or several."""
    audience = claims.get("aud")
    values = audience if isinstance(audience, list) else [audience]
    return [value for value in values if isinstance(value, str)]


def unsigned_claims(token: str) -> JsonObject:
    """What a token claims, whoever signed it: to look at, never to believe."""
    parts = token.split(".")
    return (_object(parts[1]) if len(parts) == 3 else None) or {}


def _object(part: str) -> JsonObject | None:
    content = _unpacked(part)
    try:
        value: JsonValue = None if content is None else msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _packed(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _unpacked(part: str) -> bytes | None:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
