"""The objects of documents, Lists opened, and the pods that they make, found by their shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue

_DEEPEST_LIST: Final = 4
_CONTAINERS: Final = ("containers", "initContainers")
_NO_PODS: Final = (
    "CustomResourceDefinition",
    "LimitRange",
    "ConfigMap",
    "MutatingAdmissionPolicy",
)
"""Kinds in which `containers` or `template` is not a pod's."""


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object at its place, or a document without a kind."""

    sheet: Sheet
    document: int
    path: Path
    value: JsonObject
    namespace: str

    @property
    def kind(self) -> str:
        """Empty for what is no Kubernetes object."""
        kind = self.value.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def api_version(self) -> str:
        """As it is written."""
        version = self.value.get("apiVersion")
        return version if isinstance(version, str) else ""

    @property
    def group(self) -> str:
        """`apps` of `apps/v1`, empty for the core's."""
        return self.api_version.rpartition("/")[0]

    @property
    def name(self) -> str:
        """`metadata.name`, or what it is generated from."""
        metadata = mapping(self.value.get("metadata"))
        name = metadata.get("name") or metadata.get("generateName")
        return name if isinstance(name, str) else ""

    @property
    def subject(self) -> str:
        """What a person calls it."""
        if not self.kind:
            return ""
        namespace = mapping(self.value.get("metadata")).get("namespace")
        return f"{self.kind} {namespace}/{self.name}" if namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class PodSite:
    """A pod's spec in an object. `metadata` is the pod's own; `path` that of the spec in the document."""

    manifest: ManifestObject
    path: Path
    spec: JsonObject
    metadata: JsonObject

    def containers(self) -> Iterator[tuple[Path, JsonObject]]:
        """Each container with its path, init containers last."""
        for section in _CONTAINERS:
            for index, container in enumerate(sequence(self.spec.get(section))):
                if isinstance(container, dict):
                    yield (*self.path, section, index), container


def mapping(value: JsonValue) -> JsonObject:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: JsonValue) -> list[JsonValue]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def is_variable(value: JsonValue) -> bool:
    """Whether somebody has yet to fill it in: `${NAME}` of envsubst and its like."""
    return isinstance(value, str) and "${" in value


def mappings(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    """The mappings of a list, each with its index."""
    for index, element in enumerate(sequence(value)):
        if isinstance(element, dict):
            yield index, element


_RESOURCES: Final = "resources"
"""How what asks for devices is called, or begins: a TrainJob has `resourcesPerNode`."""


def resources_of(manifest: ManifestObject) -> Iterator[tuple[Path, JsonObject]]:
    """What an object asks for outside of any pod's spec: each `resources` with devices, and its path."""
    pods = {site.path for site in pods_of(manifest)}
    yield from _resources(manifest.path, manifest.value, pods)


def _resources(path: Path, value: JsonValue, pods: set[Path]) -> Iterator[tuple[Path, JsonObject]]:
    if path in pods:
        return
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from _resources((*path, index), child, pods)
    elif isinstance(value, dict):
        for key, child in value.items():
            amounts = [mapping(mapping(child).get(section)) for section in ("limits", "requests")]
            asks = key.startswith(_RESOURCES) and any("/" in name for names in amounts for name in names)
            if asks:
                yield (*path, key), mapping(child)
            elif key != "status":
                yield from _resources((*path, key), child, pods)


def at_path(value: JsonValue, path: Path) -> JsonValue:
    """The part at a path, None where there is none.

    >>> at_path({"a": [1, 2]}, ("a", 1)), at_path({"a": []}, ("a", 0))
    (2, None)
    """
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def items_of(sheet: Sheet, namespace: str) -> Iterator[ManifestObject]:
    """Every object of a readable sheet. `namespace` is that of objects which do not say."""
    for number, document in enumerate(sheet.documents):
        yield from _opened(sheet, number, (), document.value, namespace, 0)


def wordless_documents(sheet: Sheet) -> Iterator[tuple[int, Path, JsonValue]]:
    """(document, path, value) of each document, or element of a List, that is no mapping, and not empty."""
    for number, document in enumerate(sheet.documents):
        yield from _wordless(number, (), document.value, 0)


def _wordless(number: int, path: Path, value: JsonValue, depth: int) -> Iterator[tuple[int, Path, JsonValue]]:
    if not isinstance(value, dict):
        if value is not None:
            yield number, path, value
        return
    if _is_list(value) and depth < _DEEPEST_LIST:
        for index, element in enumerate(sequence(value["items"])):
            yield from _wordless(number, (*path, "items", index), element, depth + 1)


def _is_list(value: JsonObject) -> bool:
    return str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list)


def _opened(
    sheet: Sheet, number: int, path: Path, value: JsonValue, namespace: str, depth: int
) -> Iterator[ManifestObject]:
    if not isinstance(value, dict):
        return
    if _is_list(value) and depth < _DEEPEST_LIST:
        for index, element in enumerate(sequence(value["items"])):
            yield from _opened(sheet, number, (*path, "items", index), element, namespace, depth + 1)
        return
    own = mapping(value.get("metadata")).get("namespace")
    yield ManifestObject(sheet, number, path, value, own if isinstance(own, str) and own else namespace)


def pods_of(manifest: ManifestObject) -> Iterator[PodSite]:
    """The pods that an object makes: itself, or whatever in it has the shape of a pod template.

    So a CronJob's, a RayCluster's and those of kinds that nobody has heard of are found alike. A kind may
    have the fields of a pod's spec among its own.
    """
    if not manifest.kind or manifest.kind in _NO_PODS:
        return
    if manifest.kind == "Pod" and manifest.api_version == "v1":
        yield PodSite(
            manifest,
            (*manifest.path, "spec"),
            mapping(manifest.value.get("spec")),
            mapping(manifest.value.get("metadata")),
        )
        return
    yield from _templates(manifest, manifest.path, manifest.value)


def _templates(manifest: ManifestObject, path: Path, value: JsonValue) -> Iterator[PodSite]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key in ("status", "metadata"):
                continue
            if isinstance(child, dict) and _is_pod_spec(child):
                own = mapping(value.get("metadata")) if key == "spec" and path != manifest.path else {}
                yield PodSite(manifest, (*path, key), child, own)
            else:
                yield from _templates(manifest, (*path, key), child)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _templates(manifest, (*path, index), child)


def _is_pod_spec(spec: JsonObject) -> bool:
    containers = spec.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(
            isinstance(container, dict)
            and ("name" in container or "image" in container or "resources" in container)
            for container in containers
        )
    )
