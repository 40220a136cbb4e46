"""Certificate authorities of our own: elliptic-curve keys, because RSA alone would cost 0.18 s of `up`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tonnage.model.key_pair import KeyPair
from tonnage.model.serving_certificate import CertificateFacts

_LIFETIME: Final = timedelta(days=3650)
_SKEW: Final = timedelta(hours=1)


class Authority:
    """A self-signed CA that issues client and server certificates, all valid as long as itself."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def generate(
        cls, now: datetime, common_name: str = "tonnage-twin-ca", lifetime: timedelta = _LIFETIME
    ) -> Authority:
        """A new CA; `now` is aware. Peers that check dates by their own clock need `now` to be real time."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = (
            _builder(name, name, key.public_key(), now - _SKEW, now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @property
    def certificate_pem(self) -> bytes:
        """The CA's own certificate, what clients trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The CA's private key, to be kept with the twin's state at mode 0600."""
        return _key_pem(self._key)

    @classmethod
    def load(cls, pair: KeyPair) -> Authority:
        """The CA that was kept. Raises ValueError when the PEM is not an elliptic-curve CA."""
        key = serialization.load_pem_private_key(pair.key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the CA's key is not an elliptic-curve key")
        return cls(key, x509.load_pem_x509_certificate(pair.certificate_pem))

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        hosts: Sequence[str] = (),
        client: bool = False,
        server: bool = False,
    ) -> KeyPair:
        """A certificate for a user (`client`: name and groups) or a server (`hosts`: names, addresses)."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH] * client + [ExtendedKeyUsageOID.SERVER_AUTH] * server
        issuer = self._certificate
        builder = (
            _builder(
                *(subject, issuer.subject, key.public_key()),
                *(issuer.not_valid_before_utc, issuer.not_valid_after_utc),
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


class ServingCertificates:
    """Certificates of servers, each by an authority of its own."""

    def issue(self, host: str, now: datetime, lifetime: timedelta) -> tuple[bytes, KeyPair]:
        """An authority's certificate as PEM, and a server's by it; nobody has the authority's key."""
        authority = Authority.generate(now, "tonnage-webhook-ca", lifetime)
        return authority.certificate_pem, authority.issue(host, hosts=(host,), server=True)

    def facts(self, pem: bytes) -> CertificateFacts | None:
        """What the first certificate of a PEM says; None: there is none."""
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, x509.ExtensionNotFound):
            return None
        hosts = names.value.get_values_for_type(x509.DNSName)
        return CertificateFacts(certificate.not_valid_after_utc, tuple(hosts))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
