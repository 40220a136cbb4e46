"""What is wrong with names, label keys and label values, in the API server's words.

Source: k8s.io/apimachinery pkg/api/validate/content, pkg/util/validation, 1.35 (1.34 counts "characters").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ENDS: Final = "and must start and end with an alphanumeric character"
_PARTS: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ENDS
)
OF_LABEL: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
)
OF_SUBDOMAIN: Final = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
)
_PREFIXED: Final = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
HUGE_PAGES: Final = "hugepages-"
OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")
COUNTS: Final = (
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_RESOURCES: Final = frozenset({
    *OF_CONTAINERS, *COUNTS, "storage", "requests.storage",
    *(f"{part}.{name}" for part in ("requests", "limits") for name in OF_CONTAINERS),
})  # fmt: skip
_PATTERN_ALONE: Final = re.compile(r" \(regex used for validation is '.*?'\)")
_PATTERN_AFTER_EXAMPLES: Final = re.compile(r", regex used for validation is '.*?'\)")
_PATTERN_OF_QUANTITIES: Final = re.compile(r"quantities must match the regular expression '.*?'")
_QUANTITY: Final = "a quantity must be a number, with a suffix such as m, k, Mi or Gi where it needs one"
_LONGEST: Final = 63
_LONGEST_SUBDOMAIN: Final = 253


def wrong_in_key(text: str) -> Iterator[str]:
    """The key of a label, the name of a gate or of a resource.

    >>> list(wrong_in_key("nvidia.com/gpu.product")), list(wrong_in_key("/gpu"))
    ([], ['prefix part must be non-empty'])
    """
    parts = text.split("/")
    if len(parts) > 2:
        complaint = pattern_complaint(_PARTS, KEY, "MyName", "my.name", "123-abc")
        yield f"a valid label key {complaint} {_PREFIXED}"
        return
    if len(parts) == 2:
        wrong = wrong_in_subdomain(parts[0]) if parts[0] else ("must be non-empty",)
        yield from (f"prefix part {why}" for why in wrong)
    name = parts[-1]
    if not name:
        yield "name part must be non-empty"
    elif len(name.encode()) > _LONGEST:
        yield f"name part {_at_most(_LONGEST)}"
    if not re.fullmatch(KEY, name):
        yield f"name part {pattern_complaint(_PARTS, KEY, 'MyName', 'my.name', '123-abc')}"


def wrong_in_value(text: str) -> Iterator[str]:
    """The value of a label.

    >>> list(wrong_in_value("NVIDIA-L4")), len(list(wrong_in_value("NVIDIA L4")))
    ([], 1)
    """
    if len(text.encode()) > _LONGEST:
        yield _at_most(_LONGEST)
    if not re.fullmatch(f"({KEY})?", text):
        yield pattern_complaint(_VALUE, f"({KEY})?", "MyValue", "my_value", "12345")


def wrong_in_label(text: str) -> Iterator[str]:
    """A name that is one part of a domain, such as a container's.

    >>> list(wrong_in_label("main")), list(wrong_in_label("a.b"))
    ([], ['must not contain dots'])
    """
    if len(text.encode()) > _LONGEST:
        yield _at_most(_LONGEST)
    if re.fullmatch(LABEL, text):
        return
    if re.fullmatch(SUBDOMAIN, text):
        yield "must not contain dots"
    else:
        yield pattern_complaint(OF_LABEL, LABEL, "my-name", "123-abc")


def wrong_in_resource(name: str) -> Iterator[str]:
    """The name of a resource, wherever it stands."""
    wrong = [*wrong_in_key(name)]
    if not wrong and "/" not in name and name not in _RESOURCES and not name.startswith(HUGE_PAGES):
        wrong = ["must be a standard resource type or fully qualified"]
    yield from wrong


def wrong_in_container_resource(name: str) -> Iterator[str]:
    """The name of a resource that a container asks for.

    >>> list(wrong_in_container_resource("nvidia.com/gpu")), list(wrong_in_container_resource("storage"))
    ([], ['must be a standard resource for containers'])
    """
    yield from wrong_in_resource(name)
    if "/" not in name:
        if name not in OF_CONTAINERS and not name.startswith(HUGE_PAGES):
            yield "must be a standard resource for containers"
    elif "kubernetes.io/" not in name and (
        name.startswith("requests.") or next(wrong_in_key(f"requests.{name}"), None)
    ):
        yield "doesn't follow extended resource name standard"


def wrong_in_subdomain(text: str) -> Iterator[str]:
    """A name of several such parts, such as a node's."""
    if len(text.encode()) > _LONGEST_SUBDOMAIN:
        yield _at_most(_LONGEST_SUBDOMAIN)
    if not re.fullmatch(SUBDOMAIN, text):
        yield pattern_complaint(OF_SUBDOMAIN, SUBDOMAIN, "example.com")


def _at_most(count: int) -> str:
    return f"must be no more than {count} bytes"


def without_pattern(text: str) -> str:
    """The server's words without the regular expression in them; its examples say enough.

    >>> without_pattern("must be small (e.g. 'a',  or 'b', regex used for validation is '[a-z]')")
    "must be small (e.g. 'a', or 'b')"
    >>> without_pattern("must be small (regex used for validation is '[a-z]'), and short")
    'must be small, and short'
    """
    text = _PATTERN_AFTER_EXAMPLES.sub(")", _PATTERN_ALONE.sub("", text))
    text = _PATTERN_OF_QUANTITIES.sub(_QUANTITY, text)
    return text.replace("',  or '", "', or '")


def pattern_complaint(parts: str, pattern: str, *examples: str) -> str:
    """Words for a text that does not match, as the server says it, which leaves two blanks before `or`."""
    if not examples:
        return f"{parts} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{parts} (e.g. {shown}regex used for validation is '{pattern}')"
