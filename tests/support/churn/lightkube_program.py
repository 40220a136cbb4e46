"""`python -m support.churn.lightkube_program KUBECONFIG`: lightkube lists and watches, and says what it sees.

Each line of its input asks what it believes; it ends with its input.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Final

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.resources.core_v1 import ConfigMap

from support.churn.account import Line
from support.churn.client_lines import answering, say

_LONGEST_S: Final = 5


def _follow(client: Client, believed: dict[str, str]) -> None:
    while True:
        try:
            listed = client.list(ConfigMap, namespace="default")
            objects = dict(map(_named, listed))
            version = listed.resourceVersion
            believed.clear()
            believed.update(objects)
            say(Line("LIST", version=version, objects=objects))
            _watch(client, believed, version)
        except ApiError as error:
            say(Line("ERROR", detail=f"{error.status.code} {error.status.message}"))
        except httpx2.HTTPError as error:
            say(Line("ERROR", detail=type(error).__name__))
            time.sleep(0.1)


def _watch(client: Client, believed: dict[str, str], version: str) -> None:
    """Watch after watch, each from where the last one ended; until one is refused."""
    while True:
        say(Line("WATCH", version=version))
        seconds = random.randint(1, _LONGEST_S)
        started = time.monotonic()
        watching = client.watch(
            ConfigMap, namespace="default", resource_version=version, server_timeout=seconds
        )
        try:
            # lightkube itself asks again when a watch ends, from the last version that it has seen.
            for what, one in watching:
                name, version = _named(one)
                say(Line(what, name=name, version=version))
                if what == "DELETED":
                    believed.pop(name, None)
                else:
                    believed[name] = version
                if time.monotonic() > started + 2 * _LONGEST_S:
                    break
        except httpx2.HTTPError as error:
            if isinstance(error, ApiError):
                raise
            say(Line("ERROR", detail=type(error).__name__))
            time.sleep(random.random())


def _named(one: ConfigMap) -> tuple[str, str]:
    """Name and version."""
    assert one.metadata is not None
    return str(one.metadata.name), str(one.metadata.resourceVersion)


def main() -> None:
    client = Client(config=KubeConfig.from_file(sys.argv[1]))
    believed: dict[str, str] = {}
    threading.Thread(target=_follow, args=(client, believed), daemon=True).start()
    answering(believed)


if __name__ == "__main__":
    main()
