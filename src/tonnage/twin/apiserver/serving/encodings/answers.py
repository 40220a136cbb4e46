"""Answers as bytes: JSON, for machines and for people, YAML and protobuf.

Source: sigs.k8s.io/yaml (goyaml.v2, encode.go and resolve.go).
"""

from __future__ import annotations

import json
import re
from functools import cache, cmp_to_key
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from tonnage.decide.kubernetes.api.encoding.go_json import escaped, go_json
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.serving.encodings.negotiation import JSON, PROTOBUF, Form

if TYPE_CHECKING:
    import yaml

_NO_TEXT: Final = re.compile(
    r"""~|null|Null|NULL|<<|=|
    y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE|
    [-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?0o?[0-7_]+|[-+]?[0-9][0-9_]*|
    [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)|
    [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|
    [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\ ].*)?""",
    re.VERBOSE,
)
"""Texts that would be read as something else if they stood without quotes."""


def encoded(obj: JsonObject, form: Form) -> bytes:
    """The bytes of an object in that form."""
    if form.media == PROTOBUF:
        from tonnage.decide.kubernetes.api.encoding.protobuf_writer import encode_envelope

        return encode_envelope(obj)
    if form.media == JSON:
        return indented(obj) if form.pretty else go_json(obj) + b"\n"
    return _yaml(obj)


def indented(obj: JsonObject) -> bytes:
    """JSON for people."""
    return escaped(json.dumps(obj, indent=2, ensure_ascii=False).encode())


def _yaml(obj: JsonObject) -> bytes:
    import yaml

    written: str = yaml.dump(obj, Dumper=_dumper(), default_flow_style=False, allow_unicode=True)
    return written.encode()


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts and maps as Go's package does."""

        def ignore_aliases(self, data: object) -> bool:
            """No value is written by reference."""
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = '"' if not value or _NO_TEXT.fullmatch(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    def pairs(dumper: yaml.SafeDumper, value: JsonObject) -> yaml.MappingNode:
        ordered = [(key, value[key]) for key in sorted(value, key=cmp_to_key(_order))]
        return dumper.represent_mapping("tag:yaml.org,2002:map", ordered)

    Dumper.add_representer(str, text)
    Dumper.add_multi_representer(dict, pairs)
    return Dumper


def _order(first: str, other: str) -> int:
    """How keys are ordered: letters last, numbers by their value.

    >>> _order("a10", "a9"), _order("a_", "aB")
    (1, -1)
    """
    same = len(list(takewhile(bool, map(str.__eq__, first, other))))
    if same == min(len(first), len(other)):
        return len(first) - len(other)
    left, right = first[same], other[same]
    if left.isalpha() or right.isalpha():
        if left.isalpha() and right.isalpha():
            return -1 if left < right else 1
        return -1 if right.isalpha() else 1
    numbers = [re.match(r"[0-9]*", text[same:]) for text in (first, other)]
    values = [int(digits[0] or 0) if digits else 0 for digits in numbers]
    if values[0] != values[1]:
        return values[0] - values[1]
    return -1 if left < right else 1
