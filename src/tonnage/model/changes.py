"""What somebody wants to try on a cluster: changes of nodes and of workloads, in named alternatives.

`where` of a change is where it was written (`changes.yaml:4:3`, `--drain`), for problems with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tonnage.model.kubernetes.cluster import Manifest, Requests
from tonnage.model.kubernetes.selectors import Labels, Taint


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """Nodes whose name fits `name` (`*` is any text) and that have all the labels."""

    name: str = "*"
    labels: Labels = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [*(() if self.name == "*" and self.labels else (self.name,))]
        return ",".join([*parts, *(f"{key}={value}" for key, value in self.labels.items())])


@dataclass(frozen=True, slots=True)
class SetMig:
    """Divide GPUs: `layout` is all-disabled, all-balanced, all-<profile>, or profiles with their number.

    `devices` are indices of a node's GPUs; None: all that can be divided. `strategy` empty: the node's own.
    """

    nodes: NodeSelection
    layout: str
    devices: tuple[int, ...] | None = None
    strategy: str = ""
    where: str = ""

    def __str__(self) -> str:
        which = "" if self.devices is None else f" on GPUs {', '.join(map(str, self.devices))}"
        return f"MIG layout {self.layout} on {self.nodes}{which}"


@dataclass(frozen=True, slots=True)
class SetSharing:
    """Offer each device so many times; 1 is exclusive. `resource` empty: whole GPUs."""

    nodes: NodeSelection
    replicas: int
    rename: bool = False
    resource: str = ""
    where: str = ""

    def __str__(self) -> str:
        if self.replicas == 1:
            return f"exclusive devices on {self.nodes}"
        named = ", renamed" if self.rename else ""
        return f"{self.replicas} replicas a device on {self.nodes}{named}"


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon, and evict what a drain evicts."""

    nodes: NodeSelection
    where: str = ""

    def __str__(self) -> str:
        return f"drain {self.nodes}"


@dataclass(frozen=True, slots=True)
class CordonNode:
    """Take no more pods; `undo`: take them again."""

    nodes: NodeSelection
    undo: bool = False
    where: str = ""

    def __str__(self) -> str:
        return f"{'uncordon' if self.undo else 'cordon'} {self.nodes}"


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """The nodes are gone, and everything on them."""

    nodes: NodeSelection
    where: str = ""

    def __str__(self) -> str:
        return f"remove {self.nodes}"


@dataclass(frozen=True, slots=True)
class AddNodes:
    """So many nodes more: like the node `like`, or with `gpus` GPUs of a `product` of the catalogue.

    `amounts` (cpu in thousandths, memory and so on in units) and `labels` go over what follows from the rest.
    """

    count: int
    like: str = ""
    product: str = ""
    gpus: int = 0
    amounts: Requests = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    where: str = ""

    def __str__(self) -> str:
        described = f"like {self.like}" if self.like else f"with {self.gpus} {self.product}"
        return f"{self.count} more node{'' if self.count == 1 else 's'} {described}"


@dataclass(frozen=True, slots=True)
class AddWorkload:
    """The pods that a file makes, each of them `replicas` times; None: as often as it says itself."""

    source: str
    replicas: int | None = None
    manifests: tuple[Manifest, ...] = ()
    """Empty until the file is read."""
    where: str = ""

    def __str__(self) -> str:
        own = (manifest.replicas for manifest in self.manifests)
        count = sum(own) if self.replicas is None else self.replicas * len(self.manifests)
        return f"{count} more pod{'' if count == 1 else 's'} of {self.source}"


@dataclass(frozen=True, slots=True)
class ScaleWorkload:
    """A workload with so many pods; none: it is removed. An empty `kind` is any."""

    kind: str
    namespace: str
    name: str
    replicas: int
    where: str = ""

    def __str__(self) -> str:
        named = f"{self.namespace}/{self.kind}/{self.name}" if self.kind else f"{self.namespace}/{self.name}"
        return f"{named} with {self.replicas} pod{'' if self.replicas == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Replay:
    """Every pod is placed anew, on empty nodes, in order of creation."""

    where: str = ""

    def __str__(self) -> str:
        return "every pod placed again"


NodeChange: TypeAlias = SetMig | SetSharing | Drain | CordonNode | RemoveNodes | AddNodes
WorkloadChange: TypeAlias = AddWorkload | ScaleWorkload | Replay
Change: TypeAlias = NodeChange | WorkloadChange


@dataclass(frozen=True, slots=True)
class Alternative:
    """Changes that are tried together, in their order."""

    name: str
    changes: tuple[Change, ...] = ()
