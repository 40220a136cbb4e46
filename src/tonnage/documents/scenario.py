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
from typing import Annotated, Final

import yaml
from pydantic import AfterValidator, Field, JsonValue

from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.hardware import mig_problem
from tonnage.documents.nearest import nearest
from tonnage.documents.node_groups import MAX_LIGHT_NODES, Gpu, Name, NodeGroup, numa_problems
from tonnage.documents.yaml.reader import MarkedDocument, field_path, parse_yaml
from tonnage.documents.yaml.source import Document, DocumentFieldError, validate
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.errors import ConfigError, Problem

MAX_NODES: Final = 1000
_LIGHT: Final = "light"
SERVER_VERSIONS: Final = tuple(f"1.{minor}" for minor in range(31, 38))

_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,63}")


def _config_keys(configs: dict[str, dict[str, JsonValue]]) -> dict[str, dict[str, JsonValue]]:
    for key in configs:
        if not _CONFIG_KEY.fullmatch(key):
            raise DocumentFieldError(
                f"{key[:100]!r} is no key of a ConfigMap", why="use at most 63 letters, digits, - _ ."
            )
    return configs


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
        elif group.gpu and group.gpu.mig is not None:  # only of a known model: others have no profiles
            problem = mig_problem(group.gpu.model, group.gpu.mig)
            if problem is not None:
                yield replace(problem, where=document.where((*at, "gpu", "mig")))
        yield from numa_problems(group, at, document)
        if group.config is not None and group.config not in scenario.configs:
            yield Problem(
                f"configs has no key {group.config[:63]}",
                document.where((*at, "config")),
                why="the config of a group is a key of configs",
                remedy=nearest(group.config, sorted(scenario.configs)),
            )


def scenario_text(scenario: Scenario) -> str:
    """The scenario as `parse_scenario` reads it."""
    content = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(content, sort_keys=False)
