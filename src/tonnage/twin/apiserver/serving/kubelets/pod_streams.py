"""The streams of exec and attach, between a client and a kubelet.

Source: Kubernetes 1.35, pkg/util/proxy of k8s.io/apiserver (streamtranslator.go) and of k8s.io/apimachinery.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.kubelets.kubelet_http import UnreachableError
from tonnage.twin.apiserver.serving.kubelets.kubelet_socket import KubeletSocket, UpgradeError, open_socket
from tonnage.twin.apiserver.statuses import StatusError, bad_request, internal_error, status_of
from tonnage.wire.decode import decoded_json

_TRANSLATED: Final = "v5.channel.k8s.io"
"""Who speaks it has the server itself at the other end, which tells there how it fared with the kubelet."""
_PROTOCOLS: Final = (_TRANSLATED, "v4.channel.k8s.io")
_ERRORS: Final = b"\x03"
"""The channel of the Status at the end."""
_TYPE: Final = ("kind", "apiVersion")
_EXITED: Final = "NonZeroExitCode"
STREAM_KINDS: Final = {"exec": "PodExecOptions", "attach": "PodAttachOptions"}
"""What the options of a stream are called, by its subresource."""
_SWITCHES: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""What is asked of a stream, and what kubelets call it."""


def stream_options(subresource: str, pairs: Sequence[tuple[str, str]]) -> JsonObject:
    """The options of a stream as admission sees them.

    >>> stream_options("exec", [("command", "ls"), ("stdout", "true"), ("tty", "false")])["command"]
    ['ls']
    """
    values = dict(pairs)
    options: JsonObject = {"kind": STREAM_KINDS[subresource], "apiVersion": "v1"}
    options |= dict.fromkeys(_switched_on(values), True)
    if values.get("container"):
        options["container"] = values["container"]
    if command := [value for key, value in pairs if key == "command"]:
        options["command"] = list[JsonValue](command)
    return options


def asked_of_kubelet(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The query of a stream as kubelets get it.

    >>> asked_of_kubelet([("stdout", "true"), ("container", "c"), ("command", "ls"), ("command", "-l")])
    [('command', 'ls'), ('command', '-l'), ('output', '1')]
    """
    switches = [(_SWITCHES[switch], "1") for switch in _switched_on(dict(pairs))]
    return sorted([*(pair for pair in pairs if pair[0] == "command"), *switches], key=lambda pair: pair[0])


class _Cause(msgspec.Struct):
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Ended(msgspec.Struct):
    """How a kubelet says that a program has ended."""

    status: str
    reason: str = ""
    message: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


async def serve_stream(exchange: Exchange, host: str, port: int, path: str, context: ssl.SSLContext) -> None:
    """Relay a WebSocket to the kubelet's at `wss://host:port/path`.

    Raises:
        ApiError: before the client's connection is accepted.
    """
    offered = [protocol for protocol in exchange.scope.get("subprotocols", []) if protocol in _PROTOCOLS]
    if not offered:
        raise bad_request(f"unable to negotiate a protocol: the server supports {', '.join(_PROTOCOLS)}")
    if _TRANSLATED in offered:
        await _accept(exchange, _TRANSLATED)
        try:
            async with open_socket(host, port, path, context, [_TRANSLATED]) as kubelet:
                await _relay(kubelet, exchange, _in_server_words)
        except (UnreachableError, UpgradeError) as error:
            why = _why_not(error, f"https://{host}:{port}{path}")
            with suppress(OSError):  # Who has gone by now, nobody tells.
                await exchange.send({"type": "websocket.send", "bytes": _failure(why)})
                await exchange.send({"type": "websocket.close", "code": 1000})
        return
    try:
        async with open_socket(host, port, path, context, offered) as kubelet:
            await _accept(exchange, kubelet.subprotocol)
            await _relay(kubelet, exchange, lambda message: message)
    except UnreachableError as error:
        raise StatusError(500, "", f"error dialing backend: {error}") from None
    except UpgradeError as error:
        raise StatusError(error.code, "", str(error)) from None


def _switched_on(values: Mapping[str, str]) -> list[str]:
    return [switch for switch in _SWITCHES if values.get(switch, "").lower() not in ("", "false", "0")]


def _why_not(error: UnreachableError | UpgradeError, url: str) -> str:
    if isinstance(error, UnreachableError):
        return f'error sending request: Post "{url}": {error}'
    return f"unable to upgrade connection: {error}"


async def _accept(exchange: Exchange, subprotocol: str | None) -> None:
    await exchange.receive()
    await exchange.send({"type": "websocket.accept", "subprotocol": subprotocol})


def _failure(why: str) -> bytes:
    status = status_of(internal_error(why))
    return _ERRORS + go_json({key: value for key, value in status.items() if key not in _TYPE})


def _in_server_words(message: bytes | str) -> bytes | str:
    """What a kubelet says; how a program ended is told in the server's words."""
    if not isinstance(message, bytes) or message[:1] != _ERRORS or not message[1:]:
        return message
    try:
        whole = decoded_json(message[1:], dict[str, Any])
        status = msgspec.convert(whole, _Ended)
    except ValueError as error:
        return _failure(f"the kubelet's last message is no Status: {str(error)[:200]}")
    if status.status == "Success":
        return message
    if status.reason != _EXITED:
        return _failure(status.message)
    code = next((cause.message for cause in status.details.causes), "")
    text = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    return _ERRORS + go_json({**whole, "message": text})


async def _relay(
    kubelet: KubeletSocket, exchange: Exchange, translate: Callable[[bytes | str], bytes | str]
) -> None:
    """Pass on what either says until one ends; `translate` turns the kubelet's words into the client's."""
    await until_either(_to_client(kubelet, exchange, translate), _to_kubelet(exchange, kubelet))


async def _to_client(
    kubelet: KubeletSocket, exchange: Exchange, translate: Callable[[bytes | str], bytes | str]
) -> None:
    async for message in kubelet.messages():
        content = translate(message)
        key = "bytes" if isinstance(content, bytes) else "text"
        await exchange.send({"type": "websocket.send", key: content})
    await exchange.send({"type": "websocket.close", "code": kubelet.close_code})


async def _to_kubelet(exchange: Exchange, kubelet: KubeletSocket) -> None:
    while True:
        message = await exchange.receive()
        if message["type"] == "websocket.disconnect":
            await kubelet.close(message.get("code") or 1000)
            return
        content = message.get("bytes")
        await kubelet.send(content if content is not None else str(message.get("text", "")))


async def until_either(*parts: Coroutine[None, None, None]) -> None:
    """Run both until one ends; the other is cancelled. Raises what the first raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
