"""What a ClusterPolicy's section `driver` or an NVIDIADriver asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tonnage.model.gpu_policy import FieldWithoutEffect
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.selectors import NodeSelectorTerm


class DriverOwnerKind(StrEnum):
    """The kinds that can ask for drivers."""

    CLUSTER_POLICY = "ClusterPolicy"
    NVIDIA_DRIVER = "NVIDIADriver"


@dataclass(frozen=True, slots=True)
class DriverOwner:
    """The object that asks; the DaemonSets written for it refer to it by its uid."""

    kind: DriverOwnerKind
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class ImageFields:
    """An image as NVIDIA's kinds name it: three fields, of which some may be empty."""

    repository: str = ""
    image: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class DrainLimits:
    """How pods are made to leave; `timeout_s` 0: without a limit."""

    force: bool = False
    delete_empty_dir: bool = False
    timeout_s: int = 300
    selector: str = ""


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """`driver.upgradePolicy`. `max_parallel` 0: any number; `drain` None: nodes are not drained."""

    automatic: bool = True
    max_parallel: int = 1
    max_unavailable: int | str = "25%"
    jobs: str = ""
    """Selector of pods that are waited for; empty: none are."""
    jobs_timeout_s: int = 0
    pod_deletion: DrainLimits = DrainLimits()
    drain: DrainLimits | None = None


@dataclass(frozen=True, slots=True)
class DriverPolicy:
    """One owner's drivers.

    `pod` has the fields that go into the pod as they are written (`env`, `tolerations`, …), under the names
    that NVIDIADriver has for them. `selector` and `terms` say which nodes; `default`: those
    that no other NVIDIADriver selects.
    """

    owner: DriverOwner
    enabled: bool = True
    precompiled: bool = False
    image: ImageFields = ImageFields()
    manager: ImageFields = ImageFields()
    kernel_module_type: str = "auto"
    upgrades: UpgradePolicy = UpgradePolicy()
    upgrades_disabled: str = ""
    """Why no node is upgraded, whatever `upgrades` says."""
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[NodeSelectorTerm, ...] | None = None
    default: bool = True
    pod: Mapping[str, JsonValue] = field(default_factory=dict)
    certificates: str = ""
    """The ConfigMap with authorities of registries; empty: those of the system."""
    file_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the ConfigMaps that become files of the driver's container, by their names."""
    module_texts: Mapping[str, str] = field(default_factory=dict)
    """What the files with the kernel module's parameters say."""
    generation: int = 0
    without_effect: tuple[FieldWithoutEffect, ...] = ()
    problem: str = ""
    """Why nothing is done for this owner."""
    release: str = ""
    """The release of the GPU operator whose chart the policy comes from; empty: it does not say."""
    components: Mapping[str, str] = field(default_factory=dict)
    """Versions that it names of other parts, by the parts' sections."""
    status: JsonObject = field(default_factory=dict, repr=False)
