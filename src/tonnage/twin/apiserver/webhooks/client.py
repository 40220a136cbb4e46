"""One POST to a webhook over TLS, within its time.

Source: k8s.io/apiserver pkg/util/webhook (client.go), k8s.io/client-go rest (v1.35).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import h11

from tonnage.decide.kubernetes.api.validation.network.addresses import parsed
from tonnage.model.json import JsonObject, JsonValue, parsed_json
from tonnage.model.json_access import at, mapping, mappings, number, text
from tonnage.reading.scrape_targets import LOOPBACK
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.resource_names import ENDPOINTS, POD, SERVICE
from tonnage.twin.apiserver.serving.connections.own_addresses import ElsewhereError, dial
from tonnage.twin.apiserver.webhooks.review import CallError

_RESOLVER: Final = Path("/etc/resolv.conf")
_NAMESERVER: Final = re.compile(r"^nameserver\s+(\S+)", re.MULTILINE)
_MOST_ANSWER: Final = 3 << 20
"""Bytes of an answer; etcd would not take a larger object."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where a webhook listens: its URL as errors tell it, what to dial, and whose certificate to expect."""

    url: str
    host: str
    port: int
    path: str
    server_name: str


def target_of(client: JsonObject, store: ObjectStore, timeout_s: int) -> WebhookTarget:
    """Where the client configuration of a webhook leads. Raises CallError."""
    written = text(client, "url")
    if written:
        parts = urlsplit(written)
        host, path = parts.hostname or "", f"{parts.path or '/'}?timeout={timeout_s}s"
        return WebhookTarget(f"https://{parts.netloc}{path}", host, parts.port or 443, path, host)
    service = mapping(client, "service")
    namespace, name = text(service, "namespace"), text(service, "name")
    port = number(service, "port", default=443)
    server, path = f"{name}.{namespace}.svc", f"{text(service, 'path') or '/'}?timeout={timeout_s}s"
    url = f"https://{server}:{port}{path}"
    host, dialled = _resolved(store, namespace, name, port, url)
    return WebhookTarget(url, host, dialled, path, server)


def _resolved(store: ObjectStore, namespace: str, name: str, port: int, url: str) -> tuple[str, int]:
    """An address behind a service: of its Endpoints, else of a running pod that it selects.

    The twin has no network of its own, so nothing answers at a service's own address.
    """
    stored = store.get(SERVICE, (namespace, name))
    if stored is None:
        raise _post_failed(url, f'service "{name}" not found')
    service = stored.object
    service_port = next(
        (entry for entry in mappings(service, "spec", "ports") if number(entry, "port") == port), None
    )
    if service_port is None:
        raise _post_failed(url, f'no service port {port} found for service "{name}"')
    if text(service, "spec", "type") == "ExternalName":
        return text(service, "spec", "externalName"), port
    endpoints = store.get(ENDPOINTS, (namespace, name))
    for subset in mappings(endpoints.object, "subsets") if endpoints is not None else ():
        # Nobody has checked what somebody wrote there.
        ips = [text(entry, "ip") for entry in mappings(subset, "addresses")]
        addresses = [entry for entry in ips if parsed(entry) is not None]
        ports = [
            entry for entry in mappings(subset, "ports") if text(entry, "name") == text(service_port, "name")
        ]
        numbers = [number(entry, "port") for entry in ports if 0 < number(entry, "port") < 1 << 16]
        if addresses and numbers:
            return addresses[0], numbers[0]
    address = _pod_behind(store, namespace, service, service_port, port)
    if address is None:
        raise _post_failed(url, f'no endpoints available for service "{name}"')
    return address


def _pod_behind(
    store: ObjectStore, namespace: str, service: JsonObject, service_port: JsonObject, port: int
) -> tuple[str, int] | None:
    selector = mapping(service, "spec", "selector")
    aim = at(service_port, "targetPort")
    for pod in (entry.object for entry in store.list(POD, namespace=namespace)) if selector else ():
        labels = mapping(pod, "metadata", "labels")
        address = text(pod, "status", "podIP")
        if not address or text(pod, "status", "phase") != "Running":
            continue
        if any(labels.get(key) != value for key, value in selector.items()):
            continue
        named = {text(entry, "name"): number(entry, "containerPort") for entry in _ports(pod)}
        number_of = named.get(aim, 0) if isinstance(aim, str) else aim if isinstance(aim, int) else port
        if number_of:
            return _loopback(pod, number_of) or (address, number_of)
    return None


def _loopback(pod: JsonObject, port: int) -> tuple[str, int] | None:
    """Where a program of ours serves a port of its pod, which has no address of its own."""
    host, _, own = text(pod, "metadata", "annotations", f"{LOOPBACK}{port}").rpartition(":")
    return (host, int(own)) if own.isdecimal() else None


def _ports(pod: JsonObject) -> list[JsonObject]:
    return [
        port for container in mappings(pod, "spec", "containers") for port in mappings(container, "ports")
    ]


