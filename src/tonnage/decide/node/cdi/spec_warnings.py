"""What runtimes take in a CDI spec, and a person should look at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from tonnage.decide.node.cdi.rules import VERSIONS, minimum_version
from tonnage.decide.node.cdi.shape import normal_spec
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue

_MOST: Final = 1000
_REFUSE_FROM: Final = {"podman 4.3.1": "0.6.0", "containerd 1.7.24": "1.0.0"}
"""The first version of specs that a runtime refuses, as tried with Debian's packages of them."""
_PATHS: Final = {
    "deviceNodes": ("path", "hostPath"),
    "mounts": ("hostPath", "containerPath"),
    "hooks": ("path",),
}


def spec_remarks(document: JsonValue) -> tuple[Problem, ...]:
    """A version that is not needed, and paths that lead elsewhere than they look; `where` is a field's path.

    >>> edits = {"mounts": [{"hostPath": "/opt/../etc", "containerPath": "/x"}]}
    >>> [str(remark) for remark in spec_remarks({"containerEdits": edits})]  # doctest: +ELLIPSIS
    ['containerEdits.mounts[0].hostPath: odd path "/opt/../etc"...']
    """
    if not isinstance(document, dict):
        return ()
    owners = [("", document)]
    owners += [(f"devices[{place}].", device) for place, device in _objects(document.get("devices"))]
    paths = (remark for before, owner in owners for remark in _of(owner, before))
    return tuple(islice(chain(_newer(document), paths), _MOST))


def _newer(document: JsonObject) -> Iterator[Problem]:
    """A version beyond what is needed, which keeps a spec from runtimes that could take it."""
    normal = normal_spec(document)
    version, needed = str(normal.get("cdiVersion") or ""), minimum_version(normal)
    if version not in VERSIONS:
        return
    place = VERSIONS.index(version)
    refusing = [
        runtime
        for runtime, first in _REFUSE_FROM.items()
        if VERSIONS.index(needed) < VERSIONS.index(first) <= place
    ]
    if refusing:
        why = f"{' and '.join(refusing)} {'refuse' if len(refusing) > 1 else 'refuses'} {version}"
        yield Problem(
            f'version "{version}" is newer than it needs',
            "cdiVersion",
            f"{why}; {needed} suffices",
            f"write {needed}",
        )


def _of(owner: JsonObject, before: str) -> Iterator[Problem]:
    edits = owner.get("containerEdits")
    for kind, fields in _PATHS.items():
        for place, entry in _objects(edits.get(kind) if isinstance(edits, dict) else None):
            for field in fields:
                path = entry.get(field)
                if isinstance(path, str) and (why := _oddity(path)):
                    where = f"{before}containerEdits.{kind}[{place}].{field}"
                    yield Problem(f'odd path "{path[:100]}"', where, why, "write the path that it leads to")


def _oddity(path: str) -> str:
    if path and not path.startswith("/"):
        return "it does not begin with /"
    return "it does not lead where it seems to" if ".." in path.split("/") else ""


def _objects(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    items = value if isinstance(value, list) else ()
    yield from ((place, element) for place, element in enumerate(items) if isinstance(element, dict))
