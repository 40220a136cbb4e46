"""Scenarios: which fleet the embedded cluster pretends. Small YAML to values.

name: two-cards
description: One node with two T4 cards, one without
serverVersion: "1.35"
groups:
  - {name: t4, nodes: 1, gpu: {model: T4, count: 2}, cpu: 16, memory: 64Gi, config: shared}
  - {name: cpu, nodes: 1}
configs:
  shared:
    version: v1
    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Final, Literal

import yaml
from pydantic import AfterValidator, Field, JsonValue, model_validator

from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.hardware import MAX_LINKS, MAX_PARTS, HardwareLink, MigProfile, mig_problem
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import MarkedDocument, field_path, parse_yaml
from tonnage.documents.yaml.source import Document, DocumentFieldError, validate
from tonnage.documents.yaml.spelling import FIRST_CPUS, NUMA_COUNT, SCENARIO_NAME
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.selectors import Taint

MAX_NODES: Final = 1000
MAX_LIGHT_NODES: Final = 16_000
_LIGHT: Final = "light"
MAX_GPUS_PER_NODE: Final = 64
MAX_NUMA_NODES: Final = 8
"""With which a kubelet starts whose topology manager aligns, unless it is told that more are allowed."""
SERVER_VERSIONS: Final = tuple(f"1.{minor}" for minor in range(31, 38))

_LABEL_NAME: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY: Final = re.compile(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_LABEL_NAME}")
_LABEL_VALUE: Final = re.compile(rf"({_LABEL_NAME})?")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,63}")
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


def _quantity(value: str | int) -> str | int:
    try:
        if parse_quantity(str(value)) <= 0:
            raise ValueError
    except ValueError:
        raise DocumentFieldError(
            f"{str(value)[:64]} is not a positive quantity", remedy="write 32, 500m or 128Gi"
        ) from None
    return value


def _config_keys(configs: dict[str, dict[str, JsonValue]]) -> dict[str, dict[str, JsonValue]]:
    for key in configs:
        if not _CONFIG_KEY.fullmatch(key):
            raise DocumentFieldError(
                f"{key[:100]!r} is no key of a ConfigMap", why="use at most 63 letters, digits, - _ ."
            )
    return configs


Quantity = Annotated[str | int, AfterValidator(_quantity)]
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
        str | None,
        Field(
            alias="max-allowable-numa-nodes",
            pattern=NUMA_COUNT,
        ),
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
    reserved_system_cpus: Annotated[
        str | None,
        Field(
            alias="reservedSystemCPUs",
            pattern=FIRST_CPUS,
        ),
    ] = None
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

    @model_validator(mode="after")
    def _as_light_as_said(self) -> NodeGroup:
        if self.light and self.config is not None:
            raise DocumentFieldError(
                "light nodes have no config", why="no agent runs on them", remedy="leave it out"
            )
        return self

    @property
    def node_names(self) -> tuple[str, ...]:
        """`a100-0`, `a100-1`, …"""
        return tuple(f"{self.name}-{index}" for index in range(self.nodes))

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """`taints`, parsed."""
        return tuple(map(parse_taint, self.taints))


class Scenario(Document):
    """A fleet. `configs` becomes the ConfigMap tonnage-system/device-plugin-config, a key each.

    With `controller` the cluster controller runs, which follows a ClusterPolicy; with `drivers` it installs
    drivers, too.
    """

    name: Name
    description: Annotated[str, Field(max_length=1000)] = ""
    server_version: str = "1.35"
    groups: Annotated[tuple[NodeGroup, ...], Field(max_length=100)]
    configs: Annotated[dict[str, dict[str, JsonValue]], AfterValidator(_config_keys)] = Field(default={})
    controller: bool = False
    drivers: bool = False
    feature_gates: Annotated[dict[str, bool], Field(max_length=64)] = Field(default={})
    """Kubernetes' feature gates that are not as its release has them by default."""

    @property
    def gates(self) -> tuple[tuple[str, bool], ...]:
        """The fleet's feature gates, sorted."""
        return tuple(sorted(self.feature_gates.items()))

    def with_gates(self, chosen: Iterable[tuple[str, bool]]) -> Scenario:
        """With these feature gates otherwise."""
        return self.model_copy(update={"feature_gates": {**self.feature_gates, **dict(chosen)}})

    @property
    def nodes(self) -> int:
        """Nodes of all groups."""
        return sum(group.nodes for group in self.groups)

    @cached_property
    def config_texts(self) -> Mapping[str, str]:
        """Data of the ConfigMap: key -> YAML text of a device-plugin config v1."""
        return {key: yaml.safe_dump(value, sort_keys=False) for key, value in self.configs.items()}

    def with_light(self, nodes: int) -> Scenario:
        """The same fleet and so many light nodes of eight H100 each, named `light-0` and so on.

        Raises:
            ConfigError: too many, or the fleet has a group `light` of its own.
        """
        light = sum(group.nodes for group in self.groups if group.light)
        if not 1 <= nodes <= MAX_LIGHT_NODES - light:
            why = f"between 1 and {MAX_LIGHT_NODES - light} light nodes can be pretended"
            raise ConfigError(Problem(f"--light-nodes {nodes}", why=why))
        if any(group.name == _LIGHT for group in self.groups):
            why = f"the fleet has a group named {_LIGHT}"
            raise ConfigError(Problem(f"--light-nodes {nodes}", why=why, remedy="scale it in the scenario"))
        gpu = Gpu(model="H100-80", count=8)
        group = NodeGroup(name=_LIGHT, nodes=nodes, light=True, gpu=gpu, cpu=128, memory="1Ti", numa=2)
        return self.model_copy(update={"groups": (*self.groups, group)})

    def scaled(self, nodes: int) -> Scenario:
        """The same fleet with `nodes` nodes, the groups in proportion, none emptied while there are enough.

        Raises:
            ConfigError: more nodes than one process can pretend, or less than one.
        """
        most = MAX_LIGHT_NODES if all(group.light for group in self.groups) else MAX_NODES
        if not 1 <= nodes <= most:
            raise ConfigError(Problem(f"--nodes {nodes}", why=f"between 1 and {most} nodes can be pretended"))
        counts = proportional(tuple(group.nodes for group in self.groups), nodes)
        groups = tuple(
            group.model_copy(update={"nodes": count})
            for group, count in zip(self.groups, counts, strict=True)
        )
        return self.model_copy(update={"groups": groups})


