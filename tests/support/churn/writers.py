"""Clients that write ConfigMaps without pause, and know the version of every write that was taken."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any, Final

from tonnage.twin.apiserver.server import Endpoint

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_NAMES: Final = 4
_PAUSE_S: Final = 0.03
_RETRY_S: Final = 0.1
_PATIENCE_S: Final = 60.0
_LATER: Final = (429, 503)
_NOT_YET: Final = "not yet ready to handle request"
"""What a server says whose admission does not know all objects yet."""


def connection(endpoint: Endpoint, timeout_s: float = 30) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cadata=endpoint.ca_pem.decode())
    port = int(endpoint.url.rpartition(":")[2])
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=timeout_s)


def asked(
    on: http.client.HTTPSConnection, token: str, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    """Status code and answer."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    head = {"authorization": f"Bearer {token}", "content-type": kind}
    on.request(method, path, json.dumps(body) if body is not None else None, head)
    with on.getresponse() as response:
        return response.status, json.loads(response.read())


def changed(on: http.client.HTTPSConnection, token: str, path: str, version: str) -> Iterator[Any]:
    """The events of a watch, until it ends; one of type ERROR where the server does not grant it."""
    head = {"authorization": f"Bearer {token}"}
    on.request("GET", f"{path}?watch=true&resourceVersion={version}", headers=head)
    with on.getresponse() as response:
        if response.status == HTTPStatus.OK:
            yield from map(json.loads, response)
        else:
            yield {"type": "ERROR"}


@dataclass
class Writer:
    """One of them, alone with its objects, so that it knows what each is."""

    number: int
    endpoint: Endpoint
    random: Random
    over: threading.Event
    versions: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    written: int = 0
    unsure: int = 0
    _known: dict[str, int | None] = field(default_factory=dict)

    def run(self) -> None:
        """Write until it is over, through every end of the server."""
        name = ""
        while not self.over.is_set():
            on = connection(self.endpoint)
            try:
                if name:
                    self._settle(on, name)
                while not self.over.is_set():
                    name = f"w{self.number}-{self.random.randrange(_NAMES)}"
                    self._write(on, name)
                    self.over.wait(self.random.random() * _PAUSE_S)
            except (OSError, http.client.HTTPException, ValueError):
                self.unsure += 1
                self.over.wait(_RETRY_S)
            finally:
                on.close()

    def settle(self) -> None:
        """Learn what became of the last write."""
        deadline = time.monotonic() + _PATIENCE_S
        for name in list(self._known):
            while True:
                on = connection(self.endpoint)
                try:
                    self._settle(on, name)
                    break
                except (OSError, http.client.HTTPException, ValueError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_RETRY_S)
                finally:
                    on.close()

    def _write(self, on: http.client.HTTPSConnection, name: str) -> None:
        body = {"metadata": {"name": name}, "data": {"at": str(time.monotonic_ns())}}
        method, path = "POST", MAPS
        if self._known.setdefault(name, None) is not None:
            method, path = self.random.choice(("PUT", "PATCH", "PUT", "PATCH", "DELETE")), f"{MAPS}/{name}"
        code, answer = asked(on, self.endpoint.token, method, path, body if method != "DELETE" else None)
        if code in _LATER or _NOT_YET in str(answer):
            raise ConnectionError(answer)
        if code not in (200, 201):
            self.refused.append(f"{method} {path}: {code} {answer.get('message')}")
            self._settle(on, name)
        elif method == "DELETE":
            self._known[name] = None
            self.written += 1
        else:
            self._note(name, int(answer["metadata"]["resourceVersion"]))

    def _settle(self, on: http.client.HTTPSConnection, name: str) -> None:
        code, answer = asked(on, self.endpoint.token, "GET", f"{MAPS}/{name}")
        if code in _LATER:
            raise ConnectionError(answer)
        if code == 404:
            self._known[name] = None
        elif code == 200:
            version = int(answer["metadata"]["resourceVersion"])
            if version != self._known[name]:
                self._note(name, version)

    def _note(self, name: str, version: int) -> None:
        self._known[name] = version
        self.versions.append(version)
        self.written += 1
