"""Fields of a pod's spec that the API server refuses, whoever asks: a manifest, a file, a dump.

Source: k8s.io/kubernetes pkg/apis/core/validation, 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.verdict import Code

FieldPath: TypeAlias = tuple[str | int, ...]
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


@dataclass(frozen=True, slots=True)
class PodFault:
    """One refused field, `path` below the spec.

    `text`: the server's words after the path, empty where they are not known. `mark`: the field that a
    person has to change, where that is another one.
    """

    code: Code
    path: FieldPath
    text: str
    told: str
    remedy: str
    mark: FieldPath = ()

    @property
    def place(self) -> FieldPath:
        """Where a person has to look."""
        return self.mark or self.path


def faults(spec: JsonObject) -> Iterator[PodFault]:
    """All of them, in the server's order."""
    yield from pod_level_faults(spec)


def pod_level_faults(spec: JsonObject) -> Iterator[PodFault]:
    """`spec.resources` is of what all containers share: a device belongs to a container."""
    for section in ("limits", "requests"):
        for name, amount in sorted(_mapping(_mapping(spec.get("resources")).get(section)).items()):
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
                continue
            told = f"{name[:100]} stands under the pod's {section}, where only cpu, memory and huge pages may"
            remedy = f"put {name[:100]}: {str(amount)[:60]} under the container's limits"
            yield PodFault(Code.POD_LEVEL, ("resources", section, name), "", told, remedy)


def written_path(path: FieldPath) -> str:
    """A path below the spec as the server writes it.

    >>> written_path(("resources", "limits", "nvidia.com/gpu")), written_path(("tolerations", 0, "value"))
    ('.resources.limits[nvidia.com/gpu]', '.tolerations[0].value')
    """
    amounts = path[:1] == ("resources",)
    return "".join(
        f"[{step}]" if isinstance(step, int) or (amounts and depth == 2) else f".{step}"
        for depth, step in enumerate(path)
    )


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
