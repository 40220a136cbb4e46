"""DRV-4: components of another minor version than the GPU operator's release has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.node.runtime.versions import version_of
from tonnage.diagnose.doctor.finding import NodeFinding, finding
from tonnage.model.catalog.gpu_operator import operator_releases
from tonnage.model.node.facts import NodeFacts
from tonnage.model.reasons.node.runtime import OperatorVersionsMixed

_OPERATOR: Final = ("gpu-operator-validator", "gpu-operator")
_TOOLKIT: Final = "container-toolkit"
_PLUGIN: Final = "k8s-device-plugin"
_PACKAGE: Final = "nvidia-container-toolkit"


def operator_findings(facts: NodeFacts) -> Iterator[NodeFinding]:
    """By the images of the node's pods, and the toolkit's package where no pod brings it."""
    images = dict(_images(facts))
    operator = next((images[name] for name in _OPERATOR if name in images), None)
    release = operator_releases().get(operator[0]) if operator is not None else None
    if operator is None or release is None:
        return
    packages: Mapping[str, str] = facts.runtime.packages if facts.runtime is not None else {}
    package = (packages[_PACKAGE], f"package {_PACKAGE}") if _PACKAGE in packages else None
    for word, actual, expected in (
        ("container toolkit", images.get(_TOOLKIT) or package, release.toolkit),
        ("device plugin", images.get(_PLUGIN), release.device_plugin),
    ):
        has, needs = version_of(actual[0]) if actual else None, version_of(expected)
        if actual is None or has is None or needs is None or has[:2] == needs[:2]:
            continue
        yield finding(
            OperatorVersionsMixed(
                message=f"{word} {'.'.join(map(str, has))} with GPU operator {release.version}, released"
                f" with {expected}",
                remedy=f"remove the version from the chart's values, or write {expected} there",
                component=word,
                version=".".join(map(str, has)),
                operator=release.version,
                expected=expected,
            ),
            where=actual[1],
            why="NVIDIA tests and supports the versions of one release together",
        )


def _images(facts: NodeFacts) -> Iterator[tuple[str, tuple[str, str]]]:
    """(version, whose) by the last part of an image's name."""
    for pod in facts.cluster.pods if facts.cluster is not None else ():
        for image in pod.images:
            name, _, tag = image.partition("@")[0].rpartition(":")
            version = version_of(tag)
            if version is not None:
                where = f"pod {pod.namespace}/{pod.name}: {image[:200]}"
                yield name.rpartition("/")[2], (".".join(map(str, version)), where)
