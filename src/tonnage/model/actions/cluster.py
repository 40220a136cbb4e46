"""Changes of the cluster's objects: what `KubernetesApi` does for agents and controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import LooksFirst, Retry
from tonnage.model.actions.subjects import SLICES, node_feature_subject, object_subject, pod_subject
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Merge this into the Node: labels, annotations, whether it is cordoned."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class PatchNodeStatus:
    """Have these conditions in the Node's status, beside those of others."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class EvictPod(LooksFirst):
    """Eviction of a pod, if it still is that one; a dry run only asks whether it would be granted."""

    namespace: str
    name: str
    uid: str
    dry_run: bool = False

    @property
    def subject(self) -> str:
        """The pod."""
        return pod_subject(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class CreateNodeFeature(LooksFirst):
    """Make the NodeFeature of a node that has none."""

    namespace: str
    feature: JsonObject = field(repr=False)

    @property
    def subject(self) -> str:
        """The object, or that there is none."""
        return node_feature_subject(self.namespace, text(self.feature, "metadata", "name"))


@dataclass(frozen=True, slots=True)
class ReplaceNodeFeature(LooksFirst):
    """Have the NodeFeature be this, if it still is the one that was seen."""

    namespace: str
    feature: JsonObject = field(repr=False)

    @property
    def subject(self) -> str:
        """The object, or that there is none."""
        return node_feature_subject(self.namespace, text(self.feature, "metadata", "name"))


@dataclass(frozen=True, slots=True)
class CreateNodeGpuStatus:
    """Make the NodeGPUStatus of a node, which says nothing yet."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str


@dataclass(frozen=True, slots=True)
class PatchNodeGpuStatus:
    """Merge this into the status of a node's NodeGPUStatus."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class PatchPolicyStatus:
    """Merge this into the status of a ClusterPolicy, if it still is the one that was seen."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    name: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class ApplyConfigMap:
    """Have these contents in a ConfigMap, a copy of `source`; what others wrote stays."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    namespace: str
    name: str
    contents: Mapping[str, str] = field(repr=False)
    source: str = ""


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Have the fields of this object; what others wrote in others stays."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    body: JsonObject = field(repr=False)
    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, body: JsonObject) -> ApplyObject:
        """The object by what it says of itself."""
        metadata = text(body, "metadata", "name"), text(body, "metadata", "namespace")
        return cls(body, text(body, "kind"), *metadata)


@dataclass(frozen=True, slots=True)
class DeleteObject(LooksFirst):
    """Delete an object, if it still is that one; what it owns goes with it."""

    kind: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def subject(self) -> str:
        """The object."""
        return object_subject(self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class PatchGpuClusterStatus:
    """Merge this into the status of a GPUCluster, if it still is the one that was seen."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    name: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class PatchDriverStatus:
    """Merge this into the status of an NVIDIADriver, if it still is the one that was seen."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    name: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class ApplyValidation:
    """Have this validation in the status of a node's NodeGPUStatus, or none where it is empty.

    All else there is its agent's.
    """

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    validation: JsonObject = field(repr=False)


class _SliceWrite(LooksFirst):
    """Changes one of the node's slices."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        """All of the node's slices."""
        return SLICES


@dataclass(frozen=True, slots=True)
class CreateSlice(_SliceWrite):
    """Publish a ResourceSlice of the node that is missing."""

    slice: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplaceSlice(_SliceWrite):
    """Have a ResourceSlice be this, if it still is the one that was seen."""

    slice: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeleteSlice(_SliceWrite):
    """Delete a ResourceSlice, if it still is that one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateEvent:
    """Write an Event, under its name."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    namespace: str
    event: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class CountEvent:
    """Have the Event that stands say how often it has happened by now."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    namespace: str
    name: str
    patch: JsonObject = field(repr=False)


SliceAction: TypeAlias = CreateSlice | ReplaceSlice | DeleteSlice
ClusterAction: TypeAlias = (
    PatchNode
    | PatchNodeStatus
    | EvictPod
    | CreateNodeFeature
    | ReplaceNodeFeature
    | CreateNodeGpuStatus
    | PatchNodeGpuStatus
    | CreateEvent
    | CountEvent
)
ControllerAction: TypeAlias = (
    PatchPolicyStatus
    | PatchDriverStatus
    | PatchGpuClusterStatus
    | ApplyConfigMap
    | ApplyObject
    | ApplyValidation
    | DeleteObject
)
"""Those of the cluster controller alone."""
