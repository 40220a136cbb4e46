"""What the cluster shows of nodes that change hands and of NVIDIA's operator, and the notes that are left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, parsed_json
from tonnage.model.json_access import flag, mapping, text, texts
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.model.names import is_namespace
from tonnage.model.operands import DEPLOY

NOTE: Final = "tonnage.dev/adoption"
"""Annotation of a Node: what was there before, as JSON. It is written and removed with what it notes."""
PAUSED: Final = "paused-for-tonnage"
"""Value of the labels that take NVIDIA's pods off; values that begin with `paused-` stay as they are."""
WAITS_FLAG: Final = "--wait-for-adoption"
_BY_FLAG: Final = {
    "--labels": "gpu-feature-discovery",
    "--mig-config-map": "mig-manager",
    "--exporter-address": "dcgm-exporter",
}
"""The part that a flag of the agent switches on. It always is a device plugin."""
_LONGEST_NOTE: Final = 4000
REPLICAS: Final = "tonnage.dev/replicas-before-adoption"
"""Annotation of the operator's Deployment."""
_OWNERS: Final = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("olm.owner", "the Operator Lifecycle Manager"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
)


@dataclass(frozen=True, slots=True)
class AdoptionNote:
    """What a node was before. `cordoned`: adoption cordoned it. `proven`: our devices were equal.

    `withdrawn` is when the agent was last asked to withdraw them; None: it was not. `devices` are the UUIDs
    of NVIDIA's plugin by resource; empty: they were not known. `namespace` is that of NVIDIA's operator;
    empty: an older version has not noted it.
    """

    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    cordoned: bool
    proven: bool = False
    withdrawn: datetime | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    namespace: str = ""

    def to_text(self) -> str:
        """As it stands in the annotation; without devices that would make it too long to be read."""
        devices: JsonObject = {resource: list(uuids) for resource, uuids in self.devices.items()}
        text = self._text({"devices": devices} if devices else {})
        return text if len(text) <= _LONGEST_NOTE else self._text({})

    def _text(self, more: JsonObject) -> str:
        labels: JsonObject = dict(self.labels)
        allocatable: JsonObject = dict(self.allocatable)
        note: JsonObject = {
            "labels": labels,
            "allocatable": allocatable,
            "cordoned": self.cordoned,
            "proven": self.proven,
            **more,
        }
        if self.namespace:
            note["namespace"] = self.namespace
        if self.withdrawn is not None:
            note["withdrawn"] = timestamp(self.withdrawn)
        return json.dumps(note, sort_keys=True)


def note_from(annotation: str) -> AdoptionNote | None:
    """The note of an annotation; None: it has none, or cannot be read."""
    try:
        value = parsed_json(annotation.encode()) if 0 < len(annotation) <= _LONGEST_NOTE else None
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    labels = {key: label for key, label in mapping(value, "labels").items() if isinstance(label, str)}
    amounts = {
        name: count
        for name, count in mapping(value, "allocatable").items()
        if isinstance(count, int) and not isinstance(count, bool)
    }
    if not labels or not amounts or not all(key.startswith(DEPLOY) for key in labels):
        return None
    withdrawn = _moment(text(value, "withdrawn"))
    devices = {resource: tuple(texts(mapping(value, "devices"), resource)) for resource in amounts}
    devices = {resource: uuids for resource, uuids in devices.items() if uuids}
    namespace = text(value, "namespace")
    return AdoptionNote(
        *(labels, amounts, flag(value, "cordoned"), flag(value, "proven"), withdrawn, devices),
        namespace if is_namespace(namespace) else "",
    )


def _moment(text: str) -> datetime | None:
    """A timestamp; None: there is none, or it cannot be read."""
    try:
        moment = moment_of(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


@dataclass(frozen=True, slots=True)
class AgentPod:
    """The agent of a node: `waits` for adoption, and has these `parts` that NVIDIA's operands have, too."""

    ready: bool
    waits: bool
    parts: frozenset[str]


@dataclass(frozen=True, slots=True)
class AdoptionFacts:
    """A node as the cluster shows it. `report_devices`: by the agent's report; None: none that is fresh.

    `offers` are the devices that its agent offers, or would, with the resource of each, and `listed` those
    that kubelet has, of whichever plugin, as it has told the agent; empty: nobody says. `served` are the
    amounts that the agent offers to kubelet; empty: it does not yet.

    `plugin_pods` are names of NVIDIA's pods of the parts that are taken over, `plugin_ready` whether its
    device plugin is, and `plugin_namespace` where it is; empty: nowhere.
    """

    node: str
    version: str
    labels: Mapping[str, str]
    note: str
    cordoned: bool
    moment: datetime
    allocatable: Mapping[str, int] = field(default_factory=dict)
    agent: AgentPod | None = None
    report_devices: int | None = None
    offers: frozenset[tuple[str, str]] = frozenset()
    listed: frozenset[tuple[str, str]] = frozenset()
    served: Mapping[str, int] = field(default_factory=dict)
    plugin_pods: tuple[str, ...] = ()
    plugin_ready: bool = False
    plugin_namespace: str = ""


def parts_of(arguments: Iterable[str]) -> frozenset[str]:
    """The parts that an agent with these arguments has, of those that NVIDIA's operands do.

    >>> sorted(parts_of(["--labels=direct", "--config-map=a/b"]))
    ['device-plugin', 'gpu-feature-discovery']
    """
    flags = {argument.partition("=")[0] for argument in arguments if argument != "--labels=none"}
    return frozenset({"device-plugin", *(part for name, part in _BY_FLAG.items() if name in flags)})


@dataclass(frozen=True, slots=True)
class OperatorDeployment:
    """The Deployment of NVIDIA's operator, and how many pods of it there are."""

    namespace: str
    name: str
    version: str
    replicas: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pods: int = 0

    @property
    def noted(self) -> str:
        """The replicas that it had before adoption; empty: it is not paused."""
        return self.annotations.get(REPLICAS, "")

    @property
    def owner(self) -> str:
        """Who else scales it, as far as its labels and annotations tell; empty: they do not."""
        known_by = {**self.labels, **self.annotations}
        return next((owner for key, owner in _OWNERS if key in known_by), "")
