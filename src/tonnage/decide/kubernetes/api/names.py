"""What names, keys and values may look like, and the server's words for what is wrong with them.

Each function returns the complaints about a text, none if it is good.

Source: k8s.io/apimachinery (api/validate/content, util/validation), RFC 1123, RFC 1035.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tonnage.model.kubernetes.name_words import (
    LABEL,
    OF_LABEL,
    OF_SUBDOMAIN,
    SUBDOMAIN,
    pattern_complaint,
    wrong_in_key,
    wrong_in_value,
)

_SHORT: Final = 320
"""What is longer is judged anew each time, so that what is remembered stays small."""
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_C_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"
_LABEL_1035_WORDS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_SEARCHED_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_CONFIG_KEY_WORDS: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
Complaints = tuple[str, ...]


def length_complaint(longest: int, unit: str = "characters") -> str:
    """Words for a text that is too long; always measured in bytes, whatever the unit's name."""
    return f"must be no more than {longest} {unit}"


def dns_label(text: str) -> Complaints:
    """An RFC 1123 label: names of namespaces, containers, volumes.

    >>> dns_label("a.b")
    ('must not contain dots',)
    """
    long = (length_complaint(63),) if _bytes(text) > 63 else ()
    if _matches(LABEL, text):
        return long
    if _matches(SUBDOMAIN, text):
        return (*long, "must not contain dots")
    return (*long, pattern_complaint(OF_LABEL, LABEL, "my-name", "123-abc"))


def dns_subdomain(text: str, unit: str = "characters") -> Complaints:
    """An RFC 1123 subdomain: names of most objects."""
    long = (length_complaint(253, unit),) if _bytes(text) > 253 else ()
    if _matches(SUBDOMAIN, text):
        return long
    return (*long, pattern_complaint(OF_SUBDOMAIN, SUBDOMAIN, "example.com"))


def searched_domain(text: str) -> Complaints:
    """A domain in which a pod looks for names: parts may begin with an underscore."""
    part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    pattern = rf"{part}(\.{part})*"
    long = (length_complaint(253),) if _bytes(text) > 253 else ()
    if _matches(pattern, text):
        return long
    return (*long, pattern_complaint(_SEARCHED_WORDS, pattern, "example.com"))


def dns_label_1035(text: str) -> Complaints:
    """An RFC 1035 label: plural names of custom resources."""
    long = (length_complaint(63),) if _bytes(text) > 63 else ()
    if _matches(_LABEL_1035, text):
        return long
    return (*long, pattern_complaint(_LABEL_1035_WORDS, _LABEL_1035, "my-name", "abc-123"))


def path_segment(text: str) -> Complaints:
    """A name that only has to fit into a path: roles and their bindings."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{part}'" for part in ("/", "%") if part in text)


def qualified_name(text: str) -> Complaints:
    """A label's key, a finalizer, a resource's name: `[prefix/]name`.

    >>> qualified_name("nvidia.com/gpu")
    ()
    """
    return _qualified_name(text) if len(text) <= _SHORT else _qualified_name.__wrapped__(text)


@lru_cache(maxsize=4096)
def _qualified_name(text: str) -> Complaints:
    return tuple(wrong_in_key(text))


def label_value(text: str) -> Complaints:
    """A label's value."""
    return _label_value(text) if len(text) <= _SHORT else _label_value.__wrapped__(text)


@lru_cache(maxsize=4096)
def _label_value(text: str) -> Complaints:
    return tuple(wrong_in_value(text))


def config_key(text: str) -> Complaints:
    """A key of a ConfigMap or Secret."""
    complaints: Complaints = (length_complaint(253),) if _bytes(text) > 253 else ()
    if not _matches(_CONFIG_KEY, text):
        examples = ("key.name", "KEY_NAME", "key-name")
        complaints += (pattern_complaint(_CONFIG_KEY_WORDS, _CONFIG_KEY, *examples),)
    if text in (".", ".."):
        return (*complaints, f"must not be '{text}'")
    return (*complaints, "must not start with '..'") if text.startswith("..") else complaints


def c_identifier(text: str) -> Complaints:
    """A C identifier."""
    if _matches(_C_NAME, text):
        return ()
    words = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return (pattern_complaint(words, _C_NAME, "my_name", "MY_NAME", "MyName"),)


def environment_name(text: str) -> Complaints:
    """The name of an environment variable, as 1.34 and later allow it."""
    complaints = () if text else ("environment variable name must be non-empty",)
    if all(" " <= letter <= "~" and letter != "=" for letter in text):
        return complaints
    words = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return (*complaints, words)


def header_name(text: str) -> Complaints:
    """The name of an HTTP header."""
    if _matches(_HEADER, text):
        return ()
    words = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (pattern_complaint(words, _HEADER, "X-Header-Name"),)


def port_name(text: str) -> Complaints:
    """The name of a port, by IANA's rules."""
    complaints = []
    if _bytes(text) > 15:
        complaints.append("must be no more than 15 characters")
    if not _matches("[-a-z0-9]+", text):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in text:
        complaints.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return tuple(complaints)


def port_number(number: int) -> Complaints:
    """A TCP or UDP port."""
    return () if 1 <= number <= 65535 else ("must be between 1 and 65535, inclusive",)


def percentage(text: str) -> Complaints:
    """A percentage such as `25%`."""
    if _matches("[0-9]+%", text):
        return ()
    words = "a valid percent string must be a numeric string followed by an ending '%'"
    return (pattern_complaint(words, "[0-9]+%", "1%", "93%"),)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _bytes(text: str) -> int:
    return len(text.encode())
