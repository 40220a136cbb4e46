"""Asks registries of images whether one exists, by the distribution API.

Source: opencontainers/distribution-spec v1.1 and the token authentication of CNCF distribution.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Collection
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2

from tonnage import __version__
from tonnage.model.drivers.images import ImageAnswer, RegistryRoute, TagState
from tonnage.model.json import JsonObject, parsed_json
from tonnage.model.json_access import mapping, text

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 65_536
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HUB: Final = "registry-1.docker.io"
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_FIELD: Final = re.compile(r'([a-z_]{1,20})="([^"]{0,500})"')
_NAME: Final = re.compile(r"[a-z0-9._/-]{1,255}")
_REFERENCE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")


class HttpRegistry:
    """Asks only the hosts that it may, follows no redirect, and tells a secret to nobody but its own host."""

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = frozenset(hosts)

    async def ask(
        self,
        image: str,
        pull_secrets: tuple[str, ...],
        route: RegistryRoute = RegistryRoute(),  # noqa: B008 - frozen
    ) -> ImageAnswer:
        """Whether an image exists; UNKNOWN with the reason where the registry does not say."""
        host, name, reference = _parts(image)
        if not (_NAME.fullmatch(name) and _REFERENCE.fullmatch(reference)):
            return _unknown("it is not the name of an image")
        if host not in self._hosts:
            return _unknown(f"registry {host} is not among those that may be asked")
        login = next((own for secret in pull_secrets if (own := login_for(secret, host))), None)
        try:
            async with _client(host, route) as client:
                return await self._manifest(client, (host, name, reference), login)
        except ssl.SSLError:
            return _unknown("the certificates that the policy names are no certificates in PEM")
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            return _unknown(f"registry {host} does not answer: {type(error).__name__}")

    async def _manifest(
        self, client: httpx2.AsyncClient, place: tuple[str, str, str], login: str | None
    ) -> ImageAnswer:
        host, name, reference = place
        url = f"{_scheme(host)}://{host}/v2/{name}/manifests/{reference}"
        answer = await client.head(url)
        if answer.status_code == 401:
            challenge = answer.headers.get("WWW-Authenticate", "")[:2000]
            authorization = await self._authorization(client, host, name, challenge, login)
            if authorization is None:
                return _unknown(f"registry {host} wants credentials that no pull secret of the policy has")
            answer = await client.head(url, headers={"Authorization": authorization})
        match answer.status_code:
            case 200:
                return ImageAnswer(TagState.EXISTS)
            case 404:
                return ImageAnswer(TagState.MISSING)
            case 401 | 403:
                return _unknown(f"registry {host} refuses the credentials (HTTP {answer.status_code})")
            case code:
                return _unknown(f"registry {host} answers HTTP {code}")

    async def _authorization(
        self, client: httpx2.AsyncClient, host: str, name: str, challenge: str, login: str | None
    ) -> str | None:
        """The header to come again with; None: there is none."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            return None if login is None else f"Basic {login}"
        fields = dict(_FIELD.findall(rest))
        issuer = token_host(fields.get("realm", ""))
        if scheme.lower() != "bearer" or (issuer != host and issuer not in self._hosts):
            return None
        # What is written for the registry is not told to another host that the registry names.
        own = {"Authorization": f"Basic {login}"} if login is not None and issuer == host else {}
        wish = {"service": fields.get("service", ""), "scope": f"repository:{name}:pull"}
        async with client.stream("GET", fields["realm"], params=wish, headers=own) as answer:
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    return None
            if answer.status_code != 200:
                return None
        token = token_in(body)
        return f"Bearer {token}" if token else None


