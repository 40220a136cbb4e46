"""Requests about access (`tests/data/access-requests.yaml`) to any API server; answers made comparable."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from support import first_hour

DATA: Final = Path(__file__).parents[1] / "data"
REQUESTS: Final = DATA / "access-requests.yaml"
ANSWERS: Final = DATA / "access-1.35.8-answers.json.gz"
AUDIT: Final = DATA / "access-1.35.8-audit.json.gz"
KUBECTL: Final = DATA / "kubectl-access.yaml"
KUBECTL_ANSWERS: Final = DATA / "kubectl-access-1.35.8-answers.json.gz"
KUBECTLS: Final = ("1.35", "1.37")
Send = Callable[[str, str, list[tuple[str, str]], bytes], Awaitable[tuple[int, bytes]]]
"""Method, path, headers and body to status and body."""

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_TOKEN: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
_ITS_OWN: Final = ("auditID", "requestReceivedTimestamp", "stageTimestamp", "sourceIPs", "userAgent")
_DROPPED: Final = ("managedFields", "resourceVersion")


@dataclass(frozen=True)
class Scene:
    """Requests in their order."""

    name: str
    requests: tuple[dict[str, Any], ...]


def scenes() -> Iterator[Scene]:
    """All scenes, in their order: later ones stand on what earlier ones made."""
    for row in yaml.load(REQUESTS.read_text(), yaml.CSafeLoader):
        yield Scene(row["scene"], tuple(row["requests"]))


def recorded() -> dict[str, list[list[Any]]]:
    """The genuine answers: [request, status, body] by scene."""
    found: dict[str, list[list[Any]]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    return found


def kubectl_scene() -> first_hour.Scene:
    """kubectl's commands about access."""
    row = yaml.load(KUBECTL.read_text(), yaml.CSafeLoader)
    return first_hour.Scene("access", tuple(row["commands"].splitlines()), files=row["files"])


def kubectl_answers(minor: str) -> list[list[Any]]:
    """The genuine answers to that kubectl: [command, exit status, stdout, stderr]."""
    found: dict[str, list[list[Any]]] = json.loads(gzip.decompress(KUBECTL_ANSWERS.read_bytes()))
    return found[minor]


def title(request: dict[str, Any]) -> str:
    """A request in words."""
    who = "nobody" if "nobody" in request else request.get("as", request.get("token", "admin"))
    return f"{who}: {request['do']} {json.dumps(request.get('body', ''))}"


class Asker:
    """Sends the requests of scenes one by one and keeps what they want kept."""

    def __init__(self, send: Send, admin: str) -> None:
        self._send = send
        self._admin = admin
        self._kept: dict[str, str] = {}

    async def ask(self, request: dict[str, Any]) -> tuple[int, Any]:
        """Status and comparable body."""
        method, _, path = request["do"].partition(" ")
        headers = [*request.get("headers", {}).items()]
        if "nobody" not in request:
            headers.append(("authorization", f"Bearer {self._filled(request.get('token', self._admin))}"))
        headers += [("Impersonate-User", request["as"])] if "as" in request else []
        headers += [("Impersonate-Uid", request["uid"])] if "uid" in request else []
        headers += [("Impersonate-Group", group) for group in request.get("groups", ())]
        for key, values in request.get("extra", {}).items():
            headers += [(f"Impersonate-Extra-{key}", value) for value in values]
        body = b""
        if "body" in request:
            body = self._filled(json.dumps(request["body"])).encode()
            patch = "application/merge-patch+json"
            headers.append(("content-type", patch if method == "PATCH" else "application/json"))
        status, raw = await self._send(method, path, headers, body)
        self._keep(request.get("keep", {}), raw)
        return status, comparable(raw)

    def _filled(self, text: str) -> str:
        for name, value in self._kept.items():
            text = re.sub(rf"\${name}\b", value, text)
        return text

    def _keep(self, wanted: dict[str, str], raw: bytes) -> None:
        for name, path in wanted.items():
            value = json.loads(raw)
            for key in path.split("."):
                value = value[key]
            self._kept[name] = value


def comparable(raw: bytes) -> Any:
    """A body without what differs from run to run: times, uids, tokens, versions, meaningless orders."""
    text = _TOKEN.sub("TOKEN", _UID.sub("UID", _TIME.sub("TIME", raw.decode())))
    try:
        return _plain(json.loads(text))
    except json.JSONDecodeError:
        return text


def comparable_event(event: dict[str, Any]) -> dict[str, Any]:
    """An audit event without what is the client's own or another plugin's."""
    kept = {key: value for key, value in event.items() if key not in _ITS_OWN}
    notes = kept.get("annotations", {})
    kept["annotations"] = {key: value for key, value in notes.items() if not key.startswith("pod-security")}
    return kept


def audited() -> list[dict[str, Any]]:
    """The genuine audit events of all scenes, in their order."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(AUDIT.read_bytes()))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(one) for key, one in value.items() if key not in _DROPPED}
    for item in plain.get("items") or () if str(plain.get("kind")).endswith("List") else ():
        for key in ("kind", "apiVersion"):  # the twin says them of each item too
            item.pop(key, None)
    for key in ("resourceRules", "nonResourceRules"):
        if plain.get(key):
            plain[key] = sorted(plain[key], key=json.dumps)
    return plain
