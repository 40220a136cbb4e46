"""Addresses on which pages are served: how they are read, and what is said of those that cannot be had."""

from __future__ import annotations

import socket
import threading

import pytest

from support.deadlines import join
from tonnage.adapters.http.address import Address, listen, parse_address
from tonnage.model.errors import ConfigError, Problem


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback address."""
    try:
        listen(Address("::1", 0)).close()
    except ConfigError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("127.0.0.1:9400", Address("127.0.0.1", 9400), id="IPv4"),
        pytest.param("[::1]:9400", Address("::1", 9400), id="IPv6 in brackets"),
        pytest.param("[fe80::1%eth0]:1", Address("fe80::1%eth0", 1), id="IPv6 of a link"),
        pytest.param("localhost:0", Address("127.0.0.1", 0), id="localhost and any port"),
        pytest.param(":65535", Address("", 65535), id="every address"),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    if address.host:
        assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("9400", "the port after the colon is missing", id="only a port"),
        pytest.param("127.0.0.1", "the port after the colon is missing", id="no port"),
        pytest.param("127.0.0.1:", "'' is not a port", id="empty port"),
        pytest.param("127.0.0.1:65536", "'65536' is not a port", id="port too large"),
        pytest.param("127.0.0.1:-1", "'-1' is not a port", id="negative port"),
        pytest.param("127.0.0.1:٣", "'٣' is not a port", id="digits of another script"),
        pytest.param("::1:9400", "in brackets", id="IPv6 without brackets"),
        pytest.param("[::1]", "in brackets", id="IPv6 without port"),
        pytest.param("[127.0.0.1]:1", "brackets are for IPv6", id="IPv4 in brackets"),
        pytest.param("[localhost]:1", "is not an IP address", id="name in brackets"),
        pytest.param("[]:1", "is not an IP address", id="empty brackets"),
        pytest.param("example.com:9400", "'example.com' is not an IP address", id="a name"),
        pytest.param("http://127.0.0.1:9400", "in brackets", id="an URL"),
        pytest.param("256.0.0.1:1", "is not an IP address", id="no octet"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, why: str) -> None:
    problem = parse_address(text)
    assert isinstance(problem, Problem)
    assert why in problem.why
    assert problem.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6), ""])
def test_a_port_in_use_is_an_error_that_names_it(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.adapters.http.address._PATIENCE_S", 0.01)  # what has it never answers
    with listen(Address(host, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use"):
            listen(Address(host, port))
        listen(Address(host, 0)).close()  # beside it, on another port
    listen(Address(host, port)).close()


@pytest.mark.parametrize(
    ("page", "program"),
    [
        (b"# HELP DCGM_FI_DEV_SM_CLOCK x\nDCGM_FI_DEV_SM_CLOCK 1\n", "dcgm-exporter"),
        (b"DCGM_FI_DEV_SM_CLOCK 1\ntonnage_exporter_series 1\n", "another agent of Tonnage"),
        (b"go_goroutines 1\n", "another program"),
        (b"", "another program"),
    ],
)
def test_a_port_in_use_is_said_by_the_program_that_has_it(page: bytes, program: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def answer() -> None:
            peer, _ = taken.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + page)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConfigError) as raised:
            listen(Address("127.0.0.1", port), "--exporter-address")
        join(thread)
    (problem,) = raised.value.problems
    assert problem.why == f"{program} listens there"
    assert "--exporter-address" in problem.remedy


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        listen(Address("192.0.2.1", 0))


@pytest.mark.parametrize("family", [socket.AF_INET, pytest.param(socket.AF_INET6, marks=needs_ipv6)])
def test_no_host_is_every_address_of_both_families(family: socket.AddressFamily) -> None:
    with listen(Address("", 0)) as listening, socket.socket(family) as client:
        loopback = "127.0.0.1" if family == socket.AF_INET else "::1"
        client.connect((loopback, listening.getsockname()[1]))
