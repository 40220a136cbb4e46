"""Functions of Kubernetes' CEL about texts, addresses, networks and URLs, as they run.

Each fails with the server's words.

Source: k8s.io/apiserver pkg/cel/library (ip.go, cidr.go, urls.go, regex.go, lists.go), 1.35.8.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, cast
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from google.protobuf import duration_pb2, timestamp_pb2

from tonnage.decide.kubernetes.cel.function_library import host_functions
from tonnage.decide.kubernetes.cel.function_library.formatting import formatted
from tonnage.decide.kubernetes.cel.function_library.go_regexps import compiled, regexp_problem
from tonnage.decide.kubernetes.cel.function_library.urls import host_of, quoted_text, url_problem
from tonnage.decide.kubernetes.cel.types.messages import TextMessage, value_of
from tonnage.decide.kubernetes.claims import cel_values
from tonnage.decide.kubernetes.claims.cel_errors import CelError
from tonnage.decide.kubernetes.claims.cel_values import equal, type_name

_IP, _CIDR, _URL = "net.IP", "net.CIDR", "kubernetes.URL"
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _no_overload(function: str, *values: object) -> CelError:
    return CelError(f"no such overload: {function}({', '.join(type_name(value) for value in values)})")


def _text(function: str, value: object) -> str:
    if not isinstance(value, str):
        raise _no_overload(function, value)
    return value


def _wrong_ip(text: str) -> str:
    """Why a text is no address, in Go's words, where that can be told."""
    if not re.match(r"[^.:%]*\.", text):
        return "unable to parse IP"
    octets = text.split(".")
    for index, octet in enumerate(octets):
        if strange := re.search("[^0-9]", octet):
            rest = ".".join([octet[strange.start() :], *octets[index + 1 :]])
            return f"unexpected character (at {quoted_text(rest)})"
        if not octet:
            rest = f".{'.'.join(octets[index + 1 :])}"
            return f"IPv4 field must have at least one digit (at {quoted_text(rest)})"
        if len(octet) > 1 and octet.startswith("0"):
            return "IPv4 field has octet with leading zero"
        if int(octet) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(octets) < 4 else "IPv4 address too long"


def _parsed_ip(text: str) -> _Address:
    if "%" in text:
        raise CelError(f"IP address {quoted_text(text)} with zone value is not allowed")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        words = f"ParseAddr({quoted_text(text)}): {_wrong_ip(text)}"
        raise CelError(
            f"IP Address {quoted_text(text)} parse error during conversion from string: {words}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {quoted_text(text)} is not allowed")
    return address


def _parsed_cidr(text: str) -> _Network:
    prefix = "network address parse error during conversion from string: "
    address, slash, length = text.rpartition("/")
    try:
        if not slash:
            raise ValueError("no '/'")
        if not re.fullmatch(r"0|[1-9][0-9]*", length):
            raise ValueError(f"bad bits after slash: {quoted_text(length)}")
        parsed = _parsed_ip(address)
        if int(length) > parsed.max_prefixlen:
            raise ValueError("prefix length out of range")
        network = ipaddress.ip_interface(f"{parsed}/{length}")
    except (ValueError, CelError) as error:
        why = str(error) if isinstance(error, ValueError) else "unable to parse IP"
        raise CelError(f"{prefix}{prefix}netip.ParsePrefix({quoted_text(text)}): {why}") from None
    return network


def _ip(value: object) -> TextMessage:
    if type_name(value) == _CIDR:
        return value_of(_IP, str(_network("ip", value).ip))
    return value_of(_IP, str(_parsed_ip(_text("ip", value))))


def _address(function: str, value: object) -> _Address:
    if type_name(value) != _IP:
        raise _no_overload(function, value)
    return ipaddress.ip_address(cast("TextMessage", value).text)


def _network(function: str, value: object) -> _Network:
    if type_name(value) != _CIDR:
        raise _no_overload(function, value)
    return ipaddress.ip_interface(cast("TextMessage", value).text)


