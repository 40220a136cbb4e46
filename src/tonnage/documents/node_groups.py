"""The groups of nodes that a scenario has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from tonnage.documents.claim_drivers import MOST_DRIVERS, VendorDriver, first_repeated
from tonnage.documents.hardware import MAX_LINKS, MAX_PARTS, HardwareLink, MigProfile
from tonnage.documents.quantities import Quantity
from tonnage.documents.yaml.reader import MarkedDocument
from tonnage.documents.yaml.source import Document, DocumentFieldError
from tonnage.documents.yaml.spelling import FIRST_CPUS, NUMA_COUNT, SCENARIO_NAME
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.selectors import Taint

MAX_LIGHT_NODES: Final = 16_000
MAX_GPUS_PER_NODE: Final = 64
MAX_NUMA_NODES: Final = 8
"""With which a kubelet starts whose topology manager aligns, unless it is told that more are allowed."""

_LABEL_NAME: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY: Final = re.compile(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}")
_LABEL_VALUE: Final = re.compile(rf"({_LABEL_NAME})?")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def parse_taint(text: str) -> Taint:
    """A taint in kubectl's syntax.

    >>> parse_taint("nvidia.com/gpu=present:NoSchedule")
    Taint(key='nvidia.com/gpu', value='present', effect='NoSchedule')

    Raises:
        ValueError: no such taint.
    """
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if effect not in _EFFECTS or not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
        raise ValueError(f"{text[:100]!r} is not a taint")
    return Taint(key, value, effect)


def _taint(text: str) -> str:
    try:
        parse_taint(text)
    except ValueError as error:
        remedy = f"write key=value:EFFECT or key:EFFECT, EFFECT one of {', '.join(_EFFECTS)}"
        raise DocumentFieldError(str(error), remedy=remedy) from None
    return text


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise DocumentFieldError(
                f"{key[:100]}={value[:100]} is not a label",
                why="key and value have at most 63 of A-Z a-z 0-9 - _ . with a letter or digit at each end",
            )
    return labels


Name = Annotated[str, Field(pattern=SCENARIO_NAME)]
Distance = Annotated[int, Field(ge=10, le=254)]


class Gpu(Document):
    """The cards of a node: `model` is a name of the catalogue, `mig` are the MIG devices of each card.

    `links` say how they are joined, where not as on the board that the model comes on.
    """

    model: str
    count: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_NODE)] = 1
    mig: Annotated[tuple[MigProfile, ...], Field(max_length=MAX_PARTS)] | None = None
    links: Annotated[tuple[HardwareLink, ...], Field(max_length=MAX_LINKS)] = ()

    @model_validator(mode="after")
    def _between_cards(self) -> Gpu:
        for link in self.links:
            if len({*link.gpus}) < 2 or max(link.gpus) >= self.count:
                pair = ", ".join(map(str, link.gpus))
                raise DocumentFieldError(
                    f"GPUs {pair} cannot be linked", remedy=f"give two of 0 to {self.count - 1}"
                )
        return self


class TopologyManagerOptions(Document):
    """Options of the topology manager, each "true" or a number as a text, as kubelet wants them."""

    prefer_closest_numa_nodes: Annotated[
        Literal["true", "false"] | None, Field(alias="prefer-closest-numa-nodes")
    ] = None
    max_allowable_numa_nodes: Annotated[
        str | None, Field(alias="max-allowable-numa-nodes", pattern=NUMA_COUNT)
    ] = None

    def texts(self) -> dict[str, str]:
        """Those that are given, under kubelet's names."""
        return {name: str(value) for name, value in self.model_dump(by_alias=True, exclude_none=True).items()}


class KubeletSettings(Document):
    """How the nodes' kubelets align devices, under the names of KubeletConfiguration."""

    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    topology_manager_scope: Literal["container", "pod"] = "container"
    topology_manager_policy_options: TopologyManagerOptions = TopologyManagerOptions()
    cpu_manager_policy: Literal["none", "static"] = "none"
    reserved_system_cpus: Annotated[str | None, Field(alias="reservedSystemCPUs", pattern=FIRST_CPUS)] = None
    """The first CPUs, as `0-3`; a static CPU manager needs some."""

    @property
    def reserved_cpus(self) -> int:
        """How many."""
        return int(self.reserved_system_cpus.rpartition("-")[2]) + 1 if self.reserved_system_cpus else 0


