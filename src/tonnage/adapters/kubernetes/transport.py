"""The HTTP client for one cluster: TLS, identity, time limits; and its failures in our words."""

from __future__ import annotations

import ssl
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2
import httpx2

from tonnage import __version__
from tonnage.adapters.kubernetes.credentials import authentication
from tonnage.adapters.kubernetes.kubeconfig import ClusterTarget
from tonnage.adapters.kubernetes.kubeconfig_entries import ClusterEntry, UserEntry
from tonnage.adapters.kubernetes.request_info import OnAnswer, request_info
from tonnage.model.errors import ClusterError, ConfigError, Problem

REQUEST_S: Final = 30.0
_CONNECT_S: Final = 5.0
_CONNECTIONS: Final = 200


def open_client(target: ClusterTarget, program: str, on_answer: OnAnswer | None = None) -> httpx2.AsyncClient:
    """A client for the target, to be closed by its user. Raises ConfigError."""
    cluster, user = target.cluster, target.user
    # A proxy from the environment is not for servers on this machine; Go's clients see it the same way.
    trust_env = not _is_local(cluster.server)
    try:
        tls, auth = tls_context(cluster, user, trust_env=trust_env), authentication(user)
    except (OSError, ValueError) as error:
        raise ConfigError(
            Problem("the kubeconfig's credentials cannot be used", where=target.where, why=_words(error))
        ) from None
    client = httpx2.AsyncClient(
        base_url=cluster.server,
        verify=tls,
        auth=auth,
        timeout=httpx2.Timeout(REQUEST_S, connect=_CONNECT_S),
        trust_env=trust_env,
        proxy=cluster.proxy_url,
        limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=20),
        headers=httpx2.Headers(
            [
                ("User-Agent", f"{program}/{__version__}"),
                ("Accept", "application/json"),
                *target.impersonation,
            ],
            encoding="utf-8",
        ),
    )
    client.event_hooks = _hooks(cluster.tls_server_name, on_answer)
    return client


def tls_context(cluster: ClusterEntry, user: UserEntry, *, trust_env: bool) -> ssl.SSLContext:
    """By which authority the server is judged, and the user's certificate.

    Raises OSError or ValueError where one of them cannot be read.
    """
    with ExitStack() as files:

        def path(file: str | None, content: str | None) -> str | None:
            return files.enter_context(_file_of(content)) if content else file

        authority = path(cluster.certificate_authority, cluster.certificate_authority_data)
        if authority:
            tls = ssl.create_default_context(cafile=authority)
        else:
            tls = httpx2.create_ssl_context(verify=not cluster.insecure_skip_tls_verify, trust_env=trust_env)
        certificate = path(user.client_certificate, user.client_certificate_data)
        if certificate:
            tls.load_cert_chain(certificate, path(user.client_key, user.client_key_data))
    return tls


@contextmanager
def _file_of(content: str) -> Iterator[str]:
    """The path of a file with what is base64 in the kubeconfig: OpenSSL reads keys from files alone."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b64decode(content))
        file.flush()
        yield file.name


def _hooks(server_name: str | None, on_answer: OnAnswer | None) -> dict[str, list[Callable[..., Any]]]:
    async def prepare(request: httpx2.Request) -> None:
        request.extensions["trace"] = _UnfinishedConnection()
        if server_name:
            request.extensions["sni_hostname"] = server_name

    async def report(response: httpx2.Response) -> None:
        url, method = response.request.url, response.request.method
        if on_answer is not None:
            request = request_info(method, url.path, watch="watch" in url.params)
            on_answer(*request, str(response.status_code))

    return {"request": [prepare], "response": [report] if on_answer else []}


class _UnfinishedConnection:
    """Closes a request's connection whose TLS handshake does not end well; httpcore does so for errors alone.

    A request that is cancelled meanwhile would leave it open until the collector comes upon it.
    """

    def __init__(self) -> None:
        self._stream: httpcore2.AsyncNetworkStream | None = None

    async def __call__(self, event: str, details: Mapping[str, Any]) -> None:
        """What httpcore's `trace` extension tells: a step, and what it gave or how it failed."""
        if event == "connection.connect_tcp.complete":
            self._stream = details["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await self._stream.aclose()


def unreachable(error: httpx2.HTTPError, client: httpx2.AsyncClient) -> ClusterError:
    """What a failure of the transport means, and what to do."""
    where = str(client.base_url).rstrip("/")
    distrust = _distrust(error)
    if distrust is not None:
        return ClusterError(
            Problem(
                "the API server's certificate is not trusted",
                where=where,
                why=distrust.verify_message,
                remedy="use this cluster's own kubeconfig; an earlier cluster had another CA",
            )
        )
    if isinstance(error, httpx2.TimeoutException):
        problem = "the API server did not answer in time"
    else:
        problem = "the API server cannot be reached"
    return ClusterError(
        Problem(
            problem,
            where=where,
            why=_words(error),
            remedy="check that the cluster runs (`tonnage up` starts one) and KUBECONFIG names its file",
        )
    )


def _distrust(error: BaseException) -> ssl.SSLCertVerificationError | None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
