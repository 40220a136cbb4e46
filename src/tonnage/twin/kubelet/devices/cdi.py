"""CDI names to what they stand for, out of the node's spec files.

Source: Container Device Interface specification 1.0 (file format, `vendor/class=name`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tonnage.decide.node.cdi.folders import conflicting
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.cdi.shape import normal_spec
from tonnage.documents.yaml.reader import parse_yaml
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonValue, parsed_json

Spec = dict[str, Any]
_FILES: Final = 256
_FILE_BYTES: Final = 8 << 20
ANNOTATION_PREFIX: Final = "cdi.k8s.io/"


@dataclass(frozen=True, slots=True)
class CdiEdits:
    """Device nodes, variables and mounts (host paths by paths in the container) that CDI devices bring;
    `missing` are names that nothing defines.
    """

    device_nodes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)


def resolve_cdi(folders: Iterable[Path], names: Iterable[str]) -> CdiEdits:
    """What the named devices bring. Later folders win, and a device that two specs of one folder have is
    nobody's; a spec that breaks the rules is left out, as containerd does.

    A kind without any spec file is left alone: the pretended toolkit knows GPUs by their names.
    """
    requested = tuple(names)
    if not requested:
        return CdiEdits()
    specs = [(path, rank, spec) for rank, folder in enumerate(folders) for path, spec in _specs(folder)]
    kinds = {str(spec.get("kind")) for _, _, spec in specs}
    devices, clashing = _devices(specs)
    nodes: list[str] = []
    env: dict[str, str] = {}
    missing: list[str] = []
    mounts: dict[str, str] = {}
    for name in requested:
        if name not in devices or name in clashing:
            missing += [name] if name.partition("=")[0] in kinds else []
            continue
        for part in devices[name]:
            edits = part.get("containerEdits") or {}
            nodes += [str(node.get("path", "")) for node in _list(edits, "deviceNodes")]
            env |= dict(
                str(variable).split("=", 1) for variable in edits.get("env") or () if "=" in str(variable)
            )
            mounts |= {str(m["containerPath"]): str(m["hostPath"]) for m in _list(edits, "mounts")}
    return CdiEdits(tuple(dict.fromkeys(nodes)), env, tuple(missing), mounts)


def _devices(
    specs: Iterable[tuple[str, int, Spec]],
) -> tuple[Mapping[str, tuple[Spec, Spec]], frozenset[str]]:
    """(by qualified name the spec and its device, names that two valid specs of one folder have)."""
    valid = [(path, rank, normal_spec(spec)) for path, rank, spec in specs if not spec_problems(spec)]
    devices: dict[str, tuple[Spec, Spec]] = {
        f"{spec['kind']}={device['name']}": (spec, device)
        for _, _, spec in valid
        for device in _list(spec, "devices")
    }
    return devices, conflicting(valid)


def _list(owner: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = owner.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _specs(folder: Path) -> list[tuple[str, Spec]]:
    """(path, content) of readable spec files by name."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".yaml"})
    except OSError:
        return []
    specs = []
    for file in files[:_FILES]:
        try:
            with file.open("rb") as stream:
                text = stream.read(_FILE_BYTES)
            spec = parsed_json(text) if file.suffix == ".json" else _yaml(text, str(file))
        except (OSError, ValueError, ConfigError):
            continue
        if isinstance(spec, dict):
            specs.append((str(file), spec))
    return specs


def _yaml(text: bytes, source: str) -> JsonValue:
    """Raises ConfigError, UnicodeError."""
    return parse_yaml(text.decode(), source=source).value
