"""The web config of Prometheus' programs: what it means, and what is wrong with one."""

from __future__ import annotations

import pytest

from tonnage.documents.web_config import read_web_config
from tonnage.model.errors import ConfigError
from tonnage.model.web_config import ClientCertificate, TlsFiles, WebConfig

HASH = "$2y$10$" + "a" * 53
WHOLE = f"""
tls_server_config:
  cert_file: tls.crt
  key_file: /etc/tls/tls.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  min_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
http_server_config:
  http2: true
  headers: {{Strict-Transport-Security: max-age=31536000}}
basic_auth_users:
  prometheus: {HASH}
"""


def test_a_whole_file_is_understood() -> None:
    tls = TlsFiles(
        *("tls.crt", "/etc/tls/tls.key", "ca.crt", ClientCertificate.VERIFIED),
        versions=("TLS13", "TLS13"),
        ciphers=("ECDHE-RSA-AES128-GCM-SHA256",),
    )
    headers = {"Strict-Transport-Security": "max-age=31536000"}
    assert read_web_config(WHOLE, "web.yml") == WebConfig(tls, {"prometheus": HASH}, headers)


def test_an_empty_file_asks_for_nothing() -> None:
    assert read_web_config("\n", "web.yml") == WebConfig()


TLS = "tls_server_config: {cert_file: a, key_file: b, "


WRONG = {
    "a password": ("basic_auth_users: {a: hunter2}", "the password of 'a' is not a bcrypt hash"),
    "a hash cut off": (f"basic_auth_users: {{a: {HASH[:-1]}}}", "is not a bcrypt hash"),
    "a hash that takes days": (f"basic_auth_users: {{a: {HASH.replace('10', '31', 1)}}}", "has cost 31"),
    "a number": ("basic_auth_users: {a: 3}", "is not a bcrypt hash"),
    "a colon in a name": (f'basic_auth_users: {{"a:b": {HASH}}}', "has a colon"),
    "an unknown field": ("basic_auth_user: {}", "use basic_auth_users if you meant that"),
    "no key": ("tls_server_config: {cert_file: a}", "key_file is missing"),
    "an old TLS": (f"{TLS} min_version: TLS11}}", "TLS11 is not supported"),
    "no version": (f"{TLS} min_version: '1.2'}}", "unknown version '1.2'"),
    "versions upside down": (f"{TLS} min_version: TLS13, max_version: TLS12}}", "newer than max_version"),
    "a CA that verifies nobody": (f"{TLS} client_ca_file: c}}", "belong together"),
    "nobody verifies": (f"{TLS} client_auth_type: RequireAnyClientCert}}", "is not supported"),
    "half a word": (f"{TLS} client_auth_type: Verify}}", "use VerifyClientCertIfGiven if you meant that"),
    "RC4": (f"{TLS} cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}}", "is not a safe cipher suite"),
    "curves": (f"{TLS} curve_preferences: [X25519]}}", "curve_preferences is not supported"),
    "a header": ("http_server_config: {headers: {Server: x}}", "header 'Server' cannot be set"),
    "two headers in one": (
        'http_server_config: {headers: {X-Frame-Options: "a\\r\\nb"}}',
        "no header may have",
    ),
    "no YAML": ("[", "web.yml"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_web_config(text, "web.yml")
    (first, *_) = raised.value.problems
    assert problem in str(first)
    assert first.where.startswith("web.yml")
    assert "hunter2" not in str(raised.value)