def _of_address(name: str, ask: Callable[[_Address], object]) -> Callable[[object], object]:
    return lambda value: ask(_address(name, value))


def _succeeds(parse: Callable[[str], object], name: str) -> Callable[[object], bool]:
    def succeeds(value: object) -> bool:
        try:
            parse(_text(name, value))
        except CelError:
            return False
        return True

    return succeeds


_is_ip = _succeeds(_parsed_ip, "isIP")


def _contains_ip(network: object, other: object) -> bool:
    if isinstance(other, str) and not _is_ip(other):
        raise CelError("no such overload")
    address = _parsed_ip(other) if isinstance(other, str) else _address("containsIP", other)
    return address in _network("containsIP", network).network


def _contains_cidr(network: object, other: object) -> bool:
    inner = _parsed_cidr(other) if isinstance(other, str) else _network("containsCIDR", other)
    outer = _network("containsCIDR", network)
    return (
        inner.version == outer.version
        and outer.network.prefixlen <= inner.network.prefixlen
        and inner.ip in outer.network
    )


def _masked(value: object) -> TextMessage:
    return value_of(_CIDR, str(_network("masked", value).network))


def _global(address: _Address) -> bool:
    others = address.is_unspecified, address.is_loopback, address.is_multicast, address.is_link_local
    return not any(others) and str(address) != "255.255.255.255"