def _client(host: str, route: RegistryRoute) -> httpx2.AsyncClient:
    """Of this machine's environment it takes a proxy, where the policy names none.

    Raises:
        ssl.SSLError: the authorities are not in PEM.
        ValueError: the proxy has no address.
    """
    verify: bool | ssl.SSLContext = True
    if route.authorities:
        verify = httpx2.create_ssl_context()
        verify.load_verify_locations(cadata=route.authorities.encode("ascii", "replace").decode())
    local = _scheme(host) == "http"
    proxy, past = None, None
    if route.proxy and not local and not is_direct(host, route.no_proxy):
        proxy = route.proxy if "://" in route.proxy else f"http://{route.proxy}"
    elif not route.proxy and is_direct(host, getproxies().get("no", "")):
        past = dict.fromkeys(("http://", "https://", "all://"))  # the client knows of no networks
    return httpx2.AsyncClient(
        mounts=past,
        timeout=_TIMEOUT_S,
        follow_redirects=False,
        headers={"User-Agent": f"tonnage-controller/{__version__}", "Accept": _ACCEPT},
        trust_env=not (local or route.proxy),
        proxy=proxy,
        verify=verify,
    )


def is_direct(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host: whole, by a domain or network that it is in, or by `*` as every host.

    A network has addresses alone: nobody is asked for the address of a name, as in containers' programs.

    >>> is_direct("a.example.com:5000", "localhost, .example.com"), is_direct("anexample.com", "example.com")
    (True, False)
    >>> is_direct("10.3.0.9:5000", "10.0.0.0/8"), is_direct("[fd00::9]:5000", "fd00::/8")
    (True, True)
    """
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    names = (host, name, name.strip("[]"))
    domains = [entry.strip().removeprefix("*").removeprefix(".") for entry in no_proxy.split(",")]
    if "*" in no_proxy.replace(" ", "").split(","):
        return True
    return any(
        name == domain or name.endswith(f".{domain}") or _is_in(name, domain)
        for domain in domains
        if domain
        for name in names
    )


def _is_in(address: str, network: str) -> bool:
    """Whether both are what they are called, and the one is in the other."""
    if "/" not in network:
        return False
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False


def login_for(docker_config: str, host: str) -> str | None:
    """The login that a `.dockerconfigjson` has for exactly this host, in Base64; None: it has none.

    >>> login_for('{"auths": {"https://a.example": {"username": "u", "password": "p"}}}', "a.example")
    'dTpw'
    """
    auths = mapping(_json(docker_config.encode()), "auths")
    for server, entry in list(auths.items())[:100]:
        if (_netloc(server) if "//" in server else server.partition("/")[0]) != host:
            continue
        login = text(entry, "auth")
        try:
            if not login and text(entry, "username"):
                words = f"{text(entry, 'username')}:{text(entry, 'password')}"
                login = base64.b64encode(words.encode()).decode()
            base64.b64decode(login, validate=True)
        except ValueError:  # half a pair of surrogates, or no Base64
            return None
        return login or None
    return None


def token_host(realm: str) -> str:
    """The host that a challenge sends for a token, where it is reached as a registry is; empty: it is not.

    >>> token_host("https://auth.example/token"), token_host("http://auth.example/token")
    ('auth.example', '')
    """
    host = _netloc(realm)
    return host if realm.startswith(f"{_scheme(host)}://{host}") else ""


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def token_in(body: bytes) -> str:
    """The token of an answer; empty: it has none that may stand in a header."""
    answer = _json(body)
    token = text(answer, "token") or text(answer, "access_token")
    return token if token.isascii() and token.isprintable() else ""


def _json(body: bytes) -> JsonObject:
    try:
        value = parsed_json(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _parts(image: str) -> tuple[str, str, str]:
    """Host, name, and tag or digest."""
    name, _, digest = image.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    host, slash, path = head.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, path = _HUB, head if slash else f"library/{head}"
    return host, path, digest or tag or "latest"


def _scheme(host: str) -> str:
    """Encrypted, but on this machine."""
    return "http" if host.rpartition(":")[0] in _LOCAL or host in _LOCAL else "https"


def _unknown(why: str) -> ImageAnswer:
    return ImageAnswer(TagState.UNKNOWN, why)
