"""Addresses and ranges of addresses.

Source: pkg/apis/core/validation, apimachinery's util/validation/ip.go (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Container
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import invalid
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors

_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_LINK_LOCAL: Final = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
_MULTICAST: Final = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"


def parsed(shown: str) -> IPv4Address | IPv6Address | None:
    """An address, leading zeros of IPv4 allowed; None if it is none.

    >>> parsed("010.1.2.3"), parsed("fe80::1%eth0"), parsed("x")
    (IPv4Address('10.1.2.3'), None, None)
    """
    try:
        return ip_address(
            re.sub(r"(?<![0-9])0+(?=[0-9])", "", shown) if "." in shown else _without_zone(shown)
        )
    except ValueError:
        return None


def _without_zone(shown: str) -> str:
    if "%" in shown:
        raise ValueError(shown)
    return shown


def legacy_address(shown: str, path: str) -> FieldErrors:
    """An IP address as old fields take it."""
    if parsed(shown) is None:
        yield invalid(path, shown, _NO_ADDRESS)


def canonical_address(shown: str) -> names.Complaints:
    """Complaints about an address that must be spelt in one way: names of IPAddresses.

    >>> canonical_address("::0")
    ('must be in canonical form ("::")',)
    """
    address = parsed(shown)
    if address is None:
        return (_NO_ADDRESS,)
    if "." in shown and re.search(r"(?<![0-9])0[0-9]", shown):
        return ("must not have leading 0s",)
    return () if str(address) == shown else (f'must be in canonical form ("{address}")',)


def legacy_range(shown: str, path: str, old_ranges: Container[str] = ()) -> FieldErrors:
    """A range of addresses as old fields take it; what was there before may stay."""
    if shown not in old_ranges and parsed_range(shown) is None:
        yield invalid(path, shown, _NO_RANGE)


def parsed_range(shown: str) -> IPv4Network | IPv6Network | None:
    """A range of addresses; the bits that it leaves open may be set. None if it is none.

    >>> parsed_range("10.1.2.3/08"), parsed_range("10.1.2.3")
    (IPv4Network('10.0.0.0/8'), None)
    """
    address, _, length = shown.partition("/")
    network_address = parsed(address)
    if (
        network_address is None
        or not re.fullmatch("[0-9]{1,3}", length)
        or int(length) > network_address.max_prefixlen
    ):
        return None
    return ip_network(f"{network_address}/{int(length)}", strict=False)


def endpoint_address(shown: str, path: str) -> FieldErrors:
    """An address that something can be reached at."""
    address = parsed(shown)
    if address is None:
        yield invalid(path, shown, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield invalid(path, shown, f"may not be unspecified ({shown})")
    if address.is_loopback:
        yield invalid(path, shown, _LOOPBACK)
    if address.is_link_local:
        yield invalid(path, shown, _LINK_LOCAL)
    group = f"{address.exploded}"
    if group.startswith("224.0.0.") or re.match("ff.2:", group):
        yield invalid(path, shown, _MULTICAST)