async def post(client: JsonObject, store: ObjectStore, body: bytes, timeout_s: int) -> bytes:
    """The body of the answer. Raises CallError, never later than `timeout_s`."""
    target = target_of(client, store, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            code, kind, content = await _exchange(client, target, body)
    except TimeoutError:
        raise _post_failed(target.url, "context deadline exceeded") from None
    except ssl.SSLCertVerificationError as error:
        raise _post_failed(target.url, _distrust(error, target)) from None
    except ssl.SSLError as error:
        raise _post_failed(target.url, f"tls: {error.reason or error}") from None
    except ElsewhereError as error:
        raise _post_failed(target.url, str(error)) from None
    except ConnectionRefusedError:
        dialled = f"dial tcp {_joined(target)}: connect: connection refused"
        raise _post_failed(target.url, dialled) from None
    except socket.gaierror:
        raise _post_failed(
            target.url, f"dial tcp: lookup {target.host}{_nameserver_suffix()}: no such host"
        ) from None
    except (OSError, h11.ProtocolError) as error:
        raise _post_failed(target.url, str(error) or "EOF") from None
    if not 200 <= code < 300:
        raise CallError(f"failed to call webhook: {_refused(code, kind, content)}")
    if not content:
        problem = f"0-length response with status code: {code} and content type: {kind}"
        raise CallError(f"failed to call webhook: {problem}")
    return content


def _nameserver_suffix() -> str:
    """The server that names are looked up at."""
    with suppress(OSError):
        nameserver = _NAMESERVER.search(_RESOLVER.read_text())
        return f" on {nameserver[1]}:53" if nameserver else ""
    return ""


async def _exchange(client: JsonObject, target: WebhookTarget, body: bytes) -> tuple[int, str, bytes]:
    trust = _trusting(text(client, "caBundle"))
    reader, writer = await dial(target.host, target.port, trust, target.server_name)
    try:
        connection = h11.Connection(h11.CLIENT)
        headers = [
            ("host", _host_header(target)),
            ("accept", "application/json, */*"),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        head = connection.send(h11.Request(method="POST", target=target.path, headers=headers))
        sent = connection.send(h11.Data(data=body))
        writer.write((head or b"") + (sent or b"") + (connection.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        return await _read(connection, reader)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _read(connection: h11.Connection, reader: asyncio.StreamReader) -> tuple[int, str, bytes]:
    """Code, content type and body of the answer."""
    code, kind, body = 0, "", bytearray()
    while True:
        event = connection.next_event()
        match event:
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(64 << 10))
            case h11.InformationalResponse():
                pass
            case h11.Response():
                code = event.status_code
                kind = dict(event.headers).get(b"content-type", b"").decode("latin-1")
            case h11.Data():
                body += event.data
                if len(body) > _MOST_ANSWER:
                    raise OSError(f"the answer has more than {_MOST_ANSWER} bytes")
            case h11.EndOfMessage():
                return code, kind, bytes(body)
            case _:
                raise OSError("EOF")


@lru_cache(maxsize=64)
def _trusting(bundle: str) -> ssl.SSLContext:
    """Trust in what a caBundle holds, or in the machine's authorities without one."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError):
        raise CallError("could not get REST client: unable to load root certificates") from None


def _distrust(error: ssl.SSLCertVerificationError, target: WebhookTarget) -> str:
    words = "tls: failed to verify certificate: x509: "
    match error.verify_code:
        case 62 | 64:
            return f"{words}certificate is not valid for {target.server_name}"
        case 10:
            return f"{words}certificate has expired or is not yet valid"
        case _:
            return f"{words}certificate signed by unknown authority"


def _refused(code: int, kind: str, content: bytes) -> str:
    """What a client says of an answer that is no success: the Status in it, or what the code means."""
    try:
        status: JsonValue = parsed_json(content)
    except ValueError:
        status = None
    if text(status, "kind") == "Status" and text(status, "message"):
        return text(status, "message")
    message = content.decode(errors="replace").strip() if kind.startswith("text/") or not kind else ""
    match code:
        case 404:
            return "the server could not find the requested resource"
        case 401:
            return "the server has asked for the client to provide credentials"
        case 403:
            return f"forbidden: {message}" if message else "forbidden"
        case 405:
            return "the server does not allow this method on the requested resource"
        case 503:
            return "the server is currently unable to handle the request"
        case _ if code >= 500:
            return (
                f'an error on the server ("{message or "unknown"}") has prevented the request from succeeding'
            )
        case _:
            return f"the server responded with the status code {code} but did not return more information"


def _post_failed(url: str, why: str) -> CallError:
    return CallError(f'failed to call webhook: Post "{url}": {why}')


def _joined(target: WebhookTarget) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"


def _host_header(target: WebhookTarget) -> str:
    name = f"[{target.server_name}]" if ":" in target.server_name else target.server_name
    return f"{name}:{target.port}"
