"""kubelet's policies as its files say them, where they are readable; its command line is not looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.documents.node.kubelet_config import (
    CPU,
    MEMORY,
    SCOPE,
    TOPOLOGY,
    kubelet_config,
    manager_policy,
)
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.node.software import UNKNOWN, KubeletPolicies

CONFIG: Final = "/var/lib/kubelet/config.yaml"
STATES: Final = {CPU: "/var/lib/kubelet/cpu_manager_state", MEMORY: "/var/lib/kubelet/memory_manager_state"}
_STATE_BYTES: Final = 4 << 20
_LONGEST: Final = 1024


def kubelet_policies(roots: Iterable[NodeFiles]) -> KubeletPolicies:
    """What can be told; each file is read below the first root that has it.

    What a manager noted is what runs. It wins over the configuration, which may be edited and not loaded, or
    outdone by an option.
    """
    reader = _Reader(tuple(roots))
    configured = reader.configured()
    running = {name: policy for name, path in STATES.items() if (policy := reader.noted(name, path))}
    for name in running.keys() & configured.keys():
        if running[name] != configured[name]:
            reader.reasons.append(f"{name} is {running[name]}, though {CONFIG} says {configured[name]}")
    policies = {**configured, **running}
    return KubeletPolicies(
        policies.get(TOPOLOGY, UNKNOWN),
        policies.get(SCOPE, UNKNOWN),
        policies.get(CPU, UNKNOWN),
        policies.get(MEMORY, UNKNOWN),
        tuple(reader.sources),
        "; ".join(reader.reasons)[:_LONGEST],
    )


class _Reader:
    """Reads files, and keeps which of them said something and why others did not."""

    def __init__(self, roots: tuple[NodeFiles, ...]) -> None:
        self._roots = roots
        self.sources: list[str] = []
        self.reasons: list[str] = []

    def configured(self) -> dict[str, str]:
        """Policies out of the configuration; nothing where it cannot be read."""
        text = self._text(CONFIG)
        if text is None:
            if not self.reasons:
                self.reasons.append(f"kubelet's configuration is not where the agent sees it: {CONFIG}")
            return {}
        try:
            config = kubelet_config(text, CONFIG)
        except ConfigError as error:
            self.reasons.append(_line(error.problems[0]))
            return {}
        self.sources.append(CONFIG)
        self.reasons += [_line(problem) for problem in config.problems]
        return dict(config.policies)

    def noted(self, name: str, path: str) -> str:
        """The policy that a manager runs; empty where it did not note it."""
        text = self._text(path, _STATE_BYTES)
        if text is None:
            return ""
        try:
            policy = manager_policy(name, text, path)
        except ConfigError as error:
            self.reasons.append(_line(error.problems[0]))
            return ""
        self.sources.append(path)
        return policy

    def _text(self, path: str, most: int | None = None) -> str | None:
        for files in self._roots:
            content = files.read(path) if most is None else files.read(path, most)
            if content.trouble:
                self.reasons.append(f"{path}: {content.trouble}")
                return None
            if content.content is not None:
                return content.text
        return None


def _line(problem: Problem) -> str:
    return ": ".join(part for part in (problem.where, problem.what, problem.why) if part)
