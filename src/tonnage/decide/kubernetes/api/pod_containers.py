"""All containers of a pod, with their places."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings


def every_container(spec: JsonObject, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Init containers, containers and ephemeral containers, in this order.

    >>> list(every_container({"containers": [{"name": "a"}]}, "spec"))
    [({'name': 'a'}, 'spec.containers[0]')]
    """
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(mappings(spec, key)):
            yield container, f"{path}.{key}[{index}]"
