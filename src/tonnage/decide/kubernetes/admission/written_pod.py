"""A pod as it is written, for the checks of the Pod Security Standards, and the words that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tonnage.model.json import JsonObject, JsonValue

Finding = tuple[str, str] | None
"""What is forbidden, and the detail; None when nothing is."""


@dataclass(frozen=True, slots=True)
class WrittenPod:
    """A pod's annotations, its spec, and its containers, init containers first."""

    annotations: Mapping[str, JsonValue]
    spec: JsonObject
    containers: tuple[JsonObject, ...]

    @property
    def context(self) -> JsonObject:
        """The pod's security context."""
        return mapping(self.spec.get("securityContext"))

    @property
    def windows(self) -> bool:
        """A pod for Windows nodes."""
        return mapping(self.spec.get("os")).get("name") == "windows"

    @property
    def own_users(self) -> bool:
        """It has a user namespace of its own."""
        return self.spec.get("hostUsers") is False


def written_pod(template: JsonObject) -> WrittenPod:
    """A pod, or a pod template."""
    spec = mapping(template.get("spec"))
    parts = ("initContainers", "containers", "ephemeralContainers")
    containers = tuple(container for part in parts for container in mappings(spec.get(part)))
    return WrittenPod(mapping(mapping(template.get("metadata")).get("annotations")), spec, containers)


def mapping(value: JsonValue) -> JsonObject:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: JsonValue) -> list[JsonObject]:
    """The objects of a list."""
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def texts(value: JsonValue) -> list[str]:
    """The items of a list as text."""
    return [str(element) for element in value] if isinstance(value, list) else []


def context_of(container: JsonObject) -> JsonObject:
    """A container's security context."""
    return mapping(container.get("securityContext"))


def names_of(containers: Iterable[JsonObject]) -> list[str]:
    """Names of containers."""
    return [str(container.get("name", "")) for container in containers]


def quoted(items: Iterable[str]) -> str:
    """Items in quotation marks."""
    return ", ".join(f'"{text}"' for text in items)


def plural(word: str, count: int) -> str:
    """The word for one, or for several."""
    return word if count == 1 else f"{word}s"


def named_containers(names: list[str]) -> str:
    """Containers by name."""
    return f"{plural('container', len(names))} {quoted(names)}"


def setters_of(pod: WrittenPod, bad: Callable[[JsonObject], bool]) -> list[str]:
    """Who sets something that may not be set: the pod, and containers by name."""
    setters = ["pod"] if bad(pod.context) else []
    names = names_of(c for c in pod.containers if bad(context_of(c)))
    return [*setters, *([named_containers(names)] if names else [])]


def profile_of(context: JsonObject, field: str) -> str | None:
    """The type of a profile in a security context; None when it names none."""
    profile = context.get(field)
    return str(mapping(profile).get("type", "")) if profile is not None else None
