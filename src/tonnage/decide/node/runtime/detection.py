"""Which container runtime a node's kubelet has, out of what is seen there and what a person says."""

from __future__ import annotations

from typing import Final

from tonnage.decide.node.runtime.versions import runtime_kind
from tonnage.model.node.facts import RuntimeFacts
from tonnage.model.node.runtime_change import ConfigFile, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeConfig, RuntimeKind
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured, not_configured

_MAIN: Final = {
    RuntimeKind.CONTAINERD: "/etc/containerd/config.toml",
    RuntimeKind.CRIO: "/etc/crio/crio.conf",
}
_PACKAGES: Final = {
    RuntimeKind.CONTAINERD: ("containerd", "containerd.io"),
    RuntimeKind.CRIO: ("cri-o",),
}
_UNIT: Final = {RuntimeKind.CONTAINERD: "containerd", RuntimeKind.CRIO: "crio"}
_RANCHER: Final = "/var/lib/rancher/"
_RANCHER_SOCKET: Final = "/run/k3s/containerd/containerd.sock"
_LONGEST: Final = 100


def runtime_seen(
    facts: RuntimeFacts, units: tuple[str, ...] = (), *, runtime: str = "", config: str = ""
) -> RuntimeSeen:
    """The runtime, its files by name, unread.

    `runtime`, as a Node says it, and `config` are what a person says, empty if nothing; `units` are those of
    systemd that are there.

    >>> runtime_seen(RuntimeFacts(), runtime="containerd://2.1.4").files
    (ConfigFile(path='/etc/containerd/config.toml', text=None, link='', trouble=''),)
    """
    kind, version, version_source = _reported_runtime(facts, runtime)
    if kind is None:
        name = runtime.partition("://")[0] if runtime else facts.name
        return RuntimeSeen(None, version, version_source, name=name[:_LONGEST])
    candidates = [candidate for candidate in facts.configs if candidate.kind is kind and candidate.files]
    chosen = (
        [candidate for candidate in candidates if candidate.files[0] == config]
        if config
        else _likely(candidates, facts)
    )
    if len(chosen) > 1:
        return RuntimeSeen(kind, version, version_source, refusals=(_several(chosen),))
    paths = chosen[0].files if chosen else (config or _MAIN[kind],)
    unit = _unit(kind, paths[0], units)
    return RuntimeSeen(kind, version, version_source, tuple(ConfigFile(path) for path in paths), unit)


def _reported_runtime(facts: RuntimeFacts, runtime: str) -> tuple[RuntimeKind | None, str, str]:
    """(kind, version, who says so)."""
    if runtime:
        name, _, version = runtime.partition("://")
        return runtime_kind(name), version[:_LONGEST].removeprefix("v"), "--runtime"
    if facts.name:
        return runtime_kind(facts.name), facts.version, "the runtime itself"
    answers = [
        (kind, facts.packages[name], f"package {name}")
        for kind, names in _PACKAGES.items()
        for name in names
        if name in facts.packages
    ]
    if len(answers) == 1:
        return answers[0]
    kinds = {config.kind for config in facts.configs}
    return (kinds.pop() if len(kinds) == 1 and not answers else None), "", "no runtime answers"


def _likely(candidates: list[RuntimeConfig], facts: RuntimeFacts) -> list[RuntimeConfig]:
    """Of several places, k3s' or RKE2's where its runtime listens."""
    rancher = [candidate for candidate in candidates if candidate.files[0].startswith(_RANCHER)]
    if len(candidates) < 2 or not rancher:
        return candidates
    return rancher if _RANCHER_SOCKET in facts.sockets else candidates


def _unit(kind: RuntimeKind, main: str, units: tuple[str, ...]) -> str:
    if not main.startswith(_RANCHER):
        return _UNIT[kind]
    product = main.removeprefix(_RANCHER).partition("/")[0]
    return next((unit for unit in units if unit.startswith(product)), product)


def _several(configs: list[RuntimeConfig]) -> RuntimeNotConfigured:
    places = ", ".join(config.files[0] for config in configs)
    return not_configured(
        "several containerds are configured here",
        places,
        "none of them answers, so Tonnage cannot tell which kubelet uses",
        f"name its main file: --config {configs[0].files[0]}",
    )
