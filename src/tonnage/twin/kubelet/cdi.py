"""CDI names to what they stand for, out of the node's spec files.

Source: Container Device Interface specification 1.0 (file format, `vendor/class=name`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

_FILES: Final = 256
_FILE_BYTES: Final = 8 << 20
ANNOTATION_PREFIX: Final = "cdi.k8s.io/"


@dataclass(frozen=True, slots=True)
class CdiEdits:
    """Device nodes and variables that CDI devices bring; `missing` are names that nothing defines."""

    device_nodes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def resolve_cdi(folders: Iterable[Path], names: Iterable[str]) -> CdiEdits:
    """What the named devices bring. Later folders win, as in containerd.

    A kind without any spec file is left alone: the pretended toolkit knows GPUs by their names.
    """
    specs = [spec for folder in folders for spec in _specs(folder)]
    nodes: list[str] = []
    env: dict[str, str] = {}
    missing: list[str] = []
    for name in names:
        kind, _, device = name.partition("=")
        of_kind = [spec for spec in specs if spec.get("kind") == kind]
        found = [
            (spec, entry)
            for spec in of_kind
            for entry in _list(spec, "devices")
            if entry.get("name") == device
        ]
        if of_kind and not found:
            missing.append(name)
        for part in found[-1] if found else ():
            edits = part.get("containerEdits") or {}
            nodes += [str(node.get("path", "")) for node in _list(edits, "deviceNodes")]
            env |= dict(str(item).split("=", 1) for item in edits.get("env") or () if "=" in str(item))
    return CdiEdits(tuple(dict.fromkeys(nodes)), env, tuple(missing))


def _list(owner: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = owner.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _specs(folder: Path) -> list[dict[str, Any]]:
    """Readable spec files by name; a broken one is left out, as containerd does."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".yaml"})
    except OSError:
        return []
    specs = []
    for file in files[:_FILES]:
        try:
            with file.open("rb") as stream:
                text = stream.read(_FILE_BYTES)
            spec = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(spec, dict):
            specs.append(spec)
    return specs
