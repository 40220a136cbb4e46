"""The law of actions: what changes the world for the agent is done by the performer, and by nobody else.

A port that changes something is a Protocol of its own over one that only reads. Loops are given the one
that reads, so that the type checker refuses them the methods of the other; that they take the other is
refused here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scripts.hidden_imports import imports_of, texts_of
from scripts.law_reader import Module, is_in

CHANGES: Final[Mapping[str, frozenset[str]]] = {
    "KubernetesApi": frozenset({"create", "replace", "patch", "delete", "create_subresource"}),
    "DeviceBackend": frozenset({"apply"}),
    "Checkpoints": frozenset({"save", "add"}),
    "MpsDaemons": frozenset({"start", "stop", "show_ready", "close"}),
    "CdiFiles": frozenset({"write", "remove"}),
    "LabelLines": frozenset({"write"}),
    "StatusFiles": frozenset({"show"}),
    "HostPrograms": frozenset({"run"}),
}
"""Protocols that change something, each with all methods of its own."""
READS: Final = frozenset(
    {
        "CertificateIssuer",
        *("Clock", "KubernetesReader", "DeviceReader", "CheckpointReader", "MpsView", "CdiView", "HostView"),
        "ImageRegistry",
        *("KubeletHolds", "RuntimeView", "SoftwareView", "MachineFacts", "PluginService", "AgentConfigFile"),
        *("ClaimService", "ProcessView", "KubeletDevices"),
    }
)
"""Protocols that change nothing."""
SOCKETS: Final[Mapping[str, str]] = {
    "PluginSockets": "tonnage.agent.plugin.device_plugin",
    "ClaimSockets": "tonnage.agent.claims",
    "EarlySockets": "tonnage.agent.claims",
}
"""Left to whom it names: how the agent answers kubelet, not what it changes. Sockets end with the process,
nothing of them is to be done again after a crash, and the service that is handed over is no value."""
_CHANGING: Final = frozenset(
    method for port, methods in CHANGES.items() if port != "StatusFiles" for method in methods
)
"""What a port of a loop's own may not have: the real one would be handed over under its name."""
_PERFORMED: Final = ("tonnage.loop.effects", "tonnage.loop.events.recorder_over")
_PORTS: Final = "tonnage.ports"


def done_by_themselves(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """What a module of both takes that only the performer may have, or a port that nobody has sorted."""
    if is_in(name, _PORTS):
        yield from _unsorted(module)
    ours = is_in(name, "tonnage.agent") or is_in(name, "tonnage.controller")
    if not ours or name in ("tonnage.agent.main", "tonnage.controller.main"):
        return
    refused = {*CHANGES} | {port for port, room in SOCKETS.items() if not is_in(name, room)}
    for line, full in (*imports_of(module), *texts_of(module)):
        if any(is_in(full, each) for each in _PERFORMED):
            yield line, f"changes the world without the performer: {full}"
        elif is_in(full, _PORTS) and full.rpartition(".")[2] in refused:
            yield line, f"takes a port that only the performer may have: {full}"
    for line, text in texts_of(module):
        if (last := text.rpartition(".")[2]) in refused:
            yield line, f"takes a port that only the performer may have: {last}"
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in refused:
            yield node.lineno, f"takes a port that only the performer may have: {node.attr}"
        elif isinstance(node, ast.ClassDef) and _is_protocol(node):
            for method in sorted(_own_methods(node) & _CHANGING):
                yield node.lineno, f"has a port of its own that changes something: {method}"


def missing_ports(modules: Iterable[tuple[str, Module]]) -> Iterator[str]:
    """What is wrong with each port that is sorted here, and that is none."""
    ports = {
        node.name
        for name, module in modules
        if is_in(name, _PORTS)
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    for port in sorted({*CHANGES, *READS, *SOCKETS} - ports):
        yield f"there is no port {port}"


def _unsorted(module: Module) -> Iterator[tuple[int, str]]:
    """Ports that are said neither to read nor to change, or that change by other methods than is said."""
    for node in module.tree.body:
        if not isinstance(node, ast.ClassDef) or not _is_protocol(node):
            continue
        own = _own_methods(node)
        if node.name not in READS | SOCKETS.keys() and node.name not in CHANGES:
            yield node.lineno, f"the port {node.name} is said neither to read nor to change"
        elif node.name in CHANGES and own != CHANGES[node.name]:
            yield node.lineno, f"the port {node.name} changes by other methods than is said"


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.dump(base) for base in node.bases)


def _own_methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
