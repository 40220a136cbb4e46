"""CDI specs in the folders that container runtimes read, and whether what they name is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.adapters.node_facts.files import Content, NodeFiles
from tonnage.model.errors import ConfigError
from tonnage.model.json import DuplicateKeyError, JsonObject, JsonValue, parsed_json
from tonnage.model.node.facts import CdiFacts, SpecDocument

FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
_MOST_BYTES: Final = 4 << 20
_MOST_SPECS: Final = 500
_MOST_TOGETHER: Final = 32 << 20
"""Bytes of all specs: they are held at once."""
_MOST_PATHS: Final = 4096


def cdi_facts(files: NodeFiles) -> CdiFacts:
    """Every `.json` and `.yaml` of both folders, up to a number and a size; those of the second win."""
    specs: list[SpecDocument] = []
    crowded: dict[str, int] = {}
    for rank, folder in enumerate(FOLDERS):
        names = [name for name in files.names(folder) if name.endswith((".json", ".yaml"))]
        spare = _MOST_TOGETHER // len(FOLDERS)
        for number, name in enumerate(names):
            if number >= _MOST_SPECS or spare <= 0:
                crowded[folder] = len(names)
                break
            content = files.read(f"{folder}/{name}", _MOST_BYTES)
            spare -= len(content.content or b"")
            specs.append(_spec(content, f"{folder}/{name}", rank))
    named = {path for spec in specs if spec.document for path in _paths(spec.document)}
    checked = sorted(named)[:_MOST_PATHS]
    return CdiFacts(tuple(specs), frozenset(path for path in checked if not files.there(path)), crowded)


def _spec(content: Content, path: str, rank: int) -> SpecDocument:
    if content.content is None:
        return SpecDocument(path, rank, trouble=content.trouble or "it is gone")
    try:
        value = (
            parsed_json(content.content, unique=True) if path.endswith(".json") else _yaml(content.text, path)
        )
    except ConfigError as error:
        return SpecDocument(path, rank, trouble=f"failed to parse CDI Spec: {error.problems[0].what}")
    except DuplicateKeyError as error:
        detail = f'key "{error.key[:60]}" already set in map'  # as runtimes say it
        return SpecDocument(path, rank, trouble=f"failed to parse CDI Spec: {detail}")
    except ValueError as error:
        return SpecDocument(path, rank, trouble=f"failed to parse CDI Spec: {str(error)[:200]}")
    if not isinstance(value, dict):
        return SpecDocument(path, rank, trouble="failed to parse CDI Spec, no Spec data")
    return SpecDocument(path, rank, value)


def _yaml(text: str, path: str) -> JsonValue:
    from tonnage.documents.yaml.reader import parse_yaml_all  # takes a while, and specs mostly are JSON

    documents = parse_yaml_all(text, source=path)
    return documents[0].value if documents else None


def _paths(document: JsonObject) -> Iterator[str]:
    """Host paths of nodes, mounts and hooks."""
    devices = document.get("devices")
    owners = [document, *(devices if isinstance(devices, list) else [])]
    for owner in owners:
        edits = owner.get("containerEdits") if isinstance(owner, dict) else None
        for key, fields in (
            ("deviceNodes", ("hostPath", "path")),
            ("mounts", ("hostPath",)),
            ("hooks", ("path",)),
        ):
            entries = edits.get(key) if isinstance(edits, dict) else None
            for entry in entries if isinstance(entries, list) else ():
                path = (
                    next((entry[field] for field in fields if entry.get(field)), "")
                    if isinstance(entry, dict)
                    else ""
                )
                if isinstance(path, str) and path.startswith("/"):
                    yield path
