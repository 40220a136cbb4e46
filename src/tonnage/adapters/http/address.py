"""Where to listen: `HOST:PORT` as a person writes it, and the socket. Importing this costs nothing."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import time
from dataclasses import dataclass
from typing import Final

from tonnage.model.errors import ConfigError, Problem

_REMEDY: Final = "write IP:PORT such as 127.0.0.1:9400 or [::1]:9400, or :PORT for every address"
_BACKLOG: Final = 64
_PATIENCE_S: Final = 1.0
_MOST_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address without brackets, empty for every address of both families; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | Problem:
    """The address, or what is wrong with it. Names are not looked up: an agent starts without DNS.

    >>> str(parse_address("[::1]:9400")), str(parse_address("localhost:0"))
    ('[::1]:9400', '127.0.0.1:0')
    >>> parse_address("9400").why
    'the port after the colon is missing'
    """
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port or (":" in host and not host.startswith("[")):
        why = (
            "put an IPv6 address in brackets"
            if text.count(":") > 1
            else "the port after the colon is missing"
        )
        return _problem(text, why)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16):
        return _problem(text, f"{port[:20]!r} is not a port (0 to 65535)")
    plain = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if plain in ("", "localhost") and plain == host:
        return Address("127.0.0.1" if host else "", int(port))
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:
        return _problem(text, f"{host[:60]!r} is not an IP address")
    if (parsed.version == 6) != (plain != host):
        return _problem(text, "brackets are for IPv6 addresses")
    return Address(plain, int(port))


def listen(address: Address, flag: str = "--metrics-address") -> socket.socket:
    """A listening socket; who connects waits in its queue until somebody serves it. Raises ConfigError."""
    try:
        return _listening(address)
    except OSError as error:
        raise ConfigError(_refused(address, error, flag)) from None


async def somebody_connects(listening: socket.socket) -> None:
    """Return once somebody waits in the socket's queue."""
    loop, waits = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, waits.set)
    try:
        await waits.wait()
    finally:
        loop.remove_reader(listening)


def _listening(address: Address) -> socket.socket:
    every = not address.host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if every or ":" in address.host else socket.AF_INET
    # Named, the protocol makes asyncio turn Nagle's delay (40 ms an answer) off on every connection.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not every)
        listening.bind(("::" if every else address.host, address.port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _refused(address: Address, error: OSError, flag: str) -> Problem:
    where, port = str(address), address.port
    match error.errno:
        case errno.EADDRINUSE:
            program, remedy = _program_at(address), f"stop it, or choose another port with {flag}"
            return Problem(f"port {port} is in use", where, f"{program} listens there", remedy)
        case errno.EACCES:
            why, remedy = "ports below 1024 need privileges", "choose a port above 1023"
            return Problem(f"port {port} may not be opened", where, why, remedy)
        case _:
            return Problem("cannot listen", where, error.strerror or str(error), "choose another address")


def _program_at(address: Address) -> str:
    """What listens there, by the page that it shows: dcgm-exporter has the same port as a rule."""
    deadline = time.monotonic() + _PATIENCE_S
    page = b""
    try:
        with socket.create_connection((address.host or "127.0.0.1", address.port), _PATIENCE_S) as peer:
            peer.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            while len(page) < _MOST_BYTES and time.monotonic() < deadline:
                peer.settimeout(max(0.01, deadline - time.monotonic()))
                if not (piece := peer.recv(_MOST_BYTES)):
                    break
                page += piece
    except OSError:
        pass  # what came tells enough, or nothing does
    if b"tonnage_" in page:
        return "another agent of Tonnage"
    return "dcgm-exporter" if b"DCGM_FI_" in page else "another program"


def _problem(text: str, why: str) -> Problem:
    return Problem(f"not an address to listen on: {text[:100]!r}", "--metrics-address", why, _REMEDY)
