"""Volumes of pods as far as they have a say in where a pod may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.model.kubernetes.selectors import Labels, LabelSelector, NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume of a pod that comes from a PersistentVolumeClaim; `ephemeral`: one made for the pod."""

    name: str
    claim: str
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a volume of a pod names itself, of a kind that the scheduler looks at.

    Two with an id in common are one disk, which pods share on a node only where all of them just read it.
    `driver`: what attaches it where its own code has gone out of Kubernetes.
    """

    volume: str
    source: str
    ids: frozenset[str]
    read_only: bool = False
    driver: str = ""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `volume` is what it is or shall be bound to; `bound`: it is.

    `size` is in bytes. `node` is the one for which a volume is being made. `selector`: the volumes that it
    may have, by their labels; None: any. `block`: it wants no file system.
    """

    namespace: str
    name: str
    volume: str = ""
    bound: bool = False
    storage_class: str = ""
    lost: bool = False
    terminating: bool = False
    owner: str = ""
    size: int = 0
    modes: frozenset[str] = frozenset()
    node: str = ""
    uid: str = ""
    selector: LabelSelector | None = None
    block: bool = False
    attributes_class: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. `nodes` None: every node reaches it. `claim` is `namespace/name` of who has it.

    `claim_uid`: of that claim, where the volume says which one of the name it is.
    """

    name: str
    claim: str = ""
    storage_class: str = ""
    size: int = 0
    modes: frozenset[str] = frozenset()
    nodes: tuple[NodeSelectorTerm, ...] | None = None
    labels: Labels = field(default_factory=dict)
    driver: str = ""
    source: str = ""
    """What it is made of, by the name of the field that says so: `csi`, `nfs`, …; else empty."""
    available: bool = False
    claim_uid: str = ""
    block: bool = False
    attributes_class: str = ""
    terminating: bool = False

    def is_for(self, claim: VolumeClaim) -> bool:
        """Whether it was bound to the claim, or made for it."""
        named = self.claim == f"{claim.namespace}/{claim.name}"
        return named and self.claim_uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage class; `waits`: a claim is bound when a pod that uses it is placed.

    `provisioner` makes its volumes, for nodes that one of `topologies` takes (none: for all).
    """

    name: str
    waits: bool = False
    provisioner: str = ""
    topologies: tuple[NodeSelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageDriver:
    """A CSI driver; `counts_storage`: nodes without enough storage for a new volume are left out.

    `must_be_there`: and nodes where the driver does not run.
    """

    name: str
    counts_storage: bool = False
    must_be_there: bool = False


@dataclass(frozen=True, slots=True)
class StorageLeft:
    """How large a new volume of a class may be, in bytes, on the nodes that `nodes` selects.

    `size` None: it is not told, `nodes` None: nobody has it; both take no volume.
    """

    storage_class: str
    size: int | None = None
    nodes: LabelSelector | None = None


Attachments = Mapping[str, Mapping[str, str]]
"""By node and volume: the driver that has attached it."""
VolumeLimits = Mapping[str, Mapping[str, int]]
"""By node and driver: how many volumes can be attached."""
