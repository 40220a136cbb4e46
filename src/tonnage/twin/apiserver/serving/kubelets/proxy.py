"""Logs, exec and pages of pods, passed on to the kubelet of the pod's node.

Source: pkg/registry/core/pod/strategy.go (LogLocation, streamLocation) and registry/rest/streamer (v1.35).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NoReturn
from urllib.parse import quote, urlencode

from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, number, text
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.pods import log_options
from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.resource_names import NODE, POD
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.kubelets.kubelet_http import (
    KubeletResponse,
    UnreachableError,
    open_response,
)
from tonnage.twin.apiserver.serving.kubelets.pod_streams import asked_of_kubelet, serve_stream, until_either
from tonnage.twin.apiserver.statuses import StatusError, bad_request, no_such_path, not_found

_PREFERRED: Final = ("InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP")
"""Addresses of a node. A genuine server tries its names first; those of the twin's nodes nobody resolves."""
_PORT: Final = 10250
"""A kubelet's, where its node names none."""
_SCHEME_NAME_PORT: Final = 3
_HTTP: Final = 80


class KubeletProxy:
    """Speaks to kubelets with the server's client certificate; `trust` makes the TLS context once needed."""

    def __init__(self, store: ObjectStore, trust: Callable[[], ssl.SSLContext]) -> None:
        self._store = store
        self._trust = trust

    async def logs(self, exchange: Exchange, address: ResourcePath) -> None:
        """Stream a container's log. Raises ApiError."""
        log_options.check_log_options(exchange.query, address.name)
        pod = self._pod(address)
        container = _container(pod, exchange.query.get("container", ""))
        if not text(pod, "spec", "nodeName"):
            # Nothing has been written where nothing runs.
            await exchange.start(204, "")
            await exchange.chunk(b"", last=True)
            return
        host, port = self._kubelet(pod)
        query = urlencode(log_options.passed_on(exchange.query))
        path = f"/containerLogs/{address.namespace}/{address.name}/{container}" + (query and f"?{query}")
        try:
            async with open_response(host, port, path, self._trust()) as response:
                if response.code != 200:
                    raise await _refusal(response)
                await exchange.start(200, "text/plain")
                await exchange.chunk(b"")
                await until_either(_copy(response, exchange), exchange.gone())
        except UnreachableError as error:
            raise StatusError(500, "", f'Get "https://{host}:{port}{path}": {error}') from None

    async def page(self, exchange: Exchange, address: ResourcePath) -> None:
        """Relay what a pod serves at one of its ports. Raises ApiError: nobody does."""
        pod_name, port = pod_and_port(address.name)
        pod = self._pod(replace(address, name=pod_name))
        port = port or _first_port(pod)
        host, kubelet_port = self._kubelet(pod)
        where = "/".join(quote(part, safe="") for part in (address.namespace, pod_name))
        path = f"/podPort/{where}/{port}/" + "/".join(quote(part, safe="") for part in address.rest)
        path += f"?{urlencode(exchange.pairs)}" if exchange.pairs else ""
        accept = exchange.headers.get("accept", "") or "*/*"
        try:
            async with open_response(host, kubelet_port, path, self._trust(), accept) as response:
                if response.code == 502:
                    why = (await response.whole()).decode(errors="replace").strip()
                    raise _not_reached(pod, port, f"connect: {why}")
                await exchange.start(response.code, response.content_type)
                await exchange.chunk(b"")
                await until_either(_copy(response, exchange), exchange.gone())
        except UnreachableError as error:
            raise _not_reached(pod, port, str(error)) from None

    async def stream(self, exchange: Exchange, address: ResourcePath) -> None:
        """Relay the WebSocket of exec or attach. Raises ApiError before the connection is accepted."""
        if address.path != ("", "v1", "pods"):
            raise no_such_path()
        pod = self._pod(address)
        container = _container(pod, exchange.query.get("container", ""))
        host, port = self._kubelet(pod)
        where = "/".join(quote(part, safe="") for part in (address.namespace, address.name, container))
        path = f"/{address.subresource}/{where}?{urlencode(asked_of_kubelet(exchange.pairs))}"
        await serve_stream(exchange, host, port, path, self._trust())

    def refuse(self, address: ResourcePath, container: str = "") -> NoReturn:
        """Say why a stream cannot be; kubectl asks so again when its WebSocket was refused.

        Raises:
            ApiError: the same refusal as of the WebSocket, or that only WebSockets are spoken.
        """
        pod = self._pod(address)
        _container(pod, container)
        self._kubelet(pod)
        raise bad_request("Upgrade request required")

    def _pod(self, address: ResourcePath) -> JsonObject:
        stored = self._store.get(POD, (address.namespace, address.name))
        if stored is None or address.path != ("", "v1", "pods"):
            raise not_found(POD, address.name)
        return stored.object

    def _kubelet(self, pod: JsonObject) -> tuple[str, int]:
        """Where the kubelet of the pod's node listens. Raises ApiError."""
        name = text(pod, "spec", "nodeName")
        if not name:
            raise bad_request(f"pod {text(pod, 'metadata', 'name')} does not have a host assigned")
        node = self._store.get(NODE, ("", name))
        if node is None:
            raise not_found(POD, name)  # as upstream says it: what is missed is called as what was asked for
        addresses = [
            (text(entry, "type"), text(entry, "address"))
            for entry in mappings(node.object, "status", "addresses")
        ]
        host = next((host for preferred in _PREFERRED for kind, host in addresses if kind == preferred), "")
        if not host:
            shown = " ".join(f"{{{kind} {address}}}" for kind, address in addresses)
            raise StatusError(500, "", f"no preferred addresses found; known addresses: [{shown}]")
        port = number(node.object, "status", "daemonEndpoints", "kubeletEndpoint", "Port")
        return host, port or _PORT


