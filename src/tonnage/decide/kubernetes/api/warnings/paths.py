"""Warnings about volumes that put two files in one place.

Source: pkg/api/pod/warnings.go (warningsForOverlappingVirtualPaths), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text

Placed = tuple[str, str]
"""A path in a volume, and which of several sources puts it there."""


def overlapping_paths(volumes: list[JsonObject]) -> Iterator[str]:
    """What is wrong with the volumes of one pod."""
    for volume in volumes:
        name = text(volume, "name")
        for key, title, named in (
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ):
            source = mapping(volume, key)
            of = f'{title} "{text(source, named)}"' if named else title
            yield from _overlaps(name, of, [(text(file, "path"), "") for file in mappings(source, "items")])
        if isinstance(volume.get("projected"), dict):
            yield from _projected(name, mappings(volume, "projected", "sources"))


def _projected(name: str, sources: list[JsonObject]) -> Iterator[str]:
    placed: list[Placed] = []
    for source in sources:
        if not source:
            yield f'volume "{name}" (Projected) has no sources provided'
        placed += _placed(source)
    yield from _overlaps(name, "Projected", placed)


def _placed(source: JsonObject) -> Iterator[Placed]:
    for key, title in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        named = "" if key == "downwardAPI" else f' "{text(source, key, "name")}"'
        for file in mappings(source, key, "items"):
            yield text(file, "path"), title + named
    if isinstance(source.get("serviceAccountToken"), dict):
        yield text(source, "serviceAccountToken", "path"), "ServiceAccountToken"
    if bundle := mapping(source, "clusterTrustBundle"):
        signer = text(bundle, "name") or text(bundle, "signerName")
        yield text(bundle, "path"), f'ClusterTrustBundle "{signer}"'


def _overlaps(name: str, of: str, placed: list[Placed]) -> Iterator[str]:
    earlier: list[Placed] = []
    for path, source in placed:
        entry = (path.rstrip("/"), source)
        for other in earlier:
            if entry[0] and other[0] and _lies_in(entry[0], other[0]):
                yield f'volume "{name}" ({of}): overlapping paths: {_shown(entry)} with {_shown(other)}'
        earlier.append(entry)


def _lies_in(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


def _shown(placed: Placed) -> str:
    path, source = placed
    return f'"{path}" ({source})' if source else f'"{path}"'
