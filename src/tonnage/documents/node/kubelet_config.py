"""Policies of kubelet: out of its configuration file, and out of what its managers write of themselves.

Source: kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1 (names, values, defaults);
k8s.io/kubernetes pkg/kubelet/cm/{cpumanager,memorymanager}/state (`policyName`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.documents.yaml.reader import parse_yaml
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import parsed_json

CPU: Final = "cpuManagerPolicy"
MEMORY: Final = "memoryManagerPolicy"
TOPOLOGY: Final = "topologyManagerPolicy"
SCOPE: Final = "topologyManagerScope"
POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    TOPOLOGY: ("none", "best-effort", "restricted", "single-numa-node"),
    SCOPE: ("container", "pod"),
    CPU: ("none", "static"),
    MEMORY: ("None", "Static", "BestEffort"),
}
"""What each may be; the first is the default."""
API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class NamedPolicies:
    """Policies by their names, and why others cannot be told."""

    policies: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def kubelet_config(text: str, source: str) -> NamedPolicies:
    """The four policies of a KubeletConfiguration; what it leaves out is kubelet's default.

    Its other fields are none of ours, and not judged.

    Raises:
        ConfigError: no YAML or JSON, over a bound, or no KubeletConfiguration.
    """
    value = parse_yaml(text, source=source).value
    if not isinstance(value, dict) or value.get("kind") != "KubeletConfiguration":
        raise ConfigError(Problem("no KubeletConfiguration", source))
    if value.get("apiVersion") != API_VERSION:
        problem = f"a KubeletConfiguration of apiVersion {str(value.get('apiVersion'))[:_LONGEST]!r}"
        raise ConfigError(Problem(problem, source, f"write {API_VERSION}"))
    policies: dict[str, str] = {}
    problems: list[Problem] = []
    for name, choices in POLICIES.items():
        policy = _policy(name, value.get(name) or choices[0], source)
        if isinstance(policy, Problem):
            problems.append(policy)
        else:
            policies[name] = policy
    return NamedPolicies(policies, tuple(problems))


def manager_policy(name: str, text: str, source: str) -> str:
    """The policy that a manager of kubelet (`CPU`, `MEMORY`) noted as the one that it runs.

    Raises:
        ConfigError: no JSON, or no policy of that manager.

    >>> manager_policy(CPU, '{"policyName": "static", "defaultCpuSet": "0-3"}', "cpu_manager_state")
    'static'
    """
    try:
        value = parsed_json(text)
    except ValueError as error:
        raise ConfigError(Problem("no JSON", source, type(error).__name__)) from None
    policy = _policy(name, value.get("policyName") if isinstance(value, dict) else None, source)
    if isinstance(policy, Problem):
        raise ConfigError(policy)
    return policy


def _policy(name: str, value: object, source: str) -> str | Problem:
    if isinstance(value, str) and value in POLICIES[name]:
        return value
    return Problem(f"{name} is not a policy of kubelet: {str(value)[:_LONGEST]!r}", source)
