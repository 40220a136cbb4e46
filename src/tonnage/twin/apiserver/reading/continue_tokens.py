"""Continue tokens: which moment a list shows, and where its next page begins.

Source: k8s.io/apiserver pkg/storage/continue.go (v1.35).
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import UNREAD, BodyError, parse_json
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonValue
from tonnage.twin.apiserver.object_store import Name
from tonnage.twin.apiserver.statuses import bad_request

LATEST: Final = -1
"""Stands for a moment where a list goes on at the present one."""
_VERSION: Final = "meta.k8s.io/v1"
_KINDS: Final = ((bool, "bool"), (int | float, "number"), (str, "string"), (list, "array"), (dict, "object"))


@dataclass(frozen=True, slots=True)
class ContinueToken:
    """The rest of a list as it was at `revision`, after what is called `after`."""

    revision: int
    after: Name

    def text(self, within: str) -> str:
        """The token as clients hand it back, whose list is of the namespace `within`, or of all."""
        namespace, name = self.after
        start = f"/{namespace}/{name}\0" if namespace and not within else f"/{name}\0"
        body = json.dumps({"v": _VERSION, "rv": self.revision, "start": start}, separators=(",", ":"))
        return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def read_token(value: str, *, namespaced: bool, namespace: str) -> ContinueToken:
    """What a token says; its names are within `namespace` if one is given. Raises ApiError 400."""
    body = _body(value)
    version, revision, start = (body.get(key) for key in ("v", "rv", "start"))
    if (version or "") != _VERSION:
        raise _invalid(f"server does not recognize this encoded version {version or ''}")
    if not revision:
        raise _invalid(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _invalid(f"encoded start key empty (version {_VERSION})")
    assert isinstance(revision, int)
    assert isinstance(start, str)
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key.rstrip("/"):
        raise _invalid(start)
    rest = start.removesuffix("\0").strip("/")
    owner, _, name = rest.partition("/") if namespaced and not namespace else (namespace, "", rest)
    return ContinueToken(revision, (owner, name))


def _body(value: str) -> dict[str, JsonValue]:
    if strange := re.search(r"[^A-Za-z0-9_-]", value):
        raise _invalid(f"illegal base64 data at input byte {strange.start()}")
    try:
        raw = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        raise _invalid(f"illegal base64 data at input byte {len(value) - len(value) % 4}") from None
    try:
        body = parse_json(raw)
    except BodyError as error:
        raise _invalid(error.detail.removeprefix(UNREAD)) from None
    if not isinstance(body, dict):
        raise _invalid(f"json: cannot unmarshal {_kind(body)} into Go value of type storage.continueToken")
    for key, field_type, called in (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string")):
        held = body.get(key)
        if held is not None and (not isinstance(held, field_type) or isinstance(held, bool)):
            field = f"Go struct field continueToken.{key} of type {called}"
            raise _invalid(f"json: cannot unmarshal {_kind(held)} into {field}")
    return body


def _kind(value: JsonValue) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def _invalid(why: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
