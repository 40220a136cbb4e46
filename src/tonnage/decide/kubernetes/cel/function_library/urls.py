"""URLs that a request may name, and Go's words on texts that are none.

Source: Go's net/url (ParseRequestURI).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_NOT_IN_HOSTS: Final = re.compile(r"""[^\w!$&'()*+,;=:\[\]<>"\-.~%\x80-\U0010ffff]""", re.ASCII)
_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}")


def url_problem(text: str) -> str:
    """Why a text is no URL that a request may name, in Go's words; empty where it is one.

    >>> url_problem("x")
    'parse "x": invalid URI for request'
    """
    why = _problem(text)
    return why and f"parse {quoted_text(text)}: {why}"


def _problem(text: str) -> str:
    if not text:
        return "empty url"
    if re.search(r"[\x00-\x1f\x7f]", text):
        return "net/url: invalid control character in URL"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "missing ']' in host"
    if text.startswith(":"):
        return "missing protocol scheme"
    if not parts.scheme and not text.startswith("/"):
        return "invalid URI for request"
    host = host_of(parts)
    if wrong := _NOT_IN_HOSTS.search(host):
        return f"invalid character {quoted_text(wrong[0])} in host name"
    if wrong := _ESCAPE.search(host) or _ESCAPE.search(parts.path):
        return f"invalid URL escape {quoted_text(wrong[0])}"
    try:
        _ = parts.port
    except ValueError:
        return f"invalid port {quoted_text(':' + host.rpartition(':')[2])} after host"
    return ""


def host_of(parts: SplitResult) -> str:
    """The host of a URL's parts, with its port."""
    return str(parts.netloc.rpartition("@")[2])


def quoted_text(text: str) -> str:
    """A text in quotes.

    >>> quoted_text('a"')
    '"a\\\\""'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