def _link_local_multicast(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


def _parsed_url(text: str) -> None:
    if wrong := url_problem(text):
        raise CelError(f"URL parse error during conversion from string: {wrong}")


def _url(name: str, ask: Callable[[SplitResult], object]) -> Callable[[object], object]:
    def of_url(value: object) -> object:
        if type_name(value) != _URL:
            raise _no_overload(name, value)
        return ask(urlsplit(cast("TextMessage", value).text))

    return of_url


def _make_url(value: object) -> TextMessage:
    text = _text("url", value)
    _parsed_url(text)
    return value_of(_URL, text)


def _pattern(pattern: str) -> re.Pattern[str]:
    if wrong := regexp_problem(pattern):
        raise CelError(f"Illegal regex: {wrong}")
    return compiled(pattern)


def _find(value: object, pattern: object) -> str:
    match = _pattern(_text("find", pattern)).search(_text("find", value))
    return match[0] if match else ""


def _find_all(value: object, pattern: object, most: object = -1) -> list[str]:
    if not isinstance(most, int):
        raise _no_overload("findAll", value, pattern, most)
    matches = [match[0] for match in _pattern(_text("findAll", pattern)).finditer(_text("findAll", value))]
    return matches if most < 0 else matches[:most]


def _index_of(name: str, *, last: bool) -> Callable[..., int]:
    def index(value: object, sought: object, offset: object = None) -> int:
        if isinstance(value, str) and isinstance(sought, str):
            return _in_text(value, sought, offset, last=last)
        if not isinstance(value, list) or offset is not None:
            raise _no_overload(name, value, sought)
        places = [place for place, element in enumerate(value) if equal(element, sought)]
        return -1 if not places else places[-1 if last else 0]

    return index


def _in_text(value: str, sought: str, offset: object, *, last: bool) -> int:
    if isinstance(offset, int) and offset > len(value) and not last:
        return -1
    if offset is not None and not (isinstance(offset, int) and 0 <= offset <= len(value)):
        raise CelError(f"index out of range: {offset}")
    begin = offset if offset is not None else (len(value) if last else 0)
    return value.rfind(sought, 0, begin + len(sought)) if last else value.find(sought, begin)


def _place(place: object, most: int) -> int:
    if not isinstance(place, int) or not 0 <= place <= most:
        raise CelError(f"index out of range: {place}")
    return place


def _char_at(value: object, place: object) -> str:
    text = _text("charAt", value)
    return text[_place(place, len(text)) :][:1]


def _substring(value: object, begin: object, end: object = None) -> str:
    text = _text("substring", value)
    last = len(text) if end is None else _place(end, len(text))
    first = _place(begin, len(text))
    if first > last:
        raise CelError(f"invalid substring range. start: {first}, end: {last}")
    return text[first:last]


def _inserted(into: object, *more: object) -> dict[object, object]:
    """A map with a key more, or with another's; one that it has is an error."""
    added = cast("Mapping[object, object]", more[0]) if len(more) == 1 else {more[0]: more[1]}
    held = dict(cast("Mapping[object, object]", into))
    for key, value in added.items():
        if key in held:
            raise CelError(f"insert failed: key {key} already exists")
        held[key] = value
    return held


def _to_string(value: object) -> str:
    if isinstance(value, datetime):
        return formatted("%s", [value])
    if type_name(value) not in (_IP, _CIDR):
        raise _no_overload("string", value)
    return str(cast("TextMessage", value).text)


def _values(query: str) -> Mapping[str, Sequence[str]]:
    return parse_qs(query, keep_blank_values=True)


def _sum(values: object) -> object:
    if not isinstance(values, list):
        raise _no_overload("sum", values)
    return sum(values[1:], values[0]) if values else 0


def native_arguments(function: Callable[..., object]) -> Callable[..., object]:
    """A function whose spans and moments are messages, which the library takes back."""
    return lambda *values: as_message(function(*values))


def as_message(value: object) -> object:
    """A span or a moment as a message, anything else as it is."""
    if isinstance(value, timedelta):
        span = duration_pb2.Duration()
        span.FromTimedelta(value)
        return span
    if isinstance(value, datetime):
        moment = timestamp_pb2.Timestamp()
        moment.FromDatetime(value)
        return moment
    return value


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    **cel_values.FUNCTIONS,
    **host_functions.FUNCTIONS,
    "sum": _sum,
    "url": _make_url,
    "isURL": _succeeds(_parsed_url, "isURL"),
    "getScheme": _url("getScheme", lambda parts: parts.scheme),
    "getHost": _url("getHost", host_of),
    "getHostname": _url("getHostname", lambda parts: re.sub(r":\d*$", "", host_of(parts)).strip("[]")),
    "getPort": _url("getPort", lambda parts: "" if parts.port is None else str(parts.port)),
    "getEscapedPath": _url("getEscapedPath", lambda parts: quote(parts.path, safe="/%:@!$&'()*+,;=~")),
    "getQuery": _url("getQuery", lambda parts: dict(_values(parts.query))),
    "find": _find,
    "findAll": _find_all,
    "ip": _ip,
    "isIP": _is_ip,
    "ip.isCanonical": lambda value: str(_parsed_ip(_text("ip.isCanonical", value))) == value,
    "family": _of_address("family", lambda ip: ip.version),
    "isUnspecified": _of_address("isUnspecified", lambda ip: ip.is_unspecified),
    "isLoopback": _of_address("isLoopback", lambda ip: ip.is_loopback),
    "isLinkLocalMulticast": _of_address("isLinkLocalMulticast", _link_local_multicast),
    "isLinkLocalUnicast": _of_address("isLinkLocalUnicast", lambda ip: ip.is_link_local),
    "isGlobalUnicast": _of_address("isGlobalUnicast", _global),
    "cidr": lambda value: value_of(_CIDR, str(_parsed_cidr(_text("cidr", value)))),
    "isCIDR": _succeeds(_parsed_cidr, "isCIDR"),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _network("prefixLength", value).network.prefixlen,
    "masked": _masked,
    "string": _to_string,
    "indexOf": _index_of("indexOf", last=False),
    "lastIndexOf": _index_of("lastIndexOf", last=True),
    "@mapInsert": _inserted,
    "format": formatted,
    "charAt": _char_at,
    "substring": _substring,
}
"""Implementations by name; one that takes several types tells them apart itself."""
