"""Where a volume's data lies, beside the sources of vendors: on a node, on a server, behind a CSI driver.

Source: pkg/apis/core/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, invalid, required, too_long, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.file_paths import no_backsteps
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text

_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_LONGEST_DRIVER: Final = 63


def host_path(source: JsonObject, path: str) -> FieldErrors:
    """A directory of a node."""
    if not text(source, "path"):
        yield required(f"{path}.path")
        return
    yield from no_backsteps(text(source, "path"), f"{path}.path")
    if (kind := text(source, "type")) not in _HOST_PATH_TYPES:
        yield unsupported(f"{path}.type", kind, _HOST_PATH_TYPES)


def local_path(source: JsonObject, path: str) -> FieldErrors:
    """A disk of a node."""
    if not (shown := text(source, "path")):
        yield required(f"{path}.path")
    else:
        yield from no_backsteps(shown, f"{path}.path")


def network_path(source: JsonObject, path: str) -> FieldErrors:
    """A directory of an NFS server."""
    for key in ("server", "path"):
        if not text(source, key):
            yield required(f"{path}.{key}")
    if not (shown := text(source, "path")).startswith("/"):
        yield invalid(f"{path}.path", shown, "must be an absolute path")


def plugged_in(source: JsonObject, path: str) -> FieldErrors:
    """A volume of a CSI driver."""
    yield from driver_name(text(source, "driver"), f"{path}.driver")
    if not text(source, "volumeHandle"):
        yield required(f"{path}.volumeHandle")
    for key in _SECRETS:
        if not isinstance(source.get(key), dict):
            continue
        for part, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
            value, where = text(source, key, part), f"{path}.{key}.{part}"
            if not value:
                yield required(where)
            else:
                yield from complaints(where, value, rule(value))


def driver_name(name: str, path: str) -> FieldErrors:
    """The name of a CSI driver, in letters of any size."""
    if not name:
        yield required(path)
        return
    if len(name.encode()) > _LONGEST_DRIVER:
        yield too_long(path, _LONGEST_DRIVER)
    yield from complaints(path, name, names.dns_subdomain(name.lower()))
