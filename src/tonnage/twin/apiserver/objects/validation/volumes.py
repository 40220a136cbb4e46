"""Volumes of a pod: one source each, with the rules of the sources that the labs and charts use.

Sources of storage vendors are checked for being the only one, not for their own fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.quantity import parse_quantity
from tonnage.twin.apiserver.access import mapping, mappings, number, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.containers import descending_path
from tonnage.twin.apiserver.objects.validation.environment import field_reference
from tonnage.twin.apiserver.objects.validation.fields import Found
from tonnage.twin.apiserver.objects.validation.metadata import template_metadata
from tonnage.twin.apiserver.objects.validation.volume_claims import claim_spec
from tonnage.twin.apiserver.objects.validation.volume_sources import driver_name, host_path, network_path

_MODE_WORDS: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_PROJECTED: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_SHORTEST_TOKEN_S: Final = 600
_DOWNWARD: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def volumes(found: list[JsonObject], path: str) -> Found:
    """All volumes; a name may stand once."""
    seen: set[str] = set()
    for index, volume in enumerate(found):
        where, name = f"{path}[{index}]", text(volume, "name")
        yield from _source(volume, where)
        if not name:
            yield required(f"{where}.name")
        else:
            yield from complaints(f"{where}.name", name, names.dns_label(name))
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)


def good_volumes(found: list[JsonObject], path: str) -> frozenset[str]:
    """Names of the volumes that containers can mount: those with nothing wrong."""
    good: set[str] = set()
    for index, volume in enumerate(found):
        where, name = f"{path}[{index}]", text(volume, "name")
        if name and name not in good and not names.dns_label(name) and not list(_source(volume, where)):
            good.add(name)
    return frozenset(good)


def _source(volume: JsonObject, path: str) -> Found:
    # The server looks for an emptyDir first, then in the order of the fields.
    given = [key for key, value in volume.items() if key != "name" and value is not None]
    given.sort(key=lambda key: key != "emptyDir")
    if not given:
        yield required(path, "must specify a volume type")
    for key in given[1:]:
        yield forbidden(f"{path}.{key}", "may not specify more than 1 volume type")
    if given:
        rule = _RULES.get(given[0])
        yield from () if rule is None else rule(mapping(volume, given[0]), f"{path}.{given[0]}")


def _empty(source: JsonObject, path: str) -> Found:
    if parse_quantity(text(source, "sizeLimit") or "0") < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _claimed(source: JsonObject, path: str) -> Found:
    if not text(source, "claimName"):
        yield required(f"{path}.claimName")


def _plugged_in(source: JsonObject, path: str) -> Found:
    """A volume that a CSI driver makes for one pod."""
    yield from driver_name(text(source, "driver"), f"{path}.driver")
    if isinstance(source.get("nodePublishSecretRef"), dict):
        if name := text(source, "nodePublishSecretRef", "name"):
            yield from complaints(f"{path}.name", name, names.dns_subdomain(name))
        else:
            yield required(f"{path}.nodePublishSecretRef.name")


def _ephemeral(source: JsonObject, path: str) -> Found:
    """A volume whose claim is made for the pod and goes with it."""
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if not isinstance(template, dict):
        yield required(where)
        return
    yield from template_metadata(mapping(template, "metadata"), f"{where}.metadata")
    yield from claim_spec(mapping(template, "spec"), f"{where}.spec")


def _image(source: JsonObject, path: str) -> Found:
    """The files of an image."""
    policy = text(source, "pullPolicy")
    if not policy:
        yield required(f"{path}.pullPolicy")
    elif policy not in _PULL_POLICIES:
        yield unsupported(f"{path}.pullPolicy", policy, _PULL_POLICIES)


def _projected(volume: JsonObject, path: str) -> Found:
    """Sources of one volume; no two files lie in one place."""
    yield from _mode(volume.get("defaultMode"), f"{path}.defaultMode")
    seen: set[str] = set()
    for index, source in enumerate(mappings(volume, "sources")):
        given = [key for key in _PROJECTED if source.get(key) is not None]
        for key in given:
            part, where = mapping(source, key), f"{path}.sources[{index}].{key}"
            if key in ("secret", "configMap"):
                yield from _keyed(part, where, name_key="name")
            elif key == "downwardAPI":
                yield from _downward(part, where)
            elif key == "serviceAccountToken":
                yield from _token(part, path, where)
            for item in mappings(part, "items"):
                target = text(item, "path")
                if target and target in seen:
                    shown = target if key == "downwardAPI" else text(part, "name")
                    yield invalid(path, shown, "conflicting duplicate paths")
                seen.add(target)
        if len(given) > 1:
            words = "may not specify more than 1 volume type per source"
            yield forbidden(f"{path}.sources[{index}]", words)


def _token(source: JsonObject, path: str, where: str) -> Found:
    """A service account's token; the server names the volume where its path is wrong."""
    seconds = number(source, "expirationSeconds")
    if seconds < _SHORTEST_TOKEN_S:
        yield invalid(
            f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        words = "may not specify a duration larger than 2^32 seconds"
        yield invalid(f"{where}.expirationSeconds", seconds, words)
    if not text(source, "path"):
        yield required(f"{path}.path")
    else:
        yield from _file_path(text(source, "path"), f"{path}.path")


def _keyed(source: JsonObject, path: str, *, name_key: str) -> Found:
    """A ConfigMap or Secret, and the files that its keys become."""
    if not text(source, name_key):
        yield required(f"{path}.{name_key}")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(mappings(source, "items")):
        where = f"{path}.items[{index}]"
        for key in ("key", "path"):
            if not text(item, key):
                yield required(f"{where}.{key}")
        yield from _file_path(text(item, "path"), f"{where}.path")
        yield from _mode(item.get("mode"), f"{where}.mode")


def _file_path(target: str, path: str) -> Found:
    yield from descending_path(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


def _downward(source: JsonObject, path: str) -> Found:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    where = path  # The server names the volume, not the item.
    for item in mappings(source, "items"):
        if not text(item, "path"):
            yield required(f"{where}.path")
        yield from _file_path(text(item, "path"), f"{where}.path")
        if item.get("fieldRef") is not None:
            yield from field_reference(mapping(item, "fieldRef"), f"{where}.fieldRef", _DOWNWARD)
        yield from _mode(item.get("mode"), f"{where}.mode")


def _mode(value: JsonValue, path: str) -> Found:
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield invalid(path, value, _MODE_WORDS)


_RULES: Final[dict[str, Callable[[JsonObject, str], Found]]] = {
    "configMap": partial(_keyed, name_key="name"),
    "csi": _plugged_in,
    "downwardAPI": _downward,
    "emptyDir": _empty,
    "ephemeral": _ephemeral,
    "hostPath": host_path,
    "image": _image,
    "nfs": network_path,
    "persistentVolumeClaim": _claimed,
    "projected": _projected,
    "secret": partial(_keyed, name_key="secretName"),
}