def proportional(weights: tuple[int, ...], total: int) -> tuple[int, ...]:
    """`total` dealt out by weight (D'Hondt), one to each weight above zero first; the earlier wins a tie.

    >>> proportional((2, 4, 2), 4), proportional((1, 1), 1), proportional((0, 3), 6)
    ((1, 2, 1), (1, 0), (0, 6))
    """
    counts = [0] * len(weights)
    positive = [index for index, weight in enumerate(weights) if weight] or list(range(len(weights)))
    for index in positive[:total]:
        counts[index] = 1
    for _ in range(total - sum(counts)):
        best = max(positive, key=lambda index: ((weights[index] or 1) / (counts[index] + 1), -index))
        counts[best] += 1
    return tuple(counts)


def parse_scenario(text: str, *, source: str) -> Scenario:
    """The scenario in `text`.

    Raises:
        ConfigError: every problem at once, each with its place and the nearest known name.
    """
    document = parse_yaml(text, source=source)
    problems = list(_config_problems(document))
    try:
        scenario = validate(document, Scenario)
    except ConfigError as error:
        raise ConfigError(*error.problems, *problems) from None
    problems = [*_contradictions(scenario, document), *problems]
    if problems:
        raise ConfigError(*problems)
    return scenario


def _config_problems(document: MarkedDocument) -> Iterator[Problem]:
    """What the agent would refuse, each at its own line, even where the rest of the scenario is wrong."""
    value = document.value
    configs = value.get("configs") if isinstance(value, dict) else None
    if not isinstance(configs, dict):
        return
    places = {field_path(path): path for path in document.marks}
    for key, config in configs.items():
        if not isinstance(config, dict):
            continue
        try:
            parse_device_plugin_config(yaml.safe_dump(config, sort_keys=False), source=key)
        except ConfigError as error:
            at_key = field_path(("configs", key))
            for problem in error.problems:
                field = problem.where.partition(" ")[2]
                path = places.get(f"{at_key}.{field}", ("configs", key))
                where = document.where(path).partition(" ")[0]
                yield replace(problem, where=f"{where} {at_key}.{field}".rstrip("."))


def _contradictions(scenario: Scenario, document: MarkedDocument) -> Iterator[Problem]:
    heavy = sum(group.nodes for group in scenario.groups if not group.light)
    if scenario.nodes < 1 or heavy > MAX_NODES:
        yield Problem(
            f"{heavy} nodes in all",
            document.where(("groups",)),
            why=f"between 1 and {MAX_NODES} can be pretended",
        )
    if scenario.nodes - heavy > MAX_LIGHT_NODES:
        yield Problem(
            f"{scenario.nodes - heavy} light nodes in all",
            document.where(("groups",)),
            why=f"at most {MAX_LIGHT_NODES} can be pretended",
        )
    if scenario.server_version not in SERVER_VERSIONS:
        versions = f"one of {', '.join(SERVER_VERSIONS)}"
        yield Problem(
            f"unknown Kubernetes version {scenario.server_version[:20]}",
            document.where(("serverVersion",)),
            remedy=versions,
        )
    group_names: set[str] = set()
    for index, group in enumerate(scenario.groups):
        at = ("groups", index)
        if not group.light and group.nodes > MAX_NODES:
            yield Problem(
                f"{group.nodes} nodes",
                document.where((*at, "nodes")),
                why=f"at most {MAX_NODES} with kubelets can be pretended",
                remedy="set light: true",
            )
        if group.name in group_names:
            yield Problem(
                f"two groups are named {group.name}", document.where((*at, "name")), remedy="rename one"
            )
        group_names.add(group.name)
        if group.gpu and group.gpu.model not in gpu_models():
            yield Problem(
                f"unknown GPU model {group.gpu.model[:60]}",
                document.where((*at, "gpu", "model")),
                remedy=nearest(group.gpu.model, sorted(gpu_models())),
            )
        elif group.gpu and group.gpu.mig is not None:
            problem = mig_problem(group.gpu.model, group.gpu.mig)
            if problem is not None:
                yield replace(problem, where=document.where((*at, "gpu", "mig")))
        yield from _numa_problems(group, at, document)
        if group.config is not None and group.config not in scenario.configs:
            yield Problem(
                f"configs has no key {group.config[:63]}",
                document.where((*at, "config")),
                why="the config of a group is a key of configs",
                remedy=nearest(group.config, sorted(scenario.configs)),
            )


def _numa_problems(group: NodeGroup, at: tuple[str, int], document: MarkedDocument) -> Iterator[Problem]:
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


def scenario_text(scenario: Scenario) -> str:
    """The scenario as `parse_scenario` reads it."""
    content = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(content, sort_keys=False)