def pod_and_port(name: str) -> tuple[str, int]:
    """What a proxy calls a pod, as its name and port; 0 for none. Raises ApiError.

    >>> pod_and_port("http:web:8080"), pod_and_port("web:8080"), pod_and_port("web")
    (('web', 8080), ('web', 8080), ('web', 0))
    """
    parts = name.split(":")
    pod, port = parts[-2:] if len(parts) > 1 else (name, "")
    if len(parts) > _SCHEME_NAME_PORT or not (port == "" or (port.isascii() and port.isdigit())):
        raise bad_request(f'invalid pod request "{name}"')
    return pod, int(port[:5] or 0)


def _first_port(pod: JsonObject) -> int:
    """The first that its containers name, else HTTP's."""
    for container in mappings(pod, "spec", "containers"):
        for port in mappings(container, "ports"):
            return number(port, "containerPort")
    return _HTTP


def _not_reached(pod: JsonObject, port: int, why: str) -> ApiError:
    address = f"{text(pod, 'status', 'podIP')}:{port}"
    message = f"error trying to reach service: dial tcp {address}: {why}"
    return StatusError(503, "ServiceUnavailable", message)


def _container(pod: JsonObject, requested: str) -> str:
    """The container meant. Raises ApiError 400."""
    spec, pod_name = mapping(pod, "spec"), text(pod, "metadata", "name")
    names = [text(container, "name") for container, _ in every_container(spec, "")]
    if requested:
        if requested not in names:
            raise bad_request(f"container {requested} is not valid for pod {pod_name}")
        return requested
    main = mappings(spec, "containers")
    if len(main) == 1:
        return text(main[0], "name")
    shown = " ".join(names)
    raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{shown}]")


async def _refusal(response: KubeletResponse) -> ApiError:
    message = (await response.whole()).decode(errors="replace").strip()
    match response.code:
        case 400:
            return bad_request(message)
        case 404:
            return StatusError(
                404, "NotFound", f"the server could not find the requested resource ({message})"
            )
        case 401 | 403:
            return StatusError(500, "InternalError", f"Internal error occurred: kubelet refused: {message}")
        case _:
            return StatusError(500, "InternalError", f"Internal error occurred: {message}")


async def _copy(response: KubeletResponse, exchange: Exchange) -> None:
    async for content in response.chunks():
        await exchange.chunk(content)
    await exchange.chunk(b"", last=True)