class NodeGroup(Document):
    """Nodes that are alike, named `<group>-<i>` from 0."""

    name: Name
    nodes: Annotated[int, Field(ge=0, le=MAX_LIGHT_NODES)] = 1
    light: bool = False
    """Whether they are objects only: no kubelet, no agent, and pods that only say that they run."""
    gpu: Gpu | None = None
    cpu: Quantity = 32
    memory: Quantity = "128Gi"
    pods: Annotated[int, Field(ge=1, le=1000)] = 110
    numa: Annotated[int, Field(ge=1, le=16)] = 1
    """NUMA nodes; cards and cores are spread over them in order."""
    numa_distances: Annotated[tuple[tuple[Distance, ...], ...], Field(max_length=16)] = ()
    """A row for each NUMA node, as the firmware has them; left out: 10 at home, 20 to all others."""
    kubelet: KubeletSettings = KubeletSettings()
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default={})
    taints: tuple[Annotated[str, AfterValidator(_taint)], ...] = ()
    driver: Literal["host", "container"] = "host"
    """Whose driver its nodes have."""
    headers: bool = True
    """Whether headers for the running kernel are installed; only where a container brings the driver."""
    nouveau: bool = False
    """Whether the kernel's own driver holds the cards; only where a container brings the driver."""
    config: str | None = None
    """Key of the device-plugin config; becomes the node label `nvidia.com/device-plugin.config`."""

    claim_drivers: Annotated[tuple[VendorDriver, ...], Field(max_length=MOST_DRIVERS)] = ()
    """Drivers of other vendors that offer devices for ResourceClaims on each of its nodes."""

    @model_validator(mode="after")
    def _light_without_agents(self) -> NodeGroup:
        if self.light and self.config is not None:
            raise DocumentFieldError(
                "light nodes have no config", why="no agent runs on them", remedy="leave it out"
            )
        if self.light and self.claim_drivers:
            raise DocumentFieldError(
                "light nodes have no claimDrivers", why="no kubelet asks them", remedy="leave them out"
            )
        return self

    @model_validator(mode="after")
    def _drivers_differ(self) -> NodeGroup:
        if repeated := first_repeated(driver.name for driver in self.claim_drivers):
            raise DocumentFieldError(f"two claimDrivers are named {repeated}", remedy="leave one out")
        return self

    @property
    def node_names(self) -> tuple[str, ...]:
        """`a100-0`, `a100-1`, …"""
        return tuple(f"{self.name}-{index}" for index in range(self.nodes))

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """`taints`, parsed."""
        return tuple(map(parse_taint, self.taints))


def numa_problems(group: NodeGroup, at: tuple[str, int], document: MarkedDocument) -> Iterator[Problem]:
    """NUMA nodes that the group's kubelets would not start with."""
    rows = group.numa_distances
    if rows and {len(rows), *map(len, rows)} != {group.numa}:
        where = document.where((*at, "numaDistances"))
        yield Problem(f"numaDistances is not a table of {group.numa} by {group.numa}", where)
    kubelet = group.kubelet
    allowed = int(kubelet.topology_manager_policy_options.max_allowable_numa_nodes or MAX_NUMA_NODES)
    cores = parse_quantity(str(group.cpu))
    if kubelet.cpu_manager_policy == "static" and not 0 < kubelet.reserved_cpus <= cores:
        yield Problem(
            "kubelet would not start: the static CPU manager needs reserved CPUs",
            document.where((*at, "kubelet")),
            remedy='reservedSystemCPUs: "0-1"',
        )
    if kubelet.topology_manager_policy != "none" and group.numa > allowed:
        yield Problem(
            f"kubelet would not start: {group.numa} NUMA nodes, of which at most {allowed} are allowed",
            document.where((*at, "kubelet")),
            remedy=f'topologyManagerPolicyOptions: {{max-allowable-numa-nodes: "{group.numa}"}}',
        )
